// What blocks of a stencil take.
#pragma once

#include "templates/stencil/geometry.hpp"

namespace vkfuse::schedule {

/// How often a block does what.
struct StencilCounts {
  std::int64_t volume = 1;    ///< results
  std::int64_t taps = 1;      ///< of each result
  std::int64_t rows = 1;      ///< of the window that are read
  std::int64_t row = 1;       ///< positions of such a row
  std::int64_t weights = 1;   ///< taps at which a weight is loaded
  std::int64_t unrolled = 1;  ///< taps of all results that a compiler writes out
};
StencilCounts counts_of(const StencilBlocks& blocks, const StencilParams& params);

/// Loads of a block's windows that a compiler meets side by side: of all rows that are unrolled. The block and its
/// accesses are decided.
std::int64_t unrolled_window_loads(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule);

/// Fills the costs of a schedule whose block, accesses and launch are decided.
void model_stencil(const Problem& problem, const StencilBlocks& blocks, Schedule& schedule);

}  // namespace vkfuse::schedule

// The tiles of the transpose template.
#pragma once

#include <cstdint>
#include <vector>

#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// One load that runs along other axes than the stores.
struct TransposedLoad {
  segment::ValueId value = 0;
  std::vector<int> run;  ///< loop axes along which its memory is consecutive inside the tile, innermost first
  int elements = 1;      ///< of one load instruction
  int packed = 1;        ///< neighbours along the columns of the tile that share a word of shared memory
};

/// The box of positions that a workgroup owns. Its columns are the innermost axis, or several that are
/// one axis to the chunks; its rows are all other axes.
struct TransposeParams {
  std::vector<std::int64_t> extents;  ///< along each loop axis
  int merged = 1;                     ///< loop axes that the columns are made of
  std::vector<TransposedLoad> loads;
};

}  // namespace vkfuse::schedule

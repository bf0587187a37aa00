// Whether a bound program computes what its graph says: samples of every output against the reference.
#pragma once

#include "bound.hpp"

namespace vkfuse::bench {

struct Verdict {
  std::string wrong;     ///< one sentence; empty if every sample is within its bound
  double max_ratio = 0;  ///< largest error / bound
  std::int64_t samples = 0;
};

/// Runs the program once on the first set. Outputs are filled with NaN bits before, so that an
/// element nobody wrote is found. `graph` is the one the program was made from.
Result<Verdict> verify(const Bound& bound, const ir::Graph& graph, const HostData& data, const BufferSets& sets);

}  // namespace vkfuse::bench

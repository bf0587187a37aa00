// Which layouts ops keep.
#pragma once

#include <span>
#include <vector>

#include "parallel/layouts.hpp"

namespace vkfuse::parallel {

/// What an op reads.
struct Operand {
  TensorType type;  ///< of the whole value
  Layout layout;    ///< that it has now
  double bytes = 0;
};

/// The layouts that an op reads and gives.
struct Placement {
  std::vector<Layout> operands;
  Layout result;
  std::vector<int> pending;  ///< axes of the mesh over which results of the ranks are parts of a sum (or maximum)
};

/// Of the placements that an op can have, the one for which ranks send the fewest bytes: to bring operands into it, and
/// for sums of parts. Where an op keeps nothing, every operand is whole.
Placement cheapest_placement(const ir::Node& node, std::span<const Operand> operands, const std::vector<int>& mesh);

}  // namespace vkfuse::parallel

// Gradients of a graph that is written down, as C has it.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::autodiff {

/// What gradients() is asked for, as values of a graph.
struct GraphRequest {
  std::span<const ir::NodeId> outputs, wrt;
  std::span<const ir::NodeId> cotangents;  ///< one for each output, or none: ones
  std::span<const ir::NodeId> constants;   ///< what no gradient goes through
};

/// Appends what gradients() makes of it, and returns the gradient of each of `wrt`. Nothing is appended where something
/// is wrong.
Result<std::vector<ir::NodeId>> append_gradients(ir::Graph& graph, const GraphRequest& request);

}  // namespace vkfuse::autodiff

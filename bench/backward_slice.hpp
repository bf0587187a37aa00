// How much work samples of a value are for the reference.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::bench {

/// About how many elements the reference evaluates for `count` neighbouring elements of a value, all nodes of
/// their cone together. What neighbours need of a node is taken to be a box; sizes in the graph are numbers.
Result<double> backward_slice_elements(const ir::Graph& graph, ir::NodeId value, std::int64_t count);

}  // namespace vkfuse::bench

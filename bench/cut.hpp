// A graph as the kernels of a framework that stores some of its values.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::bench {

/// One graph per value of `stored`, in order, and a last one for the outputs that are not among them. Each reads
/// the graph's inputs and what earlier ones wrote: a stored value is an output named as the graph's own output is,
/// or "stored" and its id.
Result<std::vector<ir::Graph>> cut(const ir::Graph& graph, std::vector<ir::NodeId> stored);

}  // namespace vkfuse::bench

// Graphs that planners are compared on: folds, products, broadcasts, transposes and elementwise ops over shared values.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::test {

/// A valid graph of exactly `ops` nodes that some kernel has to compute, views not counted.
ir::Graph random_planner_graph(std::uint64_t seed, int ops);

/// Layers of a transformer, one after the other, each with weights of its own: 27 nodes and some views a layer.
ir::Graph layered_graph(int layers);

}  // namespace vkfuse::test

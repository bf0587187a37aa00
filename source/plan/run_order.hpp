// Kernels of a graph in another order, some of them more than once.
#pragma once

#include "plan/plan.hpp"

namespace vkfuse::plan {

/// What comes of it: a graph in which every run of a kernel has new nodes, and the kernels in running order.
struct OrderedSteps {
  ir::Graph graph;
  std::vector<segment::Segment> segments;
  std::vector<std::optional<ir::NodeId>> places;  ///< of each node, where its value is computed first; if it is
};

/// Each reader takes what was computed last, outputs are of the first run of their kernel, and what nothing reads is
/// not computed. One sentence where a kernel is missing, reads what is not there, or runs for nothing.
Result<OrderedSteps> run_in_order(const ir::Graph& graph, std::span<const segment::Segment> segments,
                                  const StepOrder& order);

}  // namespace vkfuse::plan

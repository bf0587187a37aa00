// Results that are stored over what they are computed from.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// By value of the loops: whether it is computed from `read`, or loads it.
std::vector<bool> computed_from(const segment::Loops& loops, ir::NodeId read);

/// Whether an output of the graph may be stored over an input that other results of the kernel are computed from, too:
/// an optimiser's moments. Each element of the output is computed from the input's at the same position, so that its
/// store follows that load, and the text of a pointwise kernel loads each element once. The input is not declared
/// readonly: a compiler may then not load it again.
bool replaces_input(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule, ir::NodeId read,
                    ir::NodeId stored);

}  // namespace vkfuse::schedule

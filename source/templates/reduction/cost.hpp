// What a reduction moves and executes, and how long that is modelled to take.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The axes of rows.
segment::AxisSet parallel_axes(const segment::Loops& loops);

/// Adds what is executed to the cost of a schedule, and fills in its bytes, registers and modelled time.
void model_reduction(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule

// What a tile of attention takes.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Fills in what is executed, the registers of a thread and the modelled time of a schedule whose accesses are planned.
void model_attention(const ir::Graph& graph, const segment::Loops& loops, const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule

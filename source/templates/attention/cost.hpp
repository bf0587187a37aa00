// What a tile of attention takes.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Fills in what is executed, the registers of a thread and the modelled time of a schedule whose accesses are planned.
void model_attention(const Problem& problem, Schedule& schedule);

}  // namespace vkfuse::schedule

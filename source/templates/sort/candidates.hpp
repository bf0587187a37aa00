// What planning asks of the sort template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

Result<Schedule> best_sort(const Problem& problem);
/// Keys that a workgroup sorts at a time, and its threads.
std::vector<Tuning> sort_tunings(const Schedule& standard, const Caps& caps);

}  // namespace vkfuse::schedule

// What planning asks of the sort template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

Result<Schedule> best_sort(const Problem& problem);
/// The schedule with the blocks and dispatches of one at other sizes; nothing where these want others.
std::optional<Schedule> sort_at_other_sizes(const Problem& problem, const Schedule& requested);
/// Keys that a workgroup sorts at a time, and its threads.
std::vector<Tuning> sort_tunings(const Schedule& standard, const Caps& caps);

}  // namespace vkfuse::schedule

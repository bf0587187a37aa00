// What planning asks of the stencil template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where reductions are not over small windows.
std::optional<Schedule> best_stencil(const Problem& problem);
/// The schedule with the blocks of one at other sizes; nothing where these allow no such blocks.
std::optional<Schedule> stencil_at_other_sizes(const Problem& problem, const Schedule& requested);
/// Blocks of other shapes, and workgroups.
std::vector<Tuning> stencil_tunings(const Schedule& standard, const Caps& caps);
void describe_stencil(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

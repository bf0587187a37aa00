// What planning asks of the stencil template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where reductions are not over small windows.
std::optional<Schedule> best_stencil(const Problem& problem);
/// Blocks of other shapes, and workgroups.
std::vector<Tuning> stencil_tunings(const Schedule& standard, const Caps& caps);
void describe_stencil(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

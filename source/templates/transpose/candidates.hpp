// What planning asks of the transpose template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where no load runs along another axis than the stores.
std::optional<Schedule> best_transpose(const Problem& problem);
void describe_transpose(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

// What planning asks about kernels that the user wrote.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The one schedule there is.
Result<Schedule> best_custom(const Problem& problem);

}  // namespace vkfuse::schedule

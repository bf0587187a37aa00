// What planning asks of the pointwise template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The best schedule, or the limit of the device that there is none within.
Result<Schedule> best_pointwise(const Problem& problem);
std::optional<Schedule> pointwise_at_other_sizes(const Problem& problem, const Schedule& model);
/// Workgroups, vectors and chunks beside the ones that the model chooses, for who measures; of this template and of
/// transposes.
std::vector<Tuning> pointwise_tunings(const Schedule& standard, const Caps& caps);

}  // namespace vkfuse::schedule

// What planning asks of the reduction template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

Result<Schedule> best_reduction(const Problem& problem);
std::optional<Schedule> reduction_at_other_sizes(const Problem& problem, const Schedule& model);
/// Around the threads of the default: threads and workgroups with rows kept or read again, at the two wider accesses;
/// loads in flight, with reductions in one pass and without; then splits.
std::vector<Tuning> reduction_tunings(const Schedule& standard, const Caps& caps);
/// The bounds of the reference count on it (base/numerics.hpp); only a tuning can break it.
bool keeps_chains_short(const segment::Loops& loops, const Schedule& schedule);
void describe_reduction(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

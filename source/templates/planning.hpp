// Loops -> schedule: which template runs them best on a target. The entry to all templates.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The best schedule of these loops, or the reason why they cannot be one kernel on this target (a full
/// sentence naming the limit). At other sizes, which at_other_sizes() is asked for, the `varying` axes have others.
Result<Schedule> best(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                      const Tuning& tuning = {}, segment::AxisSet varying = 0);

/// The same choices at other sizes: `loops` are scheduled_loops(..., model), and launch and costs are theirs. Nothing
/// where the choices do not fit them, so that best() has to choose again.
std::optional<Schedule> at_other_sizes(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                                       const Tuning& tuning, const Schedule& model);

/// Tunings that may lead to other schedules of the same loops than `standard`, many of them to the same; none for a
/// kernel of the user's.
std::vector<Tuning> tunings_near(const Schedule& standard, const Caps& caps);

/// Whether sums are added up in chains as short as the bounds of the reference count on (base/numerics.hpp); only a
/// tuning can break it.
bool keeps_sum_chains_short(const segment::Loops& loops, const Schedule& schedule);

/// What the template has chosen beyond what every kernel chooses.
Description describe(const Schedule& schedule);

}  // namespace vkfuse::schedule

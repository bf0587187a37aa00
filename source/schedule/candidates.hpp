// Schedules beside the one that the model chooses, for those who measure.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Tunings that may lead to other schedules of the same loops than `standard`, many of them to the same; none for a
/// kernel of the user's.
std::vector<Tuning> tunings_near(const Schedule& standard, const Caps& caps);

/// The bounds of the reference count on it (base/numerics.hpp); only a tuning can break it.
bool keeps_chains_short(const segment::Loops& loops, const Schedule& schedule);

/// A tuning in words: equal texts are equal tunings.
std::string to_text(const Tuning& tuning);

}  // namespace vkfuse::schedule

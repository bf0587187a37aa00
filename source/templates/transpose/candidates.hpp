// What planning asks of the transpose template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where no load runs along another axis than the stores.
std::optional<Schedule> best_transpose(const Problem& problem);
/// The schedule with the tile of one at other sizes; nothing where these allow no such tile.
std::optional<Schedule> transpose_at_other_sizes(const Problem& problem, const Schedule& requested);
void describe_transpose(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

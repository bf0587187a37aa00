// What a schedule may not exceed. Shared by the templates.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Limits that every template has: buffers, their sizes, axes, and `iterations` of all loops that one thread goes
/// through, about and rather too many.
Result<void> check_limits(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                          const Schedule& schedule, std::int64_t iterations = 0);

/// Whether a kernel has room for so many buffers beside those of the values: partial results of workgroups are one,
/// their counts another.
bool has_room_for(std::size_t more, const segment::Loops& loops, const Target& target);

/// Who computes what workgroups that share one of `shared` tiles or rows have left parts of: the last of them to be
/// done; or a dispatch more, where the driver hides stores from it, or counts have no room.
void choose_who_joins(const segment::Loops& loops, const Target& target, std::int64_t shared, Schedule& schedule);

/// Whether a buffer of so many bytes, which has the value, can be bound.
Result<void> check_buffer_size(const ir::Graph& graph, const Target& target, ir::NodeId id, std::int64_t bytes);

/// Threads of the largest workgroup that tunings try.
int largest_workgroup(const Caps& caps);

}  // namespace vkfuse::schedule

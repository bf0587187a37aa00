// What a schedule may not exceed. Shared by the templates.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Limits that every template has: buffers, their sizes, axes, and `iterations` of all loops that one thread goes
/// through, about and rather too many.
Result<void> check_limits(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                          const Schedule& schedule, std::int64_t iterations = 0);

/// Whether a buffer of so many bytes, which has the value, can be bound.
Result<void> check_buffer_size(const ir::Graph& graph, const Target& target, ir::NodeId id, std::int64_t bytes);

/// Threads of the largest workgroup that tunings try.
int largest_workgroup(const Caps& caps);

}  // namespace vkfuse::schedule

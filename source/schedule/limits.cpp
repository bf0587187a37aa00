#include "schedule/limits.hpp"

#include <algorithm>
#include <set>

#include "index/arithmetic.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

Result<void> check_buffer_size(const ir::Graph& graph, const Target& target, ir::NodeId id, std::int64_t bytes) {
  if (static_cast<std::uint64_t>(bytes) <= target.caps.memory.storage_buffer_range) return {};
  return make_error(
      ErrorCode::out_of_memory,
      "The value %{} of type {} takes {} bytes, and one storage buffer of this device holds {} (storage_range).", id,
      to_text(graph.node(id).type), bytes, target.caps.memory.storage_buffer_range);
}

namespace {

/// Whether every buffer of the segment, and what it leaves for a later dispatch, is within what can be bound.
Result<void> check_buffer_sizes(const ir::Graph& graph, const Loops& loops, const Target& target,
                                const Schedule& schedule) {
  if (schedule.scratch_bytes > 0 &&
      static_cast<std::uint64_t>(schedule.scratch_bytes) > target.caps.memory.storage_buffer_range) {
    return unsupported(
        "The segment leaves {} bytes of partial results, and one storage buffer of this device holds {} "
        "(storage_range).",
        schedule.scratch_bytes, target.caps.memory.storage_buffer_range);
  }
  const auto fits = [&](ir::NodeId id, std::int64_t elements) -> Result<void> {
    // Loops know no zeros: of nothing they count the other dimensions.
    const Shape& shape = graph.node(id).type.shape;
    if (std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) return {};
    // A load whose guards never hold may name positions before the buffer alone.
    const std::int64_t bytes =
        index::saturating_mul(std::max<std::int64_t>(elements, 0), size_of(graph.node(id).type.dtype));
    return check_buffer_size(graph, target, id, bytes);
  };
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load)
      VKF_CHECK_OK(fits(value.node, std::min(index::saturating_add(index::interval_of(value.offset).high, 1),
                                             value.buffer_elements)));  // beyond is behind a guard
  }
  for (const segment::Store& store : loops.stores)
    VKF_CHECK_OK(fits(
        store.node, std::min(index::saturating_add(index::interval_of(store.offset).high, 1), store.buffer_elements)));
  return {};
}

std::size_t buffers_of_values(const Loops& loops) {
  std::set<ir::NodeId> written;
  for (const segment::Store& store : loops.stores) written.insert(store.node);
  return buffers_read(loops).size() + written.size();
}

}  // namespace

bool has_room_for(std::size_t more, const Loops& loops, const Target& target) {
  return buffers_of_values(loops) + more <= target.caps.memory.storage_buffers;
}

void choose_who_joins(const Loops& loops, const Target& target, std::int64_t shared, Schedule& schedule) {
  const bool has_room = has_room_for(2, loops, target) &&
                        schedule.shared_bytes + Schedule::kBytesOfCount <= target.caps.workgroup.shared_memory_bytes;
  if (has_room && !target.workarounds.hides_stores)
    schedule.count_workgroups(shared);
  else
    ++schedule.dispatches;
}

Result<void> check_limits(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule,
                          std::int64_t iterations) {
  const std::size_t buffers =
      buffers_of_values(loops) + (schedule.scratch_bytes > 0 ? 1 : 0) + (schedule.counter_bytes > 0 ? 1 : 0);
  if (buffers > target.caps.memory.storage_buffers) {
    return unsupported("The segment needs {} storage buffers, and the device allows {} per shader.", buffers,
                       target.caps.memory.storage_buffers);
  }
  // Of nothing the other dimensions are counted, and nothing is launched.
  if (!loops.empty) VKF_CHECK_OK(check_buffer_sizes(graph, loops, target, schedule));
  const std::uint32_t largest = std::min(target.caps.workgroup.max_invocations, target.caps.workgroup.max_x);
  if (schedule.workgroup > static_cast<std::int64_t>(largest)) {
    return unsupported(
        "The segment needs workgroups of {} invocations, and this device has {} (max_invocations, max_workgroup_x).",
        schedule.workgroup, largest);
  }
  if (schedule.shared_bytes > static_cast<std::int64_t>(target.caps.workgroup.shared_memory_bytes)) {
    return unsupported(
        "The segment needs {} bytes of shared memory, and a workgroup of this device has {} (shared_memory_bytes).",
        schedule.shared_bytes, target.caps.workgroup.shared_memory_bytes);
  }
  const std::int64_t groups_limit =
      static_cast<std::int64_t>(target.caps.workgroup.max_groups_per_axis) * target.caps.workgroup.max_groups_per_axis;
  if (!loops.empty && schedule.launch.workgroups > groups_limit) {
    return unsupported("The segment needs {} workgroups, and one dispatch of this device has {}.",
                       schedule.launch.workgroups, groups_limit);
  }
  if (!loops.empty && iterations > target.workarounds.leaves_loops_after) {
    return unsupported(
        "An invocation of the segment goes through {} iterations of loops, and '{}' leaves loops after about {}.",
        iterations, target.name, target.workarounds.leaves_loops_after);
  }
  return {};
}

int largest_workgroup(const Caps& caps) { return static_cast<int>(std::min(usable_invocations(caps), 1024u)); }

}  // namespace vkfuse::schedule

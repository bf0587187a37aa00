// Kernels that the user wrote: nothing is chosen, and what they move is taken to be their operands and their result,
// once.
#include "templates/custom/candidates.hpp"
#include "schedule/access.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

Result<Schedule> best_custom(const Problem& problem) {
  const ir::Graph& graph = problem.graph;
  const segment::Loops& loops = problem.loops;
  const Target& target = problem.target;
  const ir::NodeId node = loops.stores[0].node;
  const auto& kernel = std::get<ir::KernelPayload>(graph.node(node).payload);
  const std::size_t buffers = graph.node(node).operands.size() + 1;
  if (buffers > target.caps.memory.storage_buffers) {
    return unsupported("The custom kernel '{}' needs {} storage buffers, and the device allows {} per shader.",
                       kernel.name, buffers, target.caps.memory.storage_buffers);
  }
  const auto most = std::min(target.caps.workgroup.max_invocations, target.caps.workgroup.max_x);
  if (static_cast<std::uint32_t>(kernel.workgroup) > most) {
    return unsupported("The custom kernel '{}' has workgroups of {} invocations, and the device allows {}.",
                       kernel.name, kernel.workgroup, most);
  }
  Schedule schedule;
  schedule.params = CustomParams{};
  schedule.workgroup = kernel.workgroup;
  schedule.loads.resize(loops.values.size());
  const auto bytes_of = [&](ir::NodeId id, std::int64_t elements) {
    return elements * size_of(graph.node(id).type.dtype);
  };
  const auto fits = [&](ir::NodeId id, std::int64_t elements) -> Result<void> {
    if (static_cast<std::uint64_t>(bytes_of(id, elements)) <= target.caps.memory.storage_buffer_range) return {};
    return make_error(
        ErrorCode::out_of_memory,
        "The value %{} of type {} takes {} bytes, and one storage buffer of this device holds {} (storage_range).", id,
        to_text(graph.node(id).type), bytes_of(id, elements), target.caps.memory.storage_buffer_range);
  };
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const segment::Value& value = loops.values[i];
    if (value.kind != segment::Value::Kind::load) continue;
    VKF_CHECK_OK(fits(value.node, value.buffer_elements));
    schedule.loads[i] = {AccessKind::opaque, size_of(graph.node(value.node).type.dtype)};
    schedule.cost.bytes_read += bytes_of(value.node, value.buffer_elements);
    schedule.cost.loads_executed += value.buffer_elements;
  }
  const std::int64_t elements = loops.stores[0].buffer_elements;
  VKF_CHECK_OK(fits(node, elements));
  schedule.stores = {{AccessKind::opaque, size_of(graph.node(node).type.dtype)}};
  schedule.cost.bytes_written = bytes_of(node, elements);
  schedule.cost.stores_executed = elements;
  schedule.cost.transactions = ceil_div(schedule.cost.bytes_read, 128) + ceil_div(schedule.cost.bytes_written, 128);
  schedule.launch.elements = schedule.launch.chunks = elements;
  std::int64_t across = 1, down = 1;
  for (std::size_t i = 0; i < kernel.tile.size(); ++i) {
    std::int64_t& groups = i + 1 == kernel.tile.size() ? across : down;
    groups *= ceil_div(loops.axes[i].size, kernel.tile[i]);
    if (groups > static_cast<std::int64_t>(target.caps.workgroup.max_groups_per_axis)) {
      return unsupported(
          "The custom kernel '{}' takes {} workgroups along an axis of its launch, and the device allows {}.",
          kernel.name, groups, target.caps.workgroup.max_groups_per_axis);
    }
  }
  schedule.launch.workgroups_x = elements == 0 ? 0 : across;
  schedule.launch.workgroups = schedule.launch.workgroups_x * down;
  const double computing = static_cast<double>(elements) * static_cast<double>(graph.node(node).op->cost);
  schedule.cost.modelled_us =
      modelled_us(costs_of(target), 1, static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written),
                  computing, schedule.cost.loads_executed + elements);
  return schedule;
}

}  // namespace vkfuse::schedule

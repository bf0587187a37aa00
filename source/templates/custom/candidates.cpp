// Kernels that the user wrote: nothing is chosen, and what they move is taken to be their operands and their result,
// once.
#include "templates/custom/candidates.hpp"

#include <algorithm>

#include "schedule/limits.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

namespace {

Result<void> check_device(const Target& target, const ir::KernelPayload& kernel, std::size_t buffers) {
  if (buffers > target.caps.memory.storage_buffers) {
    return unsupported("The custom kernel '{}' needs {} storage buffers, and the device allows {} per shader.",
                       kernel.name, buffers, target.caps.memory.storage_buffers);
  }
  const auto most = std::min(target.caps.workgroup.max_invocations, target.caps.workgroup.max_x);
  if (static_cast<std::uint32_t>(kernel.workgroup) > most) {
    return unsupported("The custom kernel '{}' has workgroups of {} invocations, and the device allows {}.",
                       kernel.name, kernel.workgroup, most);
  }
  return {};
}

/// What the kernel reads and writes: whole buffers.
Result<void> plan_buffers(const Problem& problem, Schedule& schedule) {
  const auto bytes_of = [&](ir::NodeId id, std::int64_t elements) {
    return elements * size_of(problem.graph.node(id).type.dtype);
  };
  const segment::Loops& loops = problem.loops;
  schedule.loads.resize(loops.values.size());
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const segment::Value& value = loops.values[i];
    if (value.kind != segment::Value::Kind::load) continue;
    const std::int64_t bytes = bytes_of(value.node, value.buffer_elements);
    VKF_CHECK_OK(check_buffer_size(problem.graph, problem.target, value.node, bytes));
    schedule.loads[i] = {AccessKind::opaque, size_of(problem.graph.node(value.node).type.dtype)};
    schedule.cost.bytes_read += bytes;
    schedule.cost.loads_executed += value.buffer_elements;
  }
  const segment::Store& store = loops.stores[0];
  const std::int64_t bytes = bytes_of(store.node, store.buffer_elements);
  VKF_CHECK_OK(check_buffer_size(problem.graph, problem.target, store.node, bytes));
  schedule.stores = {{AccessKind::opaque, size_of(problem.graph.node(store.node).type.dtype)}};
  schedule.cost.bytes_written = bytes;
  schedule.cost.stores_executed = store.buffer_elements;
  schedule.cost.transactions = ceil_div(schedule.cost.bytes_read, 128) + ceil_div(schedule.cost.bytes_written, 128);
  return {};
}

/// A workgroup for each of the user's tiles of the result.
Result<void> plan_launch(const Problem& problem, const ir::KernelPayload& kernel, Schedule& schedule) {
  const std::int64_t elements = problem.loops.stores[0].buffer_elements;
  const std::uint32_t most = problem.target.caps.workgroup.max_groups_per_axis;
  schedule.launch.elements = schedule.launch.chunks = elements;
  std::int64_t across = 1, down = 1;
  for (std::size_t i = 0; i < kernel.tile.size(); ++i) {
    std::int64_t& groups = i + 1 == kernel.tile.size() ? across : down;
    groups *= ceil_div(problem.loops.axes[i].size, kernel.tile[i]);
    if (groups > static_cast<std::int64_t>(most)) {
      return unsupported(
          "The custom kernel '{}' takes {} workgroups along an axis of its launch, and the device allows {}.",
          kernel.name, groups, most);
    }
  }
  schedule.launch.workgroups_x = elements == 0 ? 0 : across;
  schedule.launch.workgroups = schedule.launch.workgroups_x * down;
  return {};
}

}  // namespace

Result<Schedule> best_custom(const Problem& problem) {
  const ir::Node& node = problem.graph.node(problem.loops.stores[0].node);
  const auto& kernel = std::get<ir::KernelPayload>(node.payload);
  VKF_CHECK_OK(check_device(problem.target, kernel, node.operands.size() + 1));
  Schedule schedule;
  schedule.params = CustomParams{};
  schedule.workgroup = kernel.workgroup;
  VKF_CHECK_OK(plan_buffers(problem, schedule));
  VKF_CHECK_OK(plan_launch(problem, kernel, schedule));
  const std::int64_t elements = problem.loops.stores[0].buffer_elements;
  const double computing = static_cast<double>(elements) * static_cast<double>(node.op->cost);
  schedule.cost.modelled_us = modelled_us(costs_of(problem.target), 1,
                                          static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written),
                                          computing, schedule.cost.loads_executed + elements);
  return schedule;
}

}  // namespace vkfuse::schedule

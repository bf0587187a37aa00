#include "templates/reduction/cost.hpp"

#include <algorithm>

#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"
#include "templates/reduction/registers.hpp"
#include "templates/reduction/visited_columns.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

/// What reading again takes, where reading from memory is 1: less where the rows in flight fit in caches.
double cost_of_rereading(const Loops& loops, const Target& target, const Schedule& schedule) {
  const DeviceModel& model = device_model(target);
  const double row_bytes = static_cast<double>(schedule.cost.bytes_read) /
                           static_cast<double>(std::max<std::int64_t>(1, loops.parallel_count()));
  const double rows_in_flight =
      std::min<double>(static_cast<double>(loops.parallel_count()), model.occupancy.rows_in_flight * model.units.count);
  return row_bytes * rows_in_flight < model.caches.bytes ? 0.25 : 1.0;
}

/// How often all threads together execute an access along these axes, where so many chunks of a row are visited. All
/// threads of a row find what bounds them.
std::int64_t chunks_executed(const Loops& loops, const Schedule& schedule, std::int64_t visited,
                             segment::AxisSet axes) {
  const bool chosen = visited < schedule.launch.reduction_chunks;
  const std::int64_t of_row = chosen ? schedule.as<ReductionParams>().reduction_threads : 1;
  return schedule.launch.parallel_chunks * ((axes & loops.columns()) != 0 ? visited : of_row);
}

/// In how many passes a load is executed; once where what it loads stays in registers.
int times_loaded(const Loops& loops, const Schedule& schedule, std::size_t load) {
  const AccessKind access = schedule.loads[load].kind;
  const bool kept =
      schedule.as<ReductionParams>().persistent && (access == AccessKind::vector || access == AccessKind::unaligned);
  return loops.per_element(loops.values[load]) && !kept ? std::max(1, passes_using(loops, load)) : 1;
}

/// How often what a load moves comes from memory: again for each position of an outer axis of rows that it does not
/// have, as a matrix for each of several vectors, where the last cache does not keep what lies between. One after the
/// other, rows go through their axes as these are ordered.
double times_from_memory(const Loops& loops, const Value& load, std::int64_t touched, const Caches& caches) {
  double times = 1, between = static_cast<double>(touched);
  segment::AxisSet inner = load.axes & ~loops.columns();
  for (int axis = 0; axis < static_cast<int>(loops.axes.size()); ++axis) {
    const segment::AxisSet own = segment::AxisSet{1} << axis;
    if (loops.axes[static_cast<std::size_t>(axis)].role != segment::Role::parallel) continue;
    const auto size = static_cast<double>(std::max<std::int64_t>(1, loops.axes[static_cast<std::size_t>(axis)].size));
    if ((load.axes & own) != 0) {
      between /= size;
      inner &= ~own;
    } else if (inner != 0 && between > caches.bytes) {
      times *= size;
    }
  }
  return times;
}

/// A load or a store, and what another cache line takes, relative to the first.
struct Access {
  const index::Expr& offset;
  const AccessPlan& plan;
  int element_bytes = 4;
  double of_line = 0;
};
// Of single elements; fitted to norms over channels that are read, or stored, apart on an H200: sectors that are stored
// in part are read before.
constexpr double kOfLoadedLine = 0.2, kOfStoredLine = 0.9;

/// How many times as long as one of neighbours an access of a GPU takes where what neighbouring threads load or store
/// is apart: the vectors of chunks of several, or single elements of chunks that lie along an axis with a stride.
double lines_of_neighbours(const Access& access, const Schedule& schedule, const Target& target) {
  if (target.type == DeviceType::cpu) return 1;
  const double line = device_model(target).units.cache_line_bytes;
  const double apart = static_cast<double>(schedule.chunk_size) / access.plan.repeat * access.element_bytes;
  if (access.plan.kind == AccessKind::vector) return std::max(1.0, std::min(apart, line) / access.plan.vector_bytes);
  if (!target.costs) return 1;  // where no cost was measured, bytes decide
  const auto stride = index::stride_of(access.offset, schedule.vector_axis);
  if (access.plan.kind != AccessKind::element || !stride || std::abs(*stride) <= 1) return 1;
  const auto& params = schedule.as<ReductionParams>();
  const double threads = std::min<double>(std::max(8u, target.caps.subgroup.size),
                                          params.vector_rows ? params.parallel_threads : params.reduction_threads);
  const double lines = threads * apart * static_cast<double>(std::abs(*stride)) / line;
  return 1 + access.of_line * (std::clamp(lines, 1.0, threads) - 1);
}

/// Stores, in accesses of neighbours.
double count_stores(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule,
                    std::int64_t visited) {
  const int subgroup = static_cast<int>(std::max(8u, target.caps.subgroup.size));
  double accesses = 0;
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const AccessPlan& plan = schedule.stores[i];
    const int bytes = size_of(graph.node(loops.stores[i].node).type.dtype);
    const std::int64_t executed = chunks_executed(loops, schedule, visited, loops.stores[i].axes);
    const std::int64_t stores = executed * instructions(plan, bytes, schedule.chunk_size);
    const bool is_apart = plan.kind == AccessKind::element;
    schedule.cost.stores_executed += stores;
    schedule.cost.transactions += ceil_div(executed, subgroup) * lines(plan, bytes, schedule.chunk_size, subgroup);
    accesses +=
        static_cast<double>(stores) *
        (is_apart ? lines_of_neighbours({loops.stores[i].offset, plan, bytes, kOfStoredLine}, schedule, target) : 1);
  }
  return accesses;
}

}  // namespace

segment::AxisSet parallel_axes(const Loops& loops) {
  segment::AxisSet rows = 0;
  for (std::size_t i = 0; i < loops.axes.size(); ++i)
    rows |= loops.axes[i].role == segment::Role::parallel ? segment::AxisSet{1} << i : 0;
  return rows;
}

void model_reduction(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  count_bytes(graph, loops, schedule);
  const int subgroup = static_cast<int>(std::max(8u, target.caps.subgroup.size));
  double traffic = static_cast<double>(schedule.cost.bytes_written), accesses = 0;
  const double again = cost_of_rereading(loops, target, schedule);
  const std::int64_t visited = visited_chunks(graph, loops, schedule);
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(value.node).type.dtype);
    const int times = times_loaded(loops, schedule, i);
    const std::int64_t touched = segment::elements_touched(loops, value) * bytes;
    const std::int64_t executed = chunks_executed(loops, schedule, visited, value.axes);
    const double walks = times_from_memory(loops, value, touched, device_model(target).caches);
    traffic += static_cast<double>(touched) * (walks + (times - 1) * again);
    if (again == 1.0) schedule.cost.bytes_read_again += touched * (times - 1);
    const std::int64_t loads = times * executed * instructions(schedule.loads[i], bytes, schedule.chunk_size);
    schedule.cost.loads_executed += loads;
    accesses += static_cast<double>(loads) *
                lines_of_neighbours({value.offset, schedule.loads[i], bytes, kOfLoadedLine}, schedule, target);
    schedule.cost.transactions +=
        times * ceil_div(executed, subgroup) * lines(schedule.loads[i], bytes, schedule.chunk_size, subgroup);
  }
  accesses += count_stores(graph, loops, target, schedule, visited);
  schedule.cost.registers = estimated_reduction_registers(graph, loops, schedule);
  const CostModel costs = costs_of(target);
  const double share =
      static_cast<double>(visited) / static_cast<double>(std::max<std::int64_t>(1, schedule.launch.reduction_chunks));
  schedule.cost.modelled_us =
      modelled_us(costs, schedule.dispatches, traffic, compute_cost(graph, loops, share, parallel_axes(loops)),
                  static_cast<std::int64_t>(accesses));
}

}  // namespace vkfuse::schedule

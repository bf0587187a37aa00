// The pointwise template: every invocation owns whole chunks of consecutive elements, so that loads
// and stores are vectors and neighbouring invocations touch neighbouring vectors.
#include <algorithm>

#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "schedule/traffic.hpp"
#include "templates/pointwise/candidates.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

/// Workgroup sizes, measured on an H200 (docs/experiments.md). Starting a workgroup costs about as much
/// as 2.5 KiB of traffic there, so large ones win; with much arithmetic they leave too few to overlap.
int preferred_workgroup(const Target& target, double cost, const Schedule& schedule) {
  if (target.type == DeviceType::cpu) return 256;
  int size = cost > 8 ? 512 : 1024;
  // A small launch is spread over the device instead.
  const std::int64_t per_invocation = std::max<std::int64_t>(1, schedule.launch.chunks / schedule.unroll_factor);
  while (size > 64 && per_invocation / size < 256) size /= 2;
  return size;
}

int estimate_registers(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  // Loaded vectors of all chunks in flight stay live until used; one element's temporaries beyond.
  int words = 12;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    if (loops.values[i].kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(loops.values[i].node).type.dtype);
    words +=
        schedule.unroll_factor * (schedule.loads[i].kind == AccessKind::vector ? schedule.chunk_size * bytes / 4 : 1);
  }
  for (const segment::Store& store : loops.stores)
    words += schedule.chunk_size * size_of(graph.node(store.node).type.dtype) / 4;
  return words;
}

/// Where it is known what a thread has: fewer chunks in flight, and workgroups whose threads all have theirs.
void fit_registers(const Problem& problem, Schedule& schedule) {
  if (problem.target.caps.registers.per_thread == kUnknownRegistersPerThread) return;
  const auto registers = [&] { return estimate_registers(problem.graph, problem.loops, schedule); };
  while (!problem.tuning.unroll_factor && schedule.unroll_factor > 1 && registers_over(problem.target, registers()) > 0)
    schedule.unroll_factor /= 2;
  while (!problem.tuning.workgroup && schedule.workgroup > 64 &&
         overfills_registers(problem.target, registers(), schedule.workgroup))
    schedule.workgroup /= 2;
}

void choose_launch(const Problem& problem, Schedule& schedule) {
  const int limit = static_cast<int>(usable_invocations(problem.target.caps));
  int read_bytes = 0;
  bool by_element = schedule.crosses_rows;
  for (std::size_t i = 0; i < problem.loops.values.size(); ++i) {
    const Value& value = problem.loops.values[i];
    if (value.kind != Value::Kind::load) continue;
    by_element = by_element || schedule.loads[i].kind == AccessKind::element || !value.data.empty();
    // Rows that are broadcast come from cache: they need no traffic in flight.
    const bool streams = segment::elements_touched(problem.loops, value) > schedule.launch.elements / 2;
    if (schedule.loads[i].kind == AccessKind::vector && streams)
      read_bytes += schedule.chunk_size * size_of(problem.graph.node(value.node).type.dtype);
  }
  // A memory-bound kernel needs latency x bandwidth bytes in flight. On a GPU 32 bytes of loads per
  // invocation cover that at full occupancy, and more only costs registers; a CPU gains nothing.
  int flight = 1;
  if (problem.target.type != DeviceType::cpu && !by_element) {
    while (flight < 4 && flight * std::max(read_bytes, 8) < 32) flight *= 2;
    // But never at the price of idle compute units: keep enough workgroups to fill a large device.
    while (flight > 1 && schedule.launch.chunks / (std::int64_t{256} * flight) < 1024) flight /= 2;
  }
  schedule.unroll_factor = by_element ? 1 : problem.tuning.unroll_factor.value_or(flight);
  const double cost = schedule.launch.elements > 0
                          ? compute_cost(problem.graph, problem.loops) / static_cast<double>(schedule.launch.elements)
                          : 0;
  schedule.workgroup =
      std::min(problem.tuning.workgroup.value_or(preferred_workgroup(problem.target, cost, schedule)), limit);
  fit_registers(problem, schedule);
  schedule.launch.workgroups =
      ceil_div(schedule.launch.chunks, static_cast<std::int64_t>(schedule.workgroup) * schedule.unroll_factor);
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
}

void model(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  count_bytes(graph, loops, schedule);
  const int subgroup = static_cast<int>(std::max(8u, target.caps.subgroup.size));
  const std::int64_t groups = ceil_div(schedule.launch.chunks, subgroup);
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    if (loops.values[i].kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(loops.values[i].node).type.dtype);
    schedule.cost.loads_executed +=
        schedule.launch.chunks * instructions(schedule.loads[i], bytes, schedule.chunk_size);
    schedule.cost.transactions += groups * lines(schedule.loads[i], bytes, schedule.chunk_size, subgroup);
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const int bytes = size_of(graph.node(loops.stores[i].node).type.dtype);
    schedule.cost.stores_executed +=
        schedule.launch.chunks * instructions(schedule.stores[i], bytes, schedule.chunk_size);
    schedule.cost.transactions += groups * lines(schedule.stores[i], bytes, schedule.chunk_size, subgroup);
  }
  schedule.cost.registers = estimate_registers(graph, loops, schedule);
  schedule.cost.modelled_us =
      modelled_us(costs_of(target), 1, traffic(graph, loops, target, schedule), compute_cost(graph, loops),
                  schedule.cost.loads_executed + schedule.cost.stores_executed);
}

/// The schedule with chunks of that many elements.
Result<Schedule> with_chunks_of(int chunk_size, bool crosses_rows, const Problem& problem) {
  Schedule schedule;
  schedule.launch.elements = problem.loops.empty ? 0 : problem.loops.count();
  schedule.vector_axis = static_cast<int>(problem.loops.axes.size()) - 1;
  schedule.chunk_size = chunk_size;
  schedule.crosses_rows = crosses_rows;
  schedule.launch.chunks = ceil_div(schedule.launch.elements, schedule.chunk_size);
  schedule.full_chunks = schedule.launch.elements % schedule.chunk_size == 0;
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  plan_accesses(problem.graph, problem.loops, problem.tuning, schedule);
  choose_launch(problem, schedule);
  VKF_CHECK_OK(check_limits(problem.graph, problem.loops, problem.target, schedule));
  model(problem.graph, problem.loops, problem.target, schedule);
  return schedule;
}

}  // namespace

std::optional<Schedule> pointwise_at_other_sizes(const Problem& problem, const Schedule& model_schedule) {
  const Schedule& requested = model_schedule;
  if (requested.vector_axis != static_cast<int>(problem.loops.axes.size()) - 1) return std::nullopt;
  if (!requested.crosses_rows && !problem.loops.axes.empty() &&
      problem.loops.axes.back().size % requested.chunk_size != 0)
    return std::nullopt;
  Schedule schedule;
  schedule.launch.elements = problem.loops.count();
  schedule.vector_axis = requested.vector_axis;
  schedule.chunk_size = requested.chunk_size;
  schedule.crosses_rows = requested.crosses_rows;
  schedule.launch.chunks = ceil_div(schedule.launch.elements, schedule.chunk_size);
  schedule.full_chunks = requested.full_chunks;
  if (requested.full_chunks && schedule.launch.elements % schedule.chunk_size != 0) return std::nullopt;
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  plan_accesses(problem.graph, problem.loops, problem.tuning, schedule);
  if (!serve(schedule, requested)) return std::nullopt;
  schedule.loads = requested.loads;
  schedule.stores = requested.stores;
  schedule.unroll_factor = requested.unroll_factor;
  schedule.workgroup = requested.workgroup;
  schedule.launch.workgroups =
      ceil_div(schedule.launch.chunks, static_cast<std::int64_t>(schedule.workgroup) * schedule.unroll_factor);
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule).ok()) return std::nullopt;
  model(problem.graph, problem.loops, problem.target, schedule);
  return schedule;
}

namespace {

/// Chunks of `widest` elements at most, and of no fewer than `narrowest`.
Result<Schedule> with_chunks_up_to(int widest, int narrowest, const Problem& problem) {
  const std::int64_t inner = problem.loops.axes.back().size;
  if (inner % widest == 0) return with_chunks_of(widest, false, problem);
  // Rows are no multiple of the widest chunk: let chunks run across rows, which costs coordinates per
  // element, or take a narrower one that fits.
  VKF_TRY(chosen, with_chunks_of(widest, true, problem));
  for (int narrower = widest / 2; narrower >= narrowest; narrower /= 2) {
    if (inner % narrower != 0) continue;
    VKF_TRY(other, with_chunks_of(narrower, false, problem));
    if (other.cost.loads_executed + other.cost.stores_executed <=
        chosen.cost.loads_executed + chosen.cost.stores_executed)
      chosen = std::move(other);
    break;
  }
  return chosen;
}

}  // namespace

Result<Schedule> best_pointwise(const Problem& problem) {
  const int axis = static_cast<int>(problem.loops.axes.size()) - 1;
  if (axis < 0) return with_chunks_of(1, false, problem);
  const Widths widths = moved_widths(problem.graph, problem.loops, segment::AxisSet{1} << axis);
  const int narrowest = std::max(1, 4 / widths.smallest_store);
  int widest = widest_chunk(widths, problem.tuning);
  VKF_TRY(chosen, with_chunks_up_to(widest, narrowest, problem));
  // Loads of narrower chunks want fewer registers, and there are more threads for a few elements.
  constexpr std::int64_t kOfThread = 4;  // chunks that a thread would have
  const auto is_small = [&] {
    return !problem.tuning.vector_bytes && leaves_idle(problem.target, kOfThread * chosen.launch.chunks);
  };
  while (widest / 2 >= narrowest && (is_small() || registers_over(problem.target, chosen.cost.registers) > 0)) {
    widest /= 2;
    VKF_TRY(other, with_chunks_up_to(widest, narrowest, problem));
    chosen = std::move(other);
  }
  return chosen;
}

}  // namespace vkfuse::schedule

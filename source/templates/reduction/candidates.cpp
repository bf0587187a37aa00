// The reduction template: threads of a workgroup share the reduction axes of a row, reduce what each of them has seen,
// and then reduce across each other. Softmax, norms, losses and plain reductions on any axis are this template.
#include "templates/reduction/candidates.hpp"

#include <algorithm>

#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/budget.hpp"
#include "schedule/limits.hpp"
#include "schedule/operands.hpp"
#include "templates/reduction/chunks.hpp"
#include "templates/reduction/cost.hpp"
#include "templates/reduction/packed_gemv.hpp"
#include "templates/reduction/registers.hpp"
#include "templates/reduction/splits.hpp"
#include "templates/reduction/threads.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

/// Of all loops that one thread goes through, about and rather too many. With splits, a pass is a dispatch.
std::int64_t iterations_of(const Loops& loops, const Schedule& schedule) {
  return ceil_div(schedule.as<ReductionParams>().iterations, schedule.splits) * loops_of_iteration(loops, schedule) *
         (schedule.splits > 1 ? 1 : std::max(loops.passes, 1));
}

/// The loops as splits run them: a scan over splits has a pass for what each of them has seen.
Loops loops_of_splits(const Loops& loops, const Schedule& schedule) {
  return schedule.splits > 1 ? segment::with_split_scans(loops) : loops;
}

/// Shared memory, with fewer threads where it is too little for as many.
void fit_shared_memory(const Problem& problem, const Loops& staged, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  choose_reduction_memory(problem.graph, staged, schedule);
  while (schedule.shared_bytes > problem.target.caps.workgroup.shared_memory_bytes && params.reduction_threads > 1) {
    params.reduction_threads /= 2;
    schedule.workgroup = params.parallel_threads * params.reduction_threads;
    params.iterations = ceil_div(schedule.launch.reduction_chunks, params.reduction_threads);
    params.persistent = params.persistent && params.iterations <= kMostUnrolledIterations &&
                        registers_over(problem.target, requested_reduction_registers(problem.graph, problem.loops,
                                                                                     problem.target, schedule)) == 0;
    choose_reduction_memory(problem.graph, staged, schedule);
  }
}

/// Whether results of rows are left when all passes are done.
bool finishes_rows(const Loops& staged) {
  return std::any_of(staged.stores.begin(), staged.stores.end(), [&](const segment::Store& store) {
    return (store.axes & staged.columns()) == 0 && staged.values[store.value].level >= staged.passes;
  });
}

/// With splits, a dispatch for each pass. What rows leave is joined in the last one, or in one more.
void choose_dispatches(const Target& target, const Loops& staged, Schedule& schedule) {
  schedule.dispatches = schedule.splits == 1 ? 1 : staged.passes;
  if (schedule.splits > 1 && finishes_rows(staged)) choose_who_joins(staged, target, row_groups(schedule), schedule);
}

/// The innermost `merged_reduction_axes` reduction axes are one; chunks of `wider` times as many elements as one load
/// of the smallest dtype has.
Result<Schedule> best_of_loops(const Problem& problem, int merged_reduction_axes, int wider) {
  Schedule schedule;
  auto& params = schedule.params.emplace<ReductionParams>();
  schedule.reads_of_others = true;
  schedule.transforms.merged_reduction_axes = merged_reduction_axes;
  schedule.launch.elements = problem.loops.empty ? 0 : problem.loops.count();
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  choose_reduction_chunks(problem, wider, schedule);
  choose_reduction_threads(problem, schedule);
  choose_reduction_splits(problem, schedule);
  const Loops staged = loops_of_splits(problem.loops, schedule);
  fit_shared_memory(problem, staged, schedule);
  params.passes = staged.passes;
  choose_dispatches(problem.target, staged, schedule);
  count_reduction_workgroups(problem.target, schedule);
  VKF_CHECK_OK(check_limits(problem.graph, staged, problem.target, schedule, iterations_of(staged, schedule)));
  model_reduction(problem.graph, staged, problem.target, schedule);
  return schedule;
}

/// The same, with two reductions in one pass where that is better.
Result<Schedule> best_as_counted(const Problem& problem, int merged_reduction_axes, int wider) {
  VKF_TRY(chosen, best_of_loops(problem, merged_reduction_axes, wider));
  // A row that stays in registers is read once as it is. Otherwise two reductions in one pass save a pass, and if that
  // is the only one, nothing need stay anywhere.
  const auto paired = problem.tuning.online.value_or(true)
                          ? segment::with_online_reductions(problem.graph, problem.loops)
                          : std::nullopt;
  if (!paired || (chosen.as<ReductionParams>().persistent && !problem.tuning.online && paired->passes > 1))
    return chosen;
  VKF_TRY(online, best_of_loops(problem.with(*paired), merged_reduction_axes, wider));
  online.transforms.online = true;
  const bool forced = problem.tuning.online.value_or(false);
  const bool alone = online.as<ReductionParams>().passes == 1 && problem.target.type != DeviceType::cpu;
  return forced || alone || online.cost.modelled_us < chosen.cost.modelled_us ? online : chosen;
}

/// Whether a load moves vectors of which each element serves several neighbours.
bool repeats_elements(const Schedule& schedule) {
  return std::any_of(schedule.loads.begin(), schedule.loads.end(),
                     [](const AccessPlan& plan) { return plan.repeat > 1; });
}

/// Whether all of a chunk's such elements are one vector.
bool loads_in_one(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.loads.size(); ++i) {
    const AccessPlan& plan = schedule.loads[i];
    if (plan.repeat > 1 &&
        schedule.chunk_size / plan.repeat * size_of(graph.node(loops.values[i].node).type.dtype) > plan.vector_bytes)
      return false;
  }
  return true;
}

/// The best way to count the reduction axes: each by itself, or the two innermost as one.
Result<Schedule> best_of_counts(const Problem& problem) {
  VKF_TRY(chosen, best_as_counted(problem, 1, 1));
  if (count_axes(problem.loops).columns < 2 || chosen.as<ReductionParams>().vector_rows || problem.loops.keys() != 0 ||
      problem.loops.inner() != 0)
    return chosen;
  // Where an element of memory is several positions of the reduction axes, as a byte is two integers, the innermost
  // axis counts these alone: chunks want the next axis as well. Such memory is loaded 16 bytes at a time, however many
  // elements that is.
  for (const int wider : {2, 1}) {
    const Loops counted = merge_reduction_axes(problem.loops, 2);
    auto merged = best_as_counted(problem.with(counted), 2, wider);
    if (!merged || merged->as<ReductionParams>().vector_rows || !repeats_elements(*merged) ||
        merged->chunk_size <= chosen.chunk_size)
      continue;
    const bool fits = registers_over(problem.target, registers_in_flight(problem.graph, counted, problem.target,
                                                                         *merged, merged->unroll_factor)) == 0;
    if (wider == 1 || (fits && loads_in_one(problem.graph, problem.loops, *merged))) return merged;
  }
  return chosen;
}

/// Whether rows have something in common that they read all along: the vector that a matrix is multiplied with.
bool share_along(const Loops& loops, int axis) {
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::load && loops.per_element(value) && ((value.axes >> axis) & 1u) == 0;
  });
}

/// Whether a tuning asks for several rows per thread.
bool requests_register_blocking(const Tuning& tuning) { return tuning.register_block_rows.value_or(0) > 1; }

/// A thread that has several rows loads and converts once what these have in common. Only of bytes: what waits for
/// memory gains nothing, and a decoding attention over keys of f16 took 285 us instead of 181 on an H200.
bool may_block_registers(const Problem& problem, const Schedule& chosen) {
  if (chosen.as<ReductionParams>().vector_rows || problem.loops.passes != 1 || problem.tuning.register_block_rows == 1)
    return false;
  const std::vector<Value>& values = problem.loops.values;
  const bool reduces_products = std::any_of(values.begin(), values.end(), [&](const Value& value) {
    return segment::sums_products(problem.graph, problem.loops, value);
  });
  if (!reduces_products) return false;
  if (requests_register_blocking(problem.tuning)) return true;
  const bool of_bytes = std::any_of(values.begin(), values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::load && problem.loops.per_element(value) &&
           size_of(problem.graph.node(value.node).type.dtype) == 1;
  });
  return of_bytes && problem.target.type != DeviceType::cpu;
}

/// Whether blocked rows may replace the best so far: as a tuning requests, or where they are modelled much better than
/// `chosen`, whose threads have a row each. More so where their threads do not fill the device, so that less is in
/// flight: on an H200, four rows of int8 a thread took 24.4 us where one took 23.1, of 14336 x 4096, and 64.3 where one
/// took 68.9, of 28672 x 8192, both modelled at 0.92.
bool replaces(const Problem& problem, const Schedule& blocked, const Schedule& best, const Schedule& chosen) {
  constexpr double kGain = 0.92, kGainOfFew = 0.88;
  if (blocked.as<ReductionParams>().vector_rows) return false;
  if (requests_register_blocking(problem.tuning)) return true;
  const ComputeUnits& units = device_model(problem.target).units;
  const double threads = static_cast<double>(blocked.launch.workgroups) * blocked.workgroup;
  const double gain = threads >= units.count * units.threads ? kGain : kGainOfFew;
  return blocked.launch.workgroups >= workgroups_to_fill(problem.target) &&
         blocked.cost.modelled_us <= std::min(best.cost.modelled_us, chosen.cost.modelled_us * gain);
}

/// The best of `chosen` and schedules whose threads have two or four rows along a parallel axis.
Schedule best_register_blocking(const Problem& problem, const Schedule& chosen) {
  Schedule best = chosen;
  for (int axis = 0; axis < count_axes(problem.loops).rows; ++axis) {
    if (!share_along(problem.loops, axis)) continue;
    for (const int rows : {2, 4}) {
      if (requests_register_blocking(problem.tuning) && rows != *problem.tuning.register_block_rows) continue;
      const auto blocked = segment::with_register_blocking(problem.loops, axis, rows);
      if (!blocked) continue;
      auto made = best_of_counts(problem.with(*blocked));
      if (!made || !replaces(problem, *made, best, chosen)) continue;
      best = *std::move(made);
      best.transforms.register_block_axis = axis;
      best.transforms.register_block_rows = rows;
    }
  }
  return best;
}

/// Whether the loops have the vector axis of a schedule for other sizes, and chunks along it that its kernel allows
/// for.
bool has_chunks_of(const Loops& loops, const Schedule& requested) {
  const AxisCounts counts = count_axes(loops);
  const int axis =
      requested.as<ReductionParams>().vector_rows ? counts.rows - 1 : static_cast<int>(loops.axes.size()) - 1;
  if (axis != requested.vector_axis || axis < 0 || counts.columns == 0) return false;
  return !requested.full_chunks || loops.axes[static_cast<std::size_t>(axis)].size % requested.chunk_size == 0;
}

/// Whether accesses as planned for these sizes can be those of `requested`.
bool has_accesses_of(const Problem& problem, const Schedule& schedule, const Schedule& requested) {
  Schedule planned = schedule;
  const std::int64_t size = problem.loops.axes[static_cast<std::size_t>(schedule.vector_axis)].size;
  planned.full_chunks = size % schedule.chunk_size == 0;
  plan_accesses(problem.graph, problem.loops, problem.tuning, planned);
  for (std::size_t i = 0; i < planned.loads.size(); ++i) {
    if (requested.loads[i].kind != AccessKind::unaligned || planned.loads[i].kind != AccessKind::element) continue;
    const auto unaligned = unaligned_access(problem.graph, problem.loops, problem.loops.values[i], schedule.vector_axis,
                                            schedule.chunk_size);
    if (unaligned) planned.loads[i] = *unaligned;
  }
  return serve(planned, requested);
}

/// Iterations of the kernel of `requested` at the sizes of `schedule`; nothing where it has too few, or would sum in
/// chains that are too long.
std::optional<std::int64_t> iterations_at_other_sizes(const Loops& loops, const Schedule& schedule,
                                                      const Schedule& requested) {
  const ReductionParams& params = requested.as<ReductionParams>();
  const std::int64_t iterations = ceil_div(schedule.launch.reduction_chunks, params.reduction_threads);
  // Iterations that are unrolled are as many at every size: those past the end of a row do nothing.
  if (params.persistent || (params.iterations == 1 && requested.splits == 1))
    return iterations > params.iterations ? std::nullopt : std::optional(params.iterations);
  if (params.iterations == 1) return std::nullopt;
  const std::int64_t chain = ceil_div(iterations, requested.splits) * (params.vector_rows ? 1 : requested.chunk_size);
  if (params.block == 0 && chain > kSummationBlock && chain > longest_sum_chain(loops.reduction_count()) - 256)
    return std::nullopt;
  return std::max<std::int64_t>(iterations, 2);
}

}  // namespace

std::optional<Schedule> reduction_at_other_sizes(const Problem& problem, const Schedule& requested) {
  if (requested.as<ReductionParams>().packed)
    return std::nullopt;  // what its tiles and scales are depends on every size
  if (!has_chunks_of(problem.loops, requested)) return std::nullopt;
  Schedule schedule = requested;
  schedule.launch.elements = problem.loops.count();
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  count_row_chunks(problem.loops, schedule);
  schedule.launch.chunks = schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  if (!has_accesses_of(problem, schedule, requested)) return std::nullopt;
  const auto iterations = iterations_at_other_sizes(problem.loops, schedule, requested);
  if (!iterations) return std::nullopt;
  schedule.as<ReductionParams>().iterations = *iterations;
  const Loops staged = loops_of_splits(problem.loops, schedule);
  choose_reduction_memory(problem.graph, staged, schedule);
  if (schedule.shared_bytes > problem.target.caps.workgroup.shared_memory_bytes) return std::nullopt;
  if (requested.counter_bytes > 0) schedule.count_workgroups(row_groups(schedule));
  count_reduction_workgroups(problem.target, schedule);
  if (!check_limits(problem.graph, staged, problem.target, schedule, iterations_of(staged, schedule)).ok())
    return std::nullopt;
  schedule.cost.bytes_read = schedule.cost.bytes_written = schedule.cost.bytes_read_again =
      schedule.cost.loads_executed = schedule.cost.stores_executed = schedule.cost.transactions = 0;
  model_reduction(problem.graph, staged, problem.target, schedule);
  return schedule;
}

namespace {

Result<Schedule> best_in_subgroups_of_target(const Problem& problem) {
  VKF_TRY(chosen, best_of_counts(problem));
  const auto packed = best_packed_gemv(problem, chosen);
  if (packed && problem.tuning.cooperative_matrix.value_or(false)) return *packed;
  if (!may_block_registers(problem, chosen)) return packed.value_or(chosen);
  const Schedule best = best_register_blocking(problem, chosen);
  return packed && packed->cost.modelled_us < best.cost.modelled_us ? *packed : best;
}

}  // namespace

Result<Schedule> best_reduction(const Problem& problem) {
  VKF_TRY(chosen, best_in_subgroups_of_target(problem));
  if (chosen.subgroup == 0 || registers_over(problem.target, chosen.cost.registers) == 0) return chosen;
  // Where lanes share the registers of a hardware thread, fewer lanes have more each.
  const std::optional<Target> narrower = with_narrower_subgroups(problem.target);
  if (!narrower) return chosen;
  auto other = best_reduction({problem.graph, problem.loops, *narrower, problem.tuning});
  return other ? other : chosen;
}

}  // namespace vkfuse::schedule

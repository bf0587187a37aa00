#include "templates/reduction/splits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/mutations.hpp"
#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "schedule/traffic.hpp"
#include "templates/reduction/cost.hpp"
#include "templates/reduction/registers.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

constexpr int kMostScanSplits = 128;  // that one thread joins one after the other
constexpr int kMostSplits = 4096;

/// Bytes that a thread loads as vectors for a chunk.
std::int64_t vector_bytes_of_chunk(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || schedule.loads[i].kind != AccessKind::vector || !loops.per_element(value))
      continue;
    bytes += schedule.chunk_size / schedule.loads[i].repeat * size_of(graph.node(value.node).type.dtype);
  }
  return bytes;
}

/// Microseconds that the arithmetic of a row takes one compute unit: looking for the largest of 128,256 scores took a
/// workgroup 25 on an H200.
double arithmetic_us_of_row(const Problem& problem) {
  const CostModel costs = costs_of(problem.target);
  const double of_row = compute_cost(problem.graph, problem.loops, 1, parallel_axes(problem.loops)) /
                        static_cast<double>(std::max<std::int64_t>(1, problem.loops.parallel_count()));
  return of_row * device_model(problem.target).units.count / (costs.gflops * 1e3);
}

/// Workgroups of so many threads that share rows: as many as a device has room for. What the last one of a row joins,
/// and the count that they all add to, take longer the more there are (H200, a sum of 2^24 f32: 26.1 us with 1,024
/// workgroups of 1,024 threads, 22.6 with 128).
std::int64_t workgroups_of_rows(const Target& target, int workgroup) {
  const ComputeUnits& units = device_model(target).units;
  const double room = units.count * units.threads / std::max(1, workgroup);
  return std::min(workgroups_to_fill(target), static_cast<std::int64_t>(std::ceil(room)));
}

/// Few long rows are shared by several workgroups.
int splits_to_fill(const Problem& problem, const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  const bool cpu = problem.target.type == DeviceType::cpu;
  const std::int64_t groups = row_groups(schedule);
  const std::int64_t requested = cpu ? 8 : workgroups_of_rows(problem.target, schedule.workgroup);
  const std::int64_t fewest_iterations = params.vector_rows ? 8 : 4;
  const std::int64_t enough = cpu ? 1 << 10 : 32;
  // A dispatch more for each pass, and as long again until it is there.
  const double more_us = 3 * costs_of(problem.target).launch_us * problem.loops.passes;
  const bool is_busy =
      !cpu && params.iterations >= 2 * fewest_iterations && arithmetic_us_of_row(problem) >= more_us && more_us > 0;
  if ((params.iterations < enough && !is_busy) || groups * 4 > requested) return 1;
  int splits = 1;
  while (groups * splits * 3 < requested * 2 && ceil_div(params.iterations, splits * 2) >= fewest_iterations &&
         splits < kMostSplits)
    splits *= 2;
  return has_scans(problem.loops) && params.reduction_threads == 1 ? std::min(splits, kMostScanSplits) : splits;
}

/// At least `splits`, so that no loop is longer than the driver goes through.
int splits_of_short_loops(const Problem& problem, const Schedule& schedule, int splits) {
  const std::int64_t most = problem.target.workarounds.leaves_loops_after;
  const std::int64_t iterations =
      schedule.as<ReductionParams>().iterations * loops_of_iteration(problem.loops, schedule);
  if (iterations * problem.loops.passes > most) splits = std::max(splits, 2);
  while (ceil_div(iterations, splits) > most && splits < kMostSplits) splits *= 2;
  return splits;
}

bool finds_positions(const ir::Graph& graph, const Loops& loops) {
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::reduction &&
           graph.node(value.node).op->reduction.kind == ops::Reduction::Kind::arg;
  });
}

/// A loop over long rows keeps 64 bytes of loads in flight per thread.
int chunks_in_flight(const Problem& problem, const Schedule& schedule) {
  // Chunks of several rows are that much by themselves: 16 bytes of each of four rows of int4, and 64 of the vector
  // (H200: 46 us, 48 with two).
  constexpr std::int64_t kManyBytes = 128;
  const ReductionParams& params = schedule.as<ReductionParams>();
  const std::int64_t own = ceil_div(params.iterations, schedule.splits);
  if (problem.target.type == DeviceType::cpu || params.persistent || own < 4 ||
      vector_bytes_of_chunk(problem.graph, problem.loops, schedule) >= kManyBytes)
    return 1;
  // To find a position takes instructions: two workgroups at a time, which few registers allow, do more than loads in
  // flight (H200, argmax of 256 rows of 128,256 f16: 22.9 us with two chunks, 25.5 with four).
  const bool few = own < 8 || finds_positions(problem.graph, problem.loops);
  int chunks = few ? 2 : schedule.chunk_size > 1 ? 4 : 8;
  while (chunks > 1 && registers_over(problem.target, registers_in_flight(problem.graph, problem.loops, problem.target,
                                                                          schedule, chunks)) > 0)
    chunks /= 2;
  return chunks;
}

}  // namespace

std::int64_t workgroups_to_fill(const Target& target) {
  const DeviceModel& model = device_model(target);
  return static_cast<std::int64_t>(model.occupancy.workgroups * model.units.count);
}

std::int64_t loops_of_iteration(const Loops& loops, const Schedule& schedule) {
  const int threads = schedule.as<ReductionParams>().reduction_threads;
  if (threads == 1) return 1;
  const auto scans = std::count_if(loops.values.begin(), loops.values.end(),
                                   [](const Value& value) { return value.kind == Value::Kind::scan; });
  // In halves within a subgroup, one subgroup after the other beyond it; and what ends each of these loops.
  const int inside = schedule.subgroup > 0 ? std::min(threads, schedule.subgroup) : threads;
  const int steps = std::bit_width(static_cast<unsigned>(inside)) + (threads > inside ? threads / inside + 1 : 0);
  return VKF_PLANT(uncounted_scan_steps, 1 + scans * steps, 1);
}

void choose_reduction_splits(const Problem& problem, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  const int splits = splits_of_short_loops(problem, schedule, splits_to_fill(problem, schedule));
  schedule.splits = has_room_for(1, problem.loops, problem.target) ? problem.tuning.splits.value_or(splits) : 1;
  if (schedule.splits > 1) params.persistent = false;
  schedule.unroll_factor = problem.tuning.unroll_factor.value_or(chunks_in_flight(problem, schedule));
  // Where threads are too few to keep the promise of numerics.hpp: with room for the reductions across threads and
  // splits.
  const int per_chunk = params.vector_rows ? 1 : schedule.chunk_size;
  const std::int64_t chain = ceil_div(params.iterations, schedule.splits) * per_chunk;
  if (!params.persistent && chain > kSummationBlock && chain > longest_sum_chain(problem.loops.reduction_count()) - 256)
    params.block = kSummationBlock / per_chunk;
}

std::int64_t row_groups(const Schedule& schedule) {
  return ceil_div(schedule.launch.parallel_chunks, schedule.as<ReductionParams>().parallel_threads);
}

void count_reduction_workgroups(const Target& target, Schedule& schedule) {
  schedule.launch.workgroups = row_groups(schedule) * schedule.splits;
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
}

}  // namespace vkfuse::schedule

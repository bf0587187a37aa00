// The reduction template: threads of a workgroup share the columns of a row, fold what each of them has seen, and
// then fold across each other. Softmax, norms, losses and plain reductions on any axis are this template.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>

#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/budget.hpp"
#include "schedule/limits.hpp"
#include "schedule/means.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"
#include "templates/reduction/candidates.hpp"
#include "templates/reduction/packed_gemv.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

constexpr int kMostIterations = 16;     // unrolled
constexpr int kMostScanIterations = 8;  // where every trip folds across threads
constexpr int kMostScanThreads = 256;   // more would wait for each other longer than they help
constexpr int kMostScanParts = 128;     // that one thread joins one after the other
constexpr int kBlock = 256;             // elements that are joined one after the other in a long chain
constexpr int kMostResidentWords = 40;  // per thread, of what is kept between passes
constexpr std::int64_t kMostRowWords =
    1 << 14;  // of a longer row no two workgroups have room at a time: it is read again, from near caches
constexpr int kWordsBesideRow = 24;   // of a thread
constexpr std::int64_t kWindow = 32;  // columns

int power_of_two_at_least(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

/// Bytes that neighbouring threads move side by side along an axis, less where they are further apart: the axis
/// with more of them wins.
double bytes_along(const ir::Graph& graph, const Loops& loops, int axis) {
  if (axis < 0) return -1;
  constexpr std::int64_t kCacheLineElements = 32;  // elements: each is in a cache line of its own
  double bytes = 0;
  const auto add = [&](const index::Expr& offset, std::int64_t elements, ir::NodeId node, bool by_data) {
    std::int64_t stride = by_data ? kCacheLineElements : index::stride_of(offset, axis).value_or(kCacheLineElements);
    // Threads that share an element meet its neighbour along the next axis of the row: two integers in a byte, say.
    for (int outer = axis - 1;
         stride == 0 && outer >= 0 && loops.axes[static_cast<std::size_t>(outer)].role == segment::Role::reduction;
         --outer) {
      stride = index::stride_of(offset, outer).value_or(kCacheLineElements);
    }
    if (stride == 0) return;
    bytes += static_cast<double>(elements * size_of(graph.node(node).type.dtype)) /
             static_cast<double>(std::min(std::abs(stride), kCacheLineElements));
  };
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::load) continue;
    const bool by_data = std::any_of(value.data.begin(), value.data.end(),
                                     [&](segment::ValueId id) { return ((loops.values[id].axes >> axis) & 1u) != 0; });
    add(value.offset, segment::elements_touched(loops, value), value.node, by_data);
  }
  for (const segment::Store& store : loops.stores) add(store.offset, store.buffer_elements, store.node, false);
  return bytes;
}

/// Words of registers that one reduction's partial result takes.
int accumulator_words(const ir::Graph& graph, const Loops& loops, segment::ValueId id) {
  const Value& reduction = loops.values[id];
  const ir::Node& node = graph.node(reduction.node);
  if (reduction.online == Value::Online::softmax) return 1;  // and the partner's own
  if (reduction.online == Value::Online::moments) return 4 - accumulator_words(graph, loops, reduction.partner);
  const int bytes = size_of(graph.node(node.operands[0]).type.dtype);
  if (sums_in_two_parts(graph, loops, id)) return 2 * std::max(1, bytes / 4);
  return std::max(1, bytes / 4) + (node.op->reduction.kind == ops::Reduction::Kind::arg ? 1 : 0);
}

int all_accumulator_words(const ir::Graph& graph, const Loops& loops) {
  int words = 0;
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == Value::Kind::reduction || loops.values[id].kind == Value::Kind::scan)
      words += accumulator_words(graph, loops, id);
  }
  return words;
}

bool has_scans(const Loops& loops) {
  return std::any_of(loops.values.begin(), loops.values.end(),
                     [](const Value& value) { return value.kind == Value::Kind::scan; });
}

/// The widest chunk that stays inside a row and that the alignment of what is moved makes use of.
int chunk_elements(const ir::Graph& graph, const Loops& loops, int axis, bool ragged_allowed, const Tuning& tuning) {
  if (axis < 0) return 1;
  const Widths widths = moved_widths(graph, loops, segment::AxisSet{1} << axis);
  const int bytes = tuning.vector_bytes.value_or(16);
  int count = std::max({1, std::min(bytes / widths.smallest, 2 * bytes / widths.largest), 4 / widths.smallest_store});
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
  while (count > 1 && !ragged_allowed && size % count != 0) count /= 2;
  if (!ragged_allowed) return count;
  // Where rows begin anywhere, narrower chunks are as good as wide ones and coalesce better.
  std::int64_t alignment = 1;
  const auto consider = [&](const index::Expr& offset) {
    const std::int64_t padded = ceil_div(size, count) * count;
    const auto run = index::run_along(offset, axis, padded, count, 16);
    if (run && run->stride == 1) alignment = std::max(alignment, run->alignment);
  };
  std::int64_t most = 0;
  const auto runs = [&](const Value& value) {
    return value.kind == Value::Kind::load && index::stride_of(value.offset, axis) == 1;
  };
  for (const Value& value : loops.values)
    most = std::max(most, runs(value) ? segment::elements_touched(loops, value) : 0);
  for (const Value& value : loops.values) {
    if (runs(value) && segment::elements_touched(loops, value) * 2 > most) consider(value.offset);
  }
  for (const segment::Store& store : loops.stores) consider(store.offset);
  const int least = std::max(1, 4 / std::min(widths.smallest, widths.smallest_store));
  while (count > least && count > alignment) count /= 2;
  while (count > least && count / 2 >= size) count /= 2;
  return count;
}

/// How often each load is executed: in how many passes.
int passes_using(const Loops& loops, std::size_t value) {
  int used = 0;
  for (int pass = 0; pass < loops.passes; ++pass) used += segment::needed_in_pass(loops, pass)[value] ? 1 : 0;
  return used;
}

/// Bytes of an element of the largest load along the columns.
int largest_load(const ir::Graph& graph, const Loops& loops) {
  int bytes = 1;
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load && loops.per_element(value))
      bytes = std::max(bytes, size_of(graph.node(value.node).type.dtype));
  }
  return bytes;
}

struct Resident {
  int words = 0;         ///< per trip, of loads that more than one pass uses
  bool repeats = false;  ///< some load is needed again
};

Resident resident_words(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  Resident resident;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || !loops.per_element(value) || passes_using(loops, i) < 2) continue;
    resident.repeats = true;
    if (schedule.loads[i].kind != AccessKind::vector && schedule.loads[i].kind != AccessKind::unaligned)
      continue;  // read again where it is needed
    resident.words +=
        registers_of_chunk(schedule.loads[i], size_of(graph.node(value.node).type.dtype), schedule.chunk_size);
  }
  return resident;
}

/// Words that a trip takes of the budget of a thread: beside what is kept, where registers are few, what only one pass
/// loads, and where that is.
int words_of_iteration(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  int words = resident_words(graph, loops, schedule).words;
  if (!has_few_registers(target) || words == 0) return words;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load || !loops.per_element(value) || passes_using(loops, i) > 1) continue;
    words +=
        schedule.loads[i].kind == AccessKind::vector
            ? registers_of_chunk(schedule.loads[i], size_of(graph.node(value.node).type.dtype), schedule.chunk_size)
            : 1;
  }
  return words + 1;
}

/// Live 32-bit values of a thread.
int estimated_registers(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  return 24 + all_accumulator_words(graph, loops) * (params.vector_rows ? schedule.chunk_size : 1) +
         static_cast<int>(params.persistent ? params.iterations * resident_words(graph, loops, schedule).words : 8);
}

/// The same, where the device's budget is known: of rows side by side, Mali's and Adreno's compilers want a chunk's
/// results beside what was loaded.
int requested_registers(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  const bool known = target.caps.registers.per_thread != kUnknownRegistersPerThread;
  const auto beside = params.persistent ? params.iterations * (words_of_iteration(graph, loops, target, schedule) -
                                                               resident_words(graph, loops, schedule).words)
                                        : 0;
  return estimated_registers(graph, loops, schedule) + static_cast<int>(beside) +
         (known && params.vector_rows ? schedule.chunk_size : 0);
}

/// Of what is kept between passes, words that a thread has room for.
int most_resident_words(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  if (target.caps.registers.per_thread == kUnknownRegistersPerThread) return kMostResidentWords;
  Schedule empty = schedule;
  empty.as<ReductionParams>().iterations = 0;
  empty.as<ReductionParams>().persistent = true;
  return std::min(kMostResidentWords, thread_register_limit(target) - requested_registers(graph, loops, target, empty));
}

void choose_threads(const Problem& problem, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  const int limit = static_cast<int>(usable_invocations(problem.target.caps));
  const bool cpu = problem.target.type == DeviceType::cpu;
  const DeviceModel& model = device_model(problem.target);
  const bool shuffles = problem.target.has(FeatureTier::subgroup) && problem.target.caps.subgroup.shuffle &&
                        problem.target.caps.subgroup.full && !params.vector_rows;
  schedule.subgroup = shuffles ? static_cast<int>(problem.target.caps.subgroup.size) : 0;
  const int subgroup = static_cast<int>(std::max(1u, problem.target.caps.subgroup.size));
  const std::int64_t chunks = schedule.launch.reduction_chunks;
  Resident resident = resident_words(problem.graph, problem.loops, schedule);
  resident.words = words_of_iteration(problem.graph, problem.loops, problem.target, schedule);
  const int most_resident = most_resident_words(problem.graph, problem.loops, problem.target, schedule);
  const std::int64_t registers = problem.target.caps.registers.per_workgroup;
  const bool scans = has_scans(problem.loops);
  int threads = 1;
  if (params.vector_rows) {
    // Neighbouring threads own neighbouring rows; the rest of the workgroup are strips of columns.
    params.parallel_threads = std::min(power_of_two_at_least(schedule.launch.parallel_chunks), cpu ? 8 : 32);
    int most = cpu ? 64 : 512;
    if (!cpu && resident.repeats) {
      // What is read again should still be in the last-level cache: fewer rows at a time, more strips.
      const std::int64_t row_bytes = chunks * schedule.chunk_size * largest_load(problem.graph, problem.loops);
      while (params.parallel_threads > 4 && row_bytes * params.parallel_threads > model.caches.tile_bytes)
        params.parallel_threads /= 2;
      most = 1024;
    }
    if (problem.tuning.workgroup && problem.tuning.reduction_threads)
      params.parallel_threads = std::max(1, *problem.tuning.workgroup / *problem.tuning.reduction_threads);
    const int rest = std::max(1, std::min(limit, most) / params.parallel_threads);
    threads = std::min(power_of_two_at_least(chunks / (cpu ? 16 : 4)), rest);
    // A window of so many rows that they fill the device: one thread goes over all of it.
    if (!cpu && chunks <= kWindow &&
        static_cast<double>(schedule.launch.parallel_chunks) >= model.units.count * model.units.threads &&
        !problem.tuning.workgroup) {
      threads = 1;
      params.parallel_threads = std::min(limit, 128);
    }
    if (scans) threads = 1;  // a scan goes down its column in one thread
  } else if (cpu) {
    threads = std::min({power_of_two_at_least(chunks), subgroup, limit});
  } else {
    // Some 64 bytes of each row per thread: what a thread does once per row is then little beside it.
    const std::int64_t chunk_bytes =
        static_cast<std::int64_t>(schedule.chunk_size) * largest_load(problem.graph, problem.loops);
    const std::int64_t iterations =
        std::clamp<std::int64_t>(64 / std::max<std::int64_t>(chunk_bytes, 1), 4, kMostIterations);
    threads = std::min(power_of_two_at_least(ceil_div(chunks, iterations)), limit);
    // Half as many, if that is no more than 1.6 times as many chunks each: 6 a thread are better than 3.
    const int fewer = power_of_two_at_least(ceil_div(ceil_div(chunks, iterations) * 5, 8));
    if (fewer < threads && ceil_div(chunks, fewer) <= kMostIterations) threads = fewer;
    // Long rows that are walked once: many workgroups wait for memory at different times, if there are so many rows.
    if (problem.loops.passes == 1 &&
        static_cast<double>(schedule.launch.parallel_chunks) >= model.occupancy.rows_to_overlap * model.units.count)
      threads = std::min(threads, std::max(128, power_of_two_at_least(chunks / 32)));
    threads = std::max(threads, std::min({32, power_of_two_at_least(chunks), limit}));
    if (scans) threads = std::min(threads, kMostScanThreads);
    // Rows that stay in registers want two workgroups at a time, so that one loads while the other computes: fewer
    // threads have fewer registers beside the row.
    const auto kept_words = [&](int count) { return ceil_div(chunks, count) * resident.words; };
    while (resident.repeats && threads > 64 && kept_words(threads) * threads <= kMostRowWords &&
           kept_words(threads / 2) <= most_resident && ceil_div(chunks, threads / 2) <= kMostIterations &&
           2 * threads * (kept_words(threads) + kWordsBesideRow) > registers) {
      threads /= 2;
    }
    // More threads to a row that is read again, where it then stays in their registers.
    int more = threads;
    while (resident.repeats && more < limit && kept_words(more) > most_resident) more *= 2;
    if (kept_words(more) <= most_resident && kept_words(more) * more <= kMostRowWords) threads = more;
  }
  // The promise of numerics.hpp, with room for the reductions across threads and parts.
  const int per_chunk = params.vector_rows ? 1 : schedule.chunk_size;
  while (threads < limit && !params.vector_rows &&
         ceil_div(chunks, threads) * per_chunk > longest_sum_chain(problem.loops.reduction_count()) - 256 &&
         problem.loops.reduction_count() > 512) {
    threads *= 2;
  }
  if (!(scans && params.vector_rows)) threads = std::min(problem.tuning.reduction_threads.value_or(threads), limit);
  check(std::has_single_bit(static_cast<unsigned>(threads)), "threads reduce across each other in halves");
  params.reduction_threads = threads;
  // Strips that are forced, and devices of few invocations, leave room for fewer rows.
  while (params.vector_rows && params.parallel_threads > 1 && params.parallel_threads * threads > limit)
    params.parallel_threads /= 2;
  if (!params.vector_rows) {
    const int requested = std::min(problem.tuning.workgroup.value_or(cpu ? 64 : 128), limit);
    params.parallel_threads = static_cast<int>(std::min<std::int64_t>(
        std::max(1, requested / threads), power_of_two_at_least(schedule.launch.parallel_chunks)));
  }
  // Shuffles need whole subgroups.
  if (schedule.subgroup > 0) {
    while (params.parallel_threads * params.reduction_threads < schedule.subgroup &&
           params.parallel_threads * params.reduction_threads * 2 <= limit)
      params.parallel_threads *= 2;
    if (params.parallel_threads * params.reduction_threads % schedule.subgroup != 0) schedule.subgroup = 0;
  }
  schedule.workgroup = params.parallel_threads * params.reduction_threads;
  params.iterations = ceil_div(chunks, params.reduction_threads);
  const int most = scans ? kMostScanIterations : kMostIterations;
  const bool fits = params.iterations <= most && params.iterations * resident.words <= most_resident &&
                    (cpu || params.iterations * resident.words * threads <= kMostRowWords);
  params.persistent =
      problem.tuning.persistent.value_or(resident.repeats && fits) && params.iterations <= most &&
      may_unroll(problem.graph, problem.loops, problem.target, params.iterations * std::max(1, schedule.chunk_size));
  // Fewer rows at a time, or threads that own several spill.
  while (!cpu && !problem.tuning.workgroup && params.vector_rows && params.parallel_threads > 1 &&
         requested_registers(problem.graph, problem.loops, problem.target, schedule) * schedule.workgroup > registers) {
    params.parallel_threads /= 2;
    schedule.workgroup /= 2;
  }
}

/// Whether a kernel has room for one buffer more: partial results need it.
bool has_room_for_partials(const Loops& loops, const Target& target) {
  std::set<ir::NodeId> written;
  for (const segment::Store& store : loops.stores) written.insert(store.node);
  return buffers_read(loops).size() + written.size() < target.caps.memory.storage_buffers;
}

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

/// Workgroups that fill a device a few times.
std::int64_t workgroups_to_fill(const Target& target) {
  const DeviceModel& model = device_model(target);
  return static_cast<std::int64_t>(model.occupancy.workgroups * model.units.count);
}

/// Few rows of many columns are shared by several workgroups.
void choose_parts(const Problem& problem, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  const std::int64_t groups = ceil_div(schedule.launch.parallel_chunks, params.parallel_threads);
  schedule.splits = 1;
  const std::int64_t requested = problem.target.type == DeviceType::cpu ? 8 : workgroups_to_fill(problem.target);
  const std::int64_t fewest_iterations = params.vector_rows ? 8 : 4;
  const std::int64_t enough = problem.target.type == DeviceType::cpu ? 1 << 10 : 32;
  if (params.iterations >= enough && groups * 4 <= requested) {
    while (groups * schedule.splits < requested &&
           ceil_div(params.iterations, schedule.splits * 2) >= fewest_iterations && schedule.splits < 4096)
      schedule.splits *= 2;
    if (has_scans(problem.loops) && params.reduction_threads == 1)
      schedule.splits = std::min(schedule.splits, kMostScanParts);
  }
  const std::int64_t most = problem.target.workarounds.leaves_loops_after;
  if (params.iterations * problem.loops.passes > most) schedule.splits = std::max(schedule.splits, 2);
  while (ceil_div(params.iterations, schedule.splits) > most && schedule.splits < 4096) schedule.splits *= 2;
  schedule.splits =
      has_room_for_partials(problem.loops, problem.target) ? problem.tuning.splits.value_or(schedule.splits) : 1;
  if (schedule.splits > 1) params.persistent = false;
  // A loop over long rows keeps 64 bytes of loads in flight per thread.
  schedule.unroll_factor = 1;
  const std::int64_t own = ceil_div(params.iterations, schedule.splits);
  if (problem.target.type != DeviceType::cpu && !params.persistent && own >= 4)
    schedule.unroll_factor = own < 8 ? 2 : schedule.chunk_size > 1 ? 4 : 8;
  // Chunks of several rows are that much by themselves: 16 bytes of each of four rows of int4, and 64 of the vector
  // (H200: 46 us, 48 with two).
  constexpr std::int64_t kManyBytes = 128;
  if (vector_bytes_of_chunk(problem.graph, problem.loops, schedule) >= kManyBytes) schedule.unroll_factor = 1;
  schedule.unroll_factor = problem.tuning.unroll_factor.value_or(schedule.unroll_factor);
  // Where threads are too few to keep the promise of numerics.hpp: with room for the reductions across threads and
  // parts.
  const int per_chunk = params.vector_rows ? 1 : schedule.chunk_size;
  const std::int64_t chain = ceil_div(params.iterations, schedule.splits) * per_chunk;
  if (!params.persistent && chain > kBlock && chain > longest_sum_chain(problem.loops.reduction_count()) - 256)
    params.block = kBlock / per_chunk;
}

int shared_slots_of_reduction(const Schedule& schedule) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  if (params.reduction_threads == 1) return 0;
  if (schedule.subgroup == 0) return schedule.workgroup * (params.vector_rows ? schedule.chunk_size : 1);
  return params.reduction_threads > schedule.subgroup ? schedule.workgroup / schedule.subgroup : 0;
}

void choose_memory(const ir::Graph& graph, const Loops& loops, Schedule& schedule) {
  schedule.shared_bytes = 0;
  schedule.scratch_bytes = 0;
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    const bool scan = value.kind == Value::Kind::scan;
    if (value.kind != Value::Kind::reduction && !scan) continue;
    const int words = accumulator_words(graph, loops, id);
    if (scan)
      schedule.shared_bytes += std::int64_t{schedule.as<ReductionParams>().scan_slots(schedule.subgroup)} * words * 4;
    if (segment::reduces_first(loops, value))
      schedule.shared_bytes += std::int64_t{shared_slots_of_reduction(schedule)} * words * 4;
    if (schedule.splits > 1) schedule.scratch_bytes += loops.parallel_count() * schedule.splits * words * 4;
  }
}

void model_reduction(const ir::Graph& graph, const Loops& loops, const Target& target, Schedule& schedule) {
  const DeviceModel& model = device_model(target);
  count_bytes(graph, loops, schedule);
  const int subgroup = static_cast<int>(std::max(8u, target.caps.subgroup.size));
  const std::int64_t element_chunks = schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  double traffic = static_cast<double>(schedule.cost.bytes_written);
  // What is read again comes from cache if the rows in flight fit there.
  const double row_bytes = static_cast<double>(schedule.cost.bytes_read) /
                           static_cast<double>(std::max<std::int64_t>(1, loops.parallel_count()));
  const double rows_in_flight = std::min<double>(static_cast<double>(loops.parallel_count()),
                                                 target.type == DeviceType::cpu ? 16 : 2 * model.units.count);
  const double again =
      row_bytes * rows_in_flight < (target.type == DeviceType::cpu ? 8e6 : model.caches.bytes) ? 0.25 : 1.0;
  const auto executed = [&](segment::AxisSet axes) {
    return (axes & loops.columns()) != 0 ? element_chunks : schedule.launch.parallel_chunks;
  };
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& value = loops.values[i];
    if (value.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(value.node).type.dtype);
    const bool kept = schedule.as<ReductionParams>().persistent &&
                      (schedule.loads[i].kind == AccessKind::vector || schedule.loads[i].kind == AccessKind::unaligned);
    const int times = loops.per_element(value) && !kept ? std::max(1, passes_using(loops, i)) : 1;
    const std::int64_t touched = segment::elements_touched(loops, value) * bytes;
    traffic += static_cast<double>(touched) * (1 + (times - 1) * again);
    if (again == 1.0) schedule.cost.bytes_read_again += touched * (times - 1);
    schedule.cost.loads_executed +=
        times * executed(value.axes) * instructions(schedule.loads[i], bytes, schedule.chunk_size);
    schedule.cost.transactions += times * ceil_div(executed(value.axes), subgroup) *
                                  lines(schedule.loads[i], bytes, schedule.chunk_size, subgroup);
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const int bytes = size_of(graph.node(loops.stores[i].node).type.dtype);
    schedule.cost.stores_executed +=
        executed(loops.stores[i].axes) * instructions(schedule.stores[i], bytes, schedule.chunk_size);
    schedule.cost.transactions += ceil_div(executed(loops.stores[i].axes), subgroup) *
                                  lines(schedule.stores[i], bytes, schedule.chunk_size, subgroup);
  }
  schedule.cost.registers = estimated_registers(graph, loops, schedule);
  const CostModel costs = costs_of(target);
  schedule.cost.modelled_us = modelled_us(costs, schedule.dispatches, traffic, compute_cost(graph, loops),
                                          schedule.cost.loads_executed + schedule.cost.stores_executed);
}

}  // namespace

namespace {

/// Of all loops that one thread goes through, about and rather too many. With splits, a pass is a dispatch.
std::int64_t iterations_of(const Loops& loops, const Schedule& schedule) {
  return ceil_div(schedule.as<ReductionParams>().iterations, schedule.splits) *
         (schedule.splits > 1 ? 1 : std::max(loops.passes, 1));
}

/// Whether rows are windows that overlap, as a pooling's are, and so many that they fill the device: neighbouring
/// threads then have neighbouring rows, whatever lies side by side along the columns.
bool has_overlapping_windows(const Loops& loops, const Target& target) {
  const std::int64_t enough = target.type == DeviceType::cpu ? 1 << 12 : 1 << 17;
  if (count_axes(loops).columns < 2 || loops.reduction_count() > kWindow || loops.parallel_count() < enough ||
      has_scans(loops))
    return false;
  // A load along the whole window that meets each element in half as many positions again, at least, and is no weight
  // that all rows share.
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::load && (loops.columns() & ~value.axes) == 0 &&
           2 * loops.count() > 3 * segment::elements_touched(loops, value) &&
           value.buffer_elements * 2 > loops.parallel_count();
  });
}

Result<Schedule> with_loops(const Problem& problem, int merged_reduction_axes, int wider) {
  Schedule schedule;
  auto& params = schedule.params.emplace<ReductionParams>();
  schedule.transforms.merged_reduction_axes = merged_reduction_axes;
  schedule.launch.elements = problem.loops.empty ? 0 : problem.loops.count();
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  const AxisCounts counts = count_axes(problem.loops);
  const int last_column = static_cast<int>(problem.loops.axes.size()) - 1;
  const int last_row = counts.rows - 1;
  params.vector_rows =
      bytes_along(problem.graph, problem.loops, last_row) > bytes_along(problem.graph, problem.loops, last_column) ||
      (last_row >= 0 && has_overlapping_windows(problem.loops, problem.target));
  schedule.vector_axis = params.vector_rows ? last_row : last_column;
  schedule.chunk_size = chunk_elements(problem.graph, problem.loops, schedule.vector_axis,
                                       !params.vector_rows && counts.columns == 1, problem.tuning);
  const std::int64_t size = problem.loops.axes[static_cast<std::size_t>(schedule.vector_axis)].size;
  if (!params.vector_rows && size % (schedule.chunk_size * wider) == 0) schedule.chunk_size *= wider;
  const int count = schedule.chunk_size;
  schedule.full_chunks = size % count == 0;
  schedule.launch.parallel_chunks =
      params.vector_rows ? problem.loops.parallel_count() / count : problem.loops.parallel_count();
  schedule.launch.reduction_chunks =
      params.vector_rows ? problem.loops.reduction_count() : ceil_div(problem.loops.reduction_count(), count);
  schedule.launch.chunks =
      schedule.launch.elements == 0 ? 0 : schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  plan_accesses(problem.graph, problem.loops, problem.tuning, schedule);
  for (std::size_t i = 0; i < problem.loops.values.size(); ++i) {
    const Value& value = problem.loops.values[i];
    const bool by_element = value.kind == Value::Kind::load && schedule.loads[i].kind == AccessKind::element &&
                            problem.loops.per_element(value);
    const auto unaligned =
        by_element && schedule.full_chunks
            ? unaligned_access(problem.graph, problem.loops, value, schedule.vector_axis, schedule.chunk_size)
            : std::nullopt;
    // Every second of the words that neighbouring threads read took 96 us for a pool on an H200, one element at a
    // time 76.
    if (unaligned && unaligned->step == 1) schedule.loads[i] = *unaligned;
  }
  choose_threads(problem, schedule);
  choose_parts(problem, schedule);
  const Loops staged = schedule.splits > 1 ? segment::with_split_scans(problem.loops) : problem.loops;
  choose_memory(problem.graph, staged, schedule);
  while (schedule.shared_bytes > problem.target.caps.workgroup.shared_memory_bytes && params.reduction_threads > 1) {
    params.reduction_threads /= 2;
    schedule.workgroup = params.parallel_threads * params.reduction_threads;
    params.iterations = ceil_div(schedule.launch.reduction_chunks, params.reduction_threads);
    params.persistent = params.persistent && params.iterations <= kMostIterations &&
                        registers_over(problem.target, requested_registers(problem.graph, problem.loops, problem.target,
                                                                           schedule)) == 0;
    choose_memory(problem.graph, staged, schedule);
  }
  params.passes = staged.passes;
  const bool finishes = std::any_of(staged.stores.begin(), staged.stores.end(), [&](const segment::Store& store) {
    return (store.axes & staged.columns()) == 0 && staged.values[store.value].level >= params.passes;
  });
  schedule.dispatches = schedule.splits == 1 ? 1 : params.passes + (finishes ? 1 : 0);
  schedule.launch.workgroups = ceil_div(schedule.launch.parallel_chunks, params.parallel_threads) * schedule.splits;
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  VKF_CHECK_OK(check_limits(problem.graph, staged, problem.target, schedule, iterations_of(staged, schedule)));
  model_reduction(problem.graph, staged, problem.target, schedule);
  return schedule;
}

}  // namespace

namespace {

/// The innermost `merged_reduction_axes` column axes are one; chunks of `wider` times as many elements as one load of
/// the smallest dtype has.
Result<Schedule> best_as_counted(const Problem& problem, int merged_reduction_axes, int wider) {
  VKF_TRY(chosen, with_loops(problem, merged_reduction_axes, wider));
  // A row that stays in registers is read once as it is. Otherwise two reductions in one pass save a pass, and if that
  // is the only one, nothing need stay anywhere.
  const auto paired = problem.tuning.online.value_or(true)
                          ? segment::with_online_reductions(problem.graph, problem.loops)
                          : std::nullopt;
  if (!paired || (chosen.as<ReductionParams>().persistent && !problem.tuning.online && paired->passes > 1))
    return chosen;
  VKF_TRY(online, with_loops(problem.with(*paired), merged_reduction_axes, wider));
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

}  // namespace

std::optional<Schedule> reduction_at_other_sizes(const Problem& problem, const Schedule& requested) {
  if (requested.as<ReductionParams>().packed)
    return std::nullopt;  // what its tiles and scales are depends on every size
  const AxisCounts counts = count_axes(problem.loops);
  const int axis =
      requested.as<ReductionParams>().vector_rows ? counts.rows - 1 : static_cast<int>(problem.loops.axes.size()) - 1;
  const int count = requested.chunk_size;
  if (axis != requested.vector_axis || axis < 0 || counts.columns == 0) return std::nullopt;
  const bool whole = problem.loops.axes[static_cast<std::size_t>(axis)].size % count == 0;
  if (requested.full_chunks && !whole) return std::nullopt;
  Schedule schedule = requested;
  schedule.launch.elements = problem.loops.count();
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  schedule.launch.parallel_chunks = schedule.as<ReductionParams>().vector_rows ? problem.loops.parallel_count() / count
                                                                               : problem.loops.parallel_count();
  schedule.launch.reduction_chunks = schedule.as<ReductionParams>().vector_rows
                                         ? problem.loops.reduction_count()
                                         : ceil_div(problem.loops.reduction_count(), count);
  schedule.launch.chunks = schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  Schedule planned = schedule;
  planned.full_chunks = whole;
  plan_accesses(problem.graph, problem.loops, problem.tuning, planned);
  for (std::size_t i = 0; i < planned.loads.size(); ++i) {
    const bool shifts =
        requested.loads[i].kind == AccessKind::unaligned && planned.loads[i].kind == AccessKind::element;
    const auto unaligned =
        shifts ? unaligned_access(problem.graph, problem.loops, problem.loops.values[i], axis, count) : std::nullopt;
    if (unaligned) planned.loads[i] = *unaligned;
  }
  if (!serve(planned, requested)) return std::nullopt;
  // Trips that are unrolled are as many at every size: those past the end of a row do nothing.
  const std::int64_t iterations =
      ceil_div(schedule.launch.reduction_chunks, schedule.as<ReductionParams>().reduction_threads);
  const bool unrolled = requested.as<ReductionParams>().persistent ||
                        (requested.as<ReductionParams>().iterations == 1 && requested.splits == 1);
  if (unrolled ? iterations > requested.as<ReductionParams>().iterations
               : requested.as<ReductionParams>().iterations == 1)
    return std::nullopt;
  const std::int64_t chain =
      ceil_div(iterations, schedule.splits) * (schedule.as<ReductionParams>().vector_rows ? 1 : count);
  if (schedule.as<ReductionParams>().block == 0 && !unrolled && chain > kBlock &&
      chain > longest_sum_chain(problem.loops.reduction_count()) - 256)
    return std::nullopt;
  if (!unrolled) schedule.as<ReductionParams>().iterations = std::max<std::int64_t>(iterations, 2);
  const Loops staged = schedule.splits > 1 ? segment::with_split_scans(problem.loops) : problem.loops;
  choose_memory(problem.graph, staged, schedule);
  if (schedule.shared_bytes > problem.target.caps.workgroup.shared_memory_bytes) return std::nullopt;
  schedule.launch.workgroups =
      ceil_div(schedule.launch.parallel_chunks, schedule.as<ReductionParams>().parallel_threads) * schedule.splits;
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, problem.target.caps.workgroup.max_groups_per_axis);
  if (!check_limits(problem.graph, staged, problem.target, schedule, iterations_of(staged, schedule)).ok())
    return std::nullopt;
  schedule.cost.bytes_read = schedule.cost.bytes_written = schedule.cost.bytes_read_again =
      schedule.cost.loads_executed = schedule.cost.stores_executed = schedule.cost.transactions = 0;
  model_reduction(problem.graph, staged, problem.target, schedule);
  return schedule;
}

namespace {

Result<Schedule> best_of_counts(const Problem& problem) {
  VKF_TRY(chosen, best_as_counted(problem, 1, 1));
  if (count_axes(problem.loops).columns < 2 || chosen.as<ReductionParams>().vector_rows || problem.loops.keys() != 0 ||
      problem.loops.inner() != 0)
    return chosen;
  // Where an element of memory is several columns, as a byte is two integers, the innermost axis counts these alone:
  // chunks want the next axis as well. Such memory is loaded 16 bytes at a time, however many elements that is.
  for (const int wider : {2, 1}) {
    auto merged = best_as_counted(problem.with(merge_reduction_axes(problem.loops, 2)), 2, wider);
    if (!merged || merged->as<ReductionParams>().vector_rows || !repeats_elements(*merged) ||
        merged->chunk_size <= chosen.chunk_size)
      continue;
    if (wider == 1 || loads_in_one(problem.graph, problem.loops, *merged)) return merged;
  }
  return chosen;
}

/// Whether rows have something in common that they read all along: the vector that a matrix is multiplied with.
bool share_along(const Loops& loops, int axis) {
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::load && loops.per_element(value) && ((value.axes >> axis) & 1u) == 0;
  });
}

}  // namespace

Result<Schedule> best_reduction(const Problem& problem) {
  VKF_TRY(chosen, best_of_counts(problem));
  const auto packed = best_packed_gemv(problem, chosen);
  if (packed && problem.tuning.cooperative_matrix.value_or(false)) return *packed;
  const bool reduces_products =
      std::any_of(problem.loops.values.begin(), problem.loops.values.end(),
                  [&](const Value& value) { return segment::sums_products(problem.graph, problem.loops, value); });
  const bool requested = problem.tuning.register_block_rows.value_or(0) > 1;
  if (chosen.as<ReductionParams>().vector_rows || problem.loops.passes != 1 || !reduces_products ||
      (problem.target.type == DeviceType::cpu && !requested) || problem.tuning.register_block_rows == 1)
    return packed.value_or(chosen);
  // A thread that has several rows loads and converts once what these have in common. Only of bytes, and where that is
  // modelled much better: what waits for memory gains nothing, and a decoding attention over keys of f16 took 285 us
  // instead of 181 on an H200.
  constexpr double kGain = 0.92;
  const bool of_bytes = std::any_of(problem.loops.values.begin(), problem.loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::load && problem.loops.per_element(value) &&
           size_of(problem.graph.node(value.node).type.dtype) == 1;
  });
  if (!requested && !of_bytes) return packed.value_or(chosen);
  Schedule best = chosen;
  for (int axis = 0; axis < count_axes(problem.loops).rows; ++axis) {
    if (!share_along(problem.loops, axis)) continue;
    for (const int rows : {2, 4}) {
      if (requested && rows != *problem.tuning.register_block_rows) continue;
      const auto together = segment::with_register_blocking(problem.loops, axis, rows);
      if (!together) continue;
      auto made = best_of_counts(problem.with(*together));
      if (!made || made->as<ReductionParams>().vector_rows ||
          (made->launch.workgroups < workgroups_to_fill(problem.target) && !requested))
        continue;
      if (!requested && made->cost.modelled_us > std::min(best.cost.modelled_us, chosen.cost.modelled_us * kGain))
        continue;
      best = *std::move(made);
      best.transforms.register_block_axis = axis;
      best.transforms.register_block_rows = rows;
    }
  }
  return packed && packed->cost.modelled_us < best.cost.modelled_us ? *packed : best;
}

int ReductionParams::scan_slots(int subgroup) const {
  const int workgroup = parallel_threads * reduction_threads;
  if (reduction_threads == 1) return 0;
  if (subgroup == 0) return 2 * workgroup;
  return reduction_threads > subgroup ? 2 * (workgroup / subgroup) : 0;
}

bool keeps_chains_short(const Loops& loops, const Schedule& schedule) {
  const auto& params = schedule.as<ReductionParams>();
  const std::int64_t per_chunk = params.vector_rows ? 1 : schedule.chunk_size;
  return params.iterations / schedule.splits * per_chunk <= longest_sum_chain(loops.reduction_count());
}

void describe_reduction(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<ReductionParams>();
  const LoopTransforms& transforms = schedule.transforms;
  const int rows =
      params.parallel_threads * (params.vector_rows ? schedule.chunk_size : transforms.register_block_rows);
  nlohmann::ordered_json& choices = description.choices;
  choices["parallel_threads"] = params.parallel_threads;
  choices["reduction_threads"] = params.reduction_threads;
  choices["iterations"] = params.iterations;
  choices["rows_per_workgroup"] = rows;
  choices["splits"] = schedule.splits;
  choices["passes"] = params.passes;
  choices["persistent"] = params.persistent;
  choices["online"] = transforms.online;
  choices["register_blocking"] = {transforms.register_block_axis, transforms.register_block_rows};
  if (const auto& packed = params.packed) {
    choices["packed_gemv"] = {packed->mma.m,     packed->mma.n, packed->mma.k,
                              packed->subgroups, packed->tiles, packed->k_slice};
    description.launch = fmt::format(
        "{} workgroups of {}, {} rows each, {} at a time; {} subgroups share the columns, in products of {} x {} x {}",
        schedule.launch.workgroups, schedule.workgroup, packed->rows(), packed->mma.m, packed->subgroups, packed->mma.m,
        packed->mma.n, packed->mma.k);
    return;
  }
  description.launch = fmt::format("{} workgroups of {} threads per row x {} rows, {} pass{} over the columns{}",
                                   schedule.launch.workgroups, params.reduction_threads, rows, params.passes,
                                   params.passes == 1 ? "" : "es", params.persistent ? ", rows kept in registers" : "");
  if (schedule.splits > 1)
    description.more_launch.push_back(
        fmt::format("{} workgroups share a row: {} dispatches", schedule.splits, schedule.dispatches));
}

}  // namespace vkfuse::schedule

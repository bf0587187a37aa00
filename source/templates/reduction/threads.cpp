#include "templates/reduction/threads.hpp"

#include <algorithm>
#include <bit>

#include "base/numerics.hpp"
#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/budget.hpp"
#include "schedule/traffic.hpp"
#include "templates/reduction/chunks.hpp"
#include "templates/reduction/registers.hpp"
#include "templates/reduction/visited_columns.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

constexpr int kMostScanIterations = 8;  // where every iteration scans across threads
constexpr int kMostScanThreads = 256;   // more would wait for each other longer than they help
constexpr std::int64_t kMostRowWords =
    1 << 14;  // of a longer row no two workgroups have room at a time: it is read again, from near caches
constexpr int kWordsBesideRow = 24;  // of a thread

/// Up to the largest that an int has: of more rows or columns no workgroup asks.
int power_of_two_at_least(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, 1 << 30))));
}

/// Bytes of an element of the largest load along the reduction axes.
int largest_load(const ir::Graph& graph, const Loops& loops) {
  int bytes = 1;
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load && loops.per_element(value))
      bytes = std::max(bytes, size_of(graph.node(value.node).type.dtype));
  }
  return bytes;
}

/// What there is to do along a row, and what of the device is there for it.
struct RowWork {
  int limit = 1;  ///< threads of a workgroup
  bool cpu = false;
  bool scans = false;
  std::int64_t chunks = 0;       ///< along the reduction axes
  std::int64_t visited = 0;      ///< of these, chunks of a row that are visited in the mean
  std::int64_t chunk_bytes = 0;  ///< of the largest load
  bool repeats = false;          ///< some load is needed again in a later pass
  int iteration_words = 0;       ///< 32-bit words that an iteration takes of a thread's budget
  int most_resident = 0;         ///< of these, words that a thread has room for

  /// 32-bit words of a thread where so many of them keep a row.
  [[nodiscard]] std::int64_t kept_words(int threads) const { return ceil_div(chunks, threads) * iteration_words; }
};

RowWork row_work(const Problem& problem, const Schedule& schedule) {
  RowWork work;
  work.limit = static_cast<int>(usable_invocations(problem.target.caps));
  work.cpu = problem.target.type == DeviceType::cpu;
  work.scans = has_scans(problem.loops);
  work.chunks = schedule.launch.reduction_chunks;
  work.visited = visited_chunks(problem.graph, problem.loops, schedule);
  work.chunk_bytes = static_cast<std::int64_t>(schedule.chunk_size) * largest_load(problem.graph, problem.loops);
  work.repeats = resident_loads(problem.graph, problem.loops, schedule).repeats;
  work.iteration_words = words_of_iteration(problem.graph, problem.loops, problem.target, schedule);
  work.most_resident = most_resident_words(problem.graph, problem.loops, problem.target, schedule);
  return work;
}

/// The threads of a workgroup: so many rows, or groups of rows, and so many threads along each.
struct WorkgroupShape {
  int parallel = 1;
  int reduction = 1;
};

/// Whether rows are windows, and so many that they fill the device: one thread goes over all of its window.
bool gives_windows_to_threads(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  const DeviceModel& model = device_model(problem.target);
  return !work.cpu && work.chunks <= kLargestWindow &&
         static_cast<double>(schedule.launch.parallel_chunks) >= model.units.count * model.units.threads &&
         !problem.tuning.workgroup;
}

/// Threads for each row, or group of rows, whose columns data chooses. Few are visited in the mean, but all of them may
/// be one row's: where rows do not fill the device many times over, threads that find nothing to do cost little.
WorkgroupShape threads_of_chosen_columns(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  constexpr double kWaves = 8;
  constexpr int kMost = 32, kWorkgroup = 128;
  const DeviceModel& model = device_model(problem.target);
  WorkgroupShape shape;
  shape.reduction = std::min(kMost, power_of_two_at_least(work.visited / 4));
  const double rows = static_cast<double>(std::max<std::int64_t>(1, schedule.launch.parallel_chunks));
  while (shape.reduction < kMost && rows * shape.reduction * 2 <= kWaves * model.units.count * model.units.threads)
    shape.reduction *= 2;
  shape.reduction = std::min(shape.reduction, power_of_two_at_least(work.chunks));
  shape.parallel = std::min(power_of_two_at_least(schedule.launch.parallel_chunks),
                            std::max(1, std::min(work.limit, kWorkgroup) / shape.reduction));
  return shape;
}

/// As many as have a few columns each, or two where threads are few.
int threads_along_owned_row(const Target& target, const Schedule& schedule, const RowWork& work) {
  const int threads = power_of_two_at_least(work.visited / (work.cpu ? 16 : 4));
  return leaves_idle(target, schedule.launch.parallel_chunks * threads) ? power_of_two_at_least(work.visited / 2)
                                                                        : threads;
}

/// Neighbouring threads own neighbouring rows; the rest of the workgroup share the reduction axes.
WorkgroupShape threads_that_own_rows(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  if (work.visited < work.chunks && !work.cpu && !problem.tuning.workgroup)
    return threads_of_chosen_columns(problem, schedule, work);
  WorkgroupShape shape;
  shape.parallel = std::min(power_of_two_at_least(schedule.launch.parallel_chunks), work.cpu ? 8 : 32);
  int most = work.cpu ? 64 : 512;
  if (!work.cpu && work.repeats) {
    // What is read again should still be in the last-level cache: fewer rows at a time, more threads along each, but
    // lines are read as a whole (H200, softmax of 4,096 rows of f16 1,024 elements apart: 461 us, half lines 491).
    const std::int64_t row_bytes = work.chunks * work.chunk_bytes;
    const auto line = static_cast<std::int64_t>(device_model(problem.target).units.cache_line_bytes);
    while (shape.parallel > std::max<std::int64_t>(4, line / std::max<std::int64_t>(1, work.chunk_bytes)) &&
           static_cast<double>(row_bytes * shape.parallel) > device_model(problem.target).caches.tile_bytes)
      shape.parallel /= 2;
    most = 1024;
  }
  if (problem.tuning.workgroup && problem.tuning.reduction_threads)
    shape.parallel = std::max(1, *problem.tuning.workgroup / *problem.tuning.reduction_threads);
  const int rest = std::max(1, std::min(work.limit, most) / shape.parallel);
  shape.reduction = std::min(threads_along_owned_row(problem.target, schedule, work), rest);
  if (gives_windows_to_threads(problem, schedule, work)) shape = {std::min(work.limit, 128), 1};
  if (work.scans) shape.reduction = 1;  // a scan goes along its row in one thread
  return shape;
}

/// Threads of a row of a CPU: those of one subgroup at most.
int threads_of_cpu_row(const Target& target, const RowWork& work) {
  const int subgroup = static_cast<int>(std::max(1u, target.caps.subgroup.size));
  return std::min({power_of_two_at_least(work.visited), subgroup, work.limit});
}

/// Some 64 bytes of each row per thread: what a thread does once per row is then little beside it.
int threads_for_bytes(const RowWork& work) {
  const std::int64_t iterations =
      std::clamp<std::int64_t>(64 / std::max<std::int64_t>(work.chunk_bytes, 1), 4, kMostUnrolledIterations);
  const int threads = std::min(power_of_two_at_least(ceil_div(work.visited, iterations)), work.limit);
  // Half as many, if that is no more than 1.6 times as many chunks each: 6 a thread are better than 3.
  const int fewer = power_of_two_at_least(ceil_div(ceil_div(work.visited, iterations) * 5, 8));
  return fewer < threads && ceil_div(work.visited, fewer) <= kMostUnrolledIterations ? fewer : threads;
}

/// Threads of a row whose loads are needed again, so that it stays in their registers: fewer or more than `threads`.
int threads_that_keep_row(const Target& target, const RowWork& work, int threads) {
  if (!work.repeats) return threads;
  // Rows that stay in registers want two workgroups at a time, so that one loads while the other computes: fewer
  // threads have fewer registers beside the row.
  while (threads > 64 && work.kept_words(threads) * threads <= kMostRowWords &&
         work.kept_words(threads / 2) <= work.most_resident &&
         ceil_div(work.chunks, threads / 2) <= kMostUnrolledIterations &&
         overfills_registers(target, work.kept_words(threads) + kWordsBesideRow, 2 * threads)) {
    threads /= 2;
  }
  // More threads to a row that is read again, where it then stays in their registers.
  int more = threads;
  while (more < work.limit && work.kept_words(more) > work.most_resident) more *= 2;
  return work.kept_words(more) <= work.most_resident && work.kept_words(more) * more <= kMostRowWords ? more : threads;
}

/// Threads that share a row of a GPU and reduce across each other.
int threads_of_row(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  const DeviceModel& model = device_model(problem.target);
  int threads = threads_for_bytes(work);
  // Long rows that are read once: many workgroups wait for memory at different times, if there are so many rows.
  if (problem.loops.passes == 1 &&
      static_cast<double>(schedule.launch.parallel_chunks) >= model.occupancy.rows_to_overlap * model.units.count)
    threads = std::min(threads, std::max(128, power_of_two_at_least(work.chunks / 32)));
  threads = std::max(threads, std::min({32, power_of_two_at_least(work.visited), work.limit}));
  if (work.scans) threads = std::min(threads, kMostScanThreads);
  return threads_that_keep_row(problem.target, work, threads);
}

/// The promise of numerics.hpp, with room for the reductions across threads and splits. Where data says which columns
/// are visited, few are expected, and a thread that meets many starts its sums anew.
int threads_of_short_chains(const Loops& loops, const Schedule& schedule, const RowWork& work, int threads) {
  while (work.visited == work.chunks && threads < work.limit &&
         ceil_div(work.chunks, threads) * schedule.chunk_size > longest_sum_chain(loops.reduction_count()) - 256 &&
         loops.reduction_count() > 512) {
    threads *= 2;
  }
  return threads;
}

/// Threads along a row, as a tuning may force them.
int tuned_threads(const Tuning& tuning, const RowWork& work, int threads) {
  const int tuned = std::min(tuning.reduction_threads.value_or(threads), work.limit);
  check(std::has_single_bit(static_cast<unsigned>(tuned)), "threads reduce across each other in halves");
  return tuned;
}

WorkgroupShape workgroup_with_owned_rows(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  WorkgroupShape shape = threads_that_own_rows(problem, schedule, work);
  if (!work.scans) shape.reduction = tuned_threads(problem.tuning, work, shape.reduction);
  // Threads along a row that are forced, and devices of few invocations, leave room for fewer rows.
  while (shape.parallel > 1 && shape.parallel * shape.reduction > work.limit) shape.parallel /= 2;
  return shape;
}

WorkgroupShape workgroup_with_shared_rows(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  int threads = work.cpu ? threads_of_cpu_row(problem.target, work) : threads_of_row(problem, schedule, work);
  threads = threads_of_short_chains(problem.loops, schedule, work, threads);
  threads = tuned_threads(problem.tuning, work, threads);
  const int requested = std::min(problem.tuning.workgroup.value_or(work.cpu ? 64 : 128), work.limit);
  const auto rows = static_cast<int>(
      std::min<std::int64_t>(std::max(1, requested / threads), power_of_two_at_least(schedule.launch.parallel_chunks)));
  return {rows, threads};
}

/// Shuffles need whole subgroups: more rows, or no shuffles.
void fill_subgroups(int limit, Schedule& schedule) {
  if (schedule.subgroup <= 0) return;
  ReductionParams& params = schedule.as<ReductionParams>();
  while (params.parallel_threads * params.reduction_threads < schedule.subgroup &&
         params.parallel_threads * params.reduction_threads * 2 <= limit)
    params.parallel_threads *= 2;
  if (params.parallel_threads * params.reduction_threads % schedule.subgroup != 0) schedule.subgroup = 0;
}

/// Whether iterations are unrolled, and what was loaded stays in registers.
bool is_persistent(const Problem& problem, const Schedule& schedule, const RowWork& work) {
  const ReductionParams& params = schedule.as<ReductionParams>();
  const int most = work.scans ? kMostScanIterations : kMostUnrolledIterations;
  const bool fits = params.iterations <= most && params.iterations * work.iteration_words <= work.most_resident &&
                    (work.cpu || params.iterations * work.iteration_words * params.reduction_threads <= kMostRowWords);
  return work.visited == work.chunks && problem.tuning.persistent.value_or(work.repeats && fits) &&
         params.iterations <= most &&
         may_unroll(problem.graph, problem.loops, problem.target, params.iterations * std::max(1, schedule.chunk_size));
}

/// Whether the threads of a workgroup want more registers than it has.
bool wants_too_many(const Problem& problem, const Schedule& schedule) {
  return overfills_registers(problem.target,
                             requested_reduction_registers(problem.graph, problem.loops, problem.target, schedule),
                             schedule.workgroup);
}

/// Fewer rows at a time, or threads that own several spill.
void leave_registers_to_rows(const Problem& problem, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  while (params.parallel_threads > 1 && wants_too_many(problem, schedule)) {
    params.parallel_threads /= 2;
    schedule.workgroup /= 2;
  }
}

}  // namespace

namespace {

void choose_threads(const Problem& problem, const RowWork& work, Schedule& schedule) {
  ReductionParams& params = schedule.as<ReductionParams>();
  const WorkgroupShape shape = params.vector_rows ? workgroup_with_owned_rows(problem, schedule, work)
                                                  : workgroup_with_shared_rows(problem, schedule, work);
  params.parallel_threads = shape.parallel;
  params.reduction_threads = shape.reduction;
  const bool shuffles = may_shuffle(problem.target) && !params.vector_rows;
  schedule.subgroup = shuffles ? static_cast<int>(problem.target.caps.subgroup.size) : 0;
  fill_subgroups(work.limit, schedule);
  schedule.workgroup = params.parallel_threads * params.reduction_threads;
  params.iterations = ceil_div(work.chunks, params.reduction_threads);
  params.persistent = is_persistent(problem, schedule, work);
  if (!work.cpu && !problem.tuning.workgroup && params.vector_rows) leave_registers_to_rows(problem, schedule);
}

/// The same, where that is known.
bool overfills(const Problem& problem, const Schedule& schedule) {
  return problem.target.caps.registers.per_thread != kUnknownRegistersPerThread && !problem.tuning.workgroup &&
         !problem.tuning.reduction_threads && wants_too_many(problem, schedule);
}

}  // namespace

void choose_reduction_threads(const Problem& problem, Schedule& schedule) {
  RowWork work = row_work(problem, schedule);
  choose_threads(problem, work, schedule);
  while (!work.cpu && work.limit > 64 && overfills(problem, schedule)) {
    work.limit /= 2;
    choose_threads(problem, work, schedule);
  }
}

}  // namespace vkfuse::schedule

#include "templates/reduction/chunks.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "schedule/access.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"
#include "templates/reduction/registers.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;

namespace {

/// Whether neighbours along an axis are the same element or the next one, as where a byte is two integers.
bool has_short_steps(const Loops& loops, const index::Expr& offset, int axis) {
  constexpr std::int64_t kSteps = 8;
  std::map<index::AxisId, index::Expr> at;
  for (int other = 0; other < static_cast<int>(loops.axes.size()); ++other) at[other] = index::Expr(0);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < std::min(kSteps, loops.axes[static_cast<std::size_t>(axis)].size); ++i) {
    at[axis] = index::Expr(i);
    const index::Expr here = index::substitute(offset, at);
    if (!here.is_constant() || (i > 0 && here.constant() != before && here.constant() != before + 1)) return false;
    before = here.constant();
  }
  return true;
}

constexpr std::int64_t kCacheLineElements = 32;  // elements: each is in another cache line

std::int64_t stride_along(const Loops& loops, const index::Expr& offset, int axis) {
  if (const auto stride = index::stride_of(offset, axis)) return *stride;
  return has_short_steps(loops, offset, axis) ? 1 : kCacheLineElements;
}

/// Bytes that neighbouring threads move side by side along an axis, less where they are further apart: the axis
/// with more of them wins.
double bytes_along(const ir::Graph& graph, const Loops& loops, int axis) {
  if (axis < 0) return -1;
  double bytes = 0;
  const auto add = [&](const index::Expr& offset, std::int64_t elements, ir::NodeId node, bool by_data) {
    std::int64_t stride = by_data ? kCacheLineElements : stride_along(loops, offset, axis);
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

/// Whether rows are windows that overlap, as a pooling's are, and so many that they fill the device: neighbouring
/// threads then have neighbouring rows, whatever lies side by side along the reduction axes.
bool has_overlapping_windows(const Loops& loops, const Target& target) {
  const std::int64_t enough = target.type == DeviceType::cpu ? 1 << 12 : 1 << 17;
  if (count_axes(loops).columns < 2 || loops.reduction_count() > kLargestWindow || loops.parallel_count() < enough ||
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

/// The best alignment, in elements, at which chunks of `count` begin: of stores, and of loads that are not small beside
/// the largest.
std::int64_t alignment_of_chunks(const Loops& loops, int axis, int count) {
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
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
  return alignment;
}

/// The widest chunk that stays inside a row and that the alignment of what is moved makes use of.
int chunk_elements(const Problem& problem, int axis, bool ragged_allowed) {
  if (axis < 0) return 1;
  const Widths widths = moved_widths(problem.graph, problem.loops, segment::AxisSet{1} << axis);
  const int bytes = problem.tuning.vector_bytes.value_or(16);
  int count = std::max({1, std::min(bytes / widths.smallest, 2 * bytes / widths.largest), 4 / widths.smallest_store});
  const std::int64_t size = problem.loops.axes[static_cast<std::size_t>(axis)].size;
  while (count > 1 && !ragged_allowed && size % count != 0) count /= 2;
  if (!ragged_allowed) return count;
  // Where rows begin anywhere, narrower chunks are as good as wide ones and coalesce better.
  const std::int64_t alignment = alignment_of_chunks(problem.loops, axis, count);
  const int least = std::max(1, 4 / std::min(widths.smallest, widths.smallest_store));
  while (count > least && count > alignment) count /= 2;
  while (count > least && count / 2 >= size) count /= 2;
  return count;
}

/// Loads whose runs begin in the middle of a 32-bit word read the words around them.
void plan_unaligned_loads(const Problem& problem, Schedule& schedule) {
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
}

}  // namespace

void count_row_chunks(const Loops& loops, Schedule& schedule) {
  const bool vector_rows = schedule.as<ReductionParams>().vector_rows;
  const int count = schedule.chunk_size;
  schedule.launch.parallel_chunks = vector_rows ? loops.parallel_count() / count : loops.parallel_count();
  schedule.launch.reduction_chunks = vector_rows ? loops.reduction_count() : ceil_div(loops.reduction_count(), count);
}

namespace {

/// Gives chunks so many elements, and plans what moves them.
void take_chunks(const Problem& problem, int elements, Schedule& schedule) {
  schedule.chunk_size = elements;
  schedule.full_chunks = problem.loops.axes[static_cast<std::size_t>(schedule.vector_axis)].size % elements == 0;
  count_row_chunks(problem.loops, schedule);
  schedule.launch.chunks =
      schedule.launch.elements == 0 ? 0 : schedule.launch.parallel_chunks * schedule.launch.reduction_chunks;
  plan_accesses(problem.graph, problem.loops, problem.tuning, schedule);
  plan_unaligned_loads(problem, schedule);
}

/// Rows side by side have accumulators each: fewer of them, where a thread has too few registers or threads are few.
/// Stores of less than a word would cost more.
void fit_registers(const Problem& problem, Schedule& schedule) {
  const Widths widths =
      moved_widths(problem.graph, problem.loops, segment::AxisSet{1} << static_cast<unsigned>(schedule.vector_axis));
  const int least = std::max(1, 4 / std::min(widths.smallest, widths.smallest_store));
  const auto over = [&] {
    return registers_over(problem.target,
                          requested_reduction_registers(problem.graph, problem.loops, problem.target, schedule));
  };
  const auto is_small = [&] { return leaves_idle(problem.target, schedule.launch.chunks); };
  while (schedule.chunk_size / 2 >= least && (is_small() || over() > 0))
    take_chunks(problem, schedule.chunk_size / 2, schedule);
}

}  // namespace

void choose_reduction_chunks(const Problem& problem, int wider, Schedule& schedule) {
  auto& params = schedule.as<ReductionParams>();
  const AxisCounts counts = count_axes(problem.loops);
  const int last_reduction_axis = static_cast<int>(problem.loops.axes.size()) - 1;
  const int last_parallel_axis = counts.rows - 1;
  params.vector_rows = bytes_along(problem.graph, problem.loops, last_parallel_axis) >
                           bytes_along(problem.graph, problem.loops, last_reduction_axis) ||
                       (last_parallel_axis >= 0 && has_overlapping_windows(problem.loops, problem.target));
  schedule.vector_axis = params.vector_rows ? last_parallel_axis : last_reduction_axis;
  int elements = chunk_elements(problem, schedule.vector_axis, !params.vector_rows && counts.columns == 1);
  const std::int64_t size = problem.loops.axes[static_cast<std::size_t>(schedule.vector_axis)].size;
  if (!params.vector_rows && size % (elements * wider) == 0) elements *= wider;
  take_chunks(problem, elements, schedule);
  if (params.vector_rows && !problem.tuning.vector_bytes) fit_registers(problem, schedule);
}

}  // namespace vkfuse::schedule

#include "schedule/access.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "device_model/device_model.hpp"
#include "index/arithmetic.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;

std::string_view name_of(Template kind) {
  constexpr std::string_view names[] = {"pointwise", "reduction", "sort", "matmul", "attention", "tiled", "custom"};
  return names[static_cast<int>(kind)];
}

std::string_view name_of(AccessKind kind) {
  constexpr std::string_view names[] = {"vector", "scalar", "uniform", "element", "transposed", "unaligned", "opaque"};
  return names[static_cast<int>(kind)];
}

bool varies_in_chunk(const Loops& loops, const Schedule& schedule, const Value& value) {
  if (schedule.crosses_rows) return value.axes != 0;
  static_cast<void>(loops);
  return schedule.vector_axis >= 0 && ((value.axes >> schedule.vector_axis) & 1u) != 0;
}

namespace {

std::int64_t padded_size(const Loops& loops, const Schedule& schedule) {
  const std::int64_t size = loops.axes[static_cast<std::size_t>(schedule.vector_axis)].size;
  return ceil_div(size, schedule.chunk_size) * schedule.chunk_size;
}

/// The row-major position over all axes: what straddling chunks count.
Expr flat_position(const Loops& loops) {
  std::vector<Expr> axes;
  Sizes sizes;
  for (std::size_t i = 0; i < loops.axes.size(); ++i) {
    axes.push_back(Expr::axis(static_cast<int>(i), loops.axes[i].size));
    sizes.push_back(loops.axes[i].size);
  }
  return index::linearize(axes, sizes);
}

/// Whether a condition is the same for all elements of every chunk.
bool uniform_predicate(const Loops& loops, const Schedule& schedule, const segment::Predicate& predicate) {
  if (schedule.crosses_rows) return false;
  return std::all_of(predicate.ranges.begin(), predicate.ranges.end(), [&](const segment::Predicate::Range& range) {
    const int count = schedule.chunk_size;
    const auto run = index::run_along(range.value, schedule.vector_axis, padded_size(loops, schedule), count, count);
    if (!run) return false;
    return run->stride == 0 || (run->stride == 1 && run->alignment >= count && range.size % count == 0);
  });
}

/// A load of which each element serves `repeat` neighbours of the chunk, as a byte serves the two integers in it.
std::optional<AccessPlan> plan_repeated(const Loops& loops, const Tuning& tuning, const Schedule& schedule,
                                        const Expr& offset, int element_bytes) {
  constexpr index::AxisId kOuter = 1 << 25, kElement = kOuter + 1, kWithin = kOuter + 2;
  for (const int repeat : {2, 4, 8}) {
    const int elements = schedule.chunk_size / repeat;
    if (schedule.chunk_size % repeat != 0 || elements * element_bytes < std::max(4, element_bytes)) break;
    const std::int64_t chunks = padded_size(loops, schedule) / schedule.chunk_size;
    const Expr element = Expr::axis(kElement, elements);
    const Expr along =
        index::substitute(offset, {{schedule.vector_axis, Expr::axis(kOuter, chunks) * schedule.chunk_size +
                                                              element * repeat + Expr::axis(kWithin, repeat)}});
    if (index::depends_on(along, kWithin) || index::stride_of(along, kElement) != 1) continue;
    const std::int64_t alignment = std::min<std::int64_t>(index::alignment_of(along - element, 16), elements);
    const int bytes = std::min(
        {tuning.vector_bytes.value_or(16), elements * element_bytes, static_cast<int>(alignment) * element_bytes});
    if (bytes >= std::max(4, element_bytes)) return AccessPlan{AccessKind::vector, bytes, repeat};
  }
  return std::nullopt;
}

AccessPlan plan_access(const Loops& loops, const Tuning& tuning, const Schedule& schedule, const Expr& offset,
                       int element_bytes, std::span<const segment::Predicate> predicates, segment::AxisSet axes,
                       bool repeats) {
  const int count = schedule.chunk_size;
  const int word = std::max(4, element_bytes);
  if (axes == 0) return {AccessKind::uniform, word};
  if (schedule.vector_axis < 0) return {AccessKind::element, word};
  // Chunks of one element that is a word of its own: wherever it is, it is a vector of one.
  if (count == 1 && element_bytes >= 4 && !schedule.crosses_rows && ((axes >> schedule.vector_axis) & 1u) != 0)
    return {AccessKind::vector, element_bytes};
  // However narrow accesses are asked for, an element is loaded in one.
  const int widest = std::min(std::max(tuning.vector_bytes.value_or(16), element_bytes), count * element_bytes);
  if (schedule.crosses_rows) {
    // Only what runs along with the chunks; anything else needs coordinates per element.
    const Expr rest = offset - flat_position(loops);
    if (!predicates.empty() || !rest.is_constant()) return {AccessKind::element, word};
    const std::int64_t alignment = index::alignment_of(rest, count);
    // Chunks of less than a word begin inside of one.
    return alignment >= count && widest >= word ? AccessPlan{AccessKind::vector, widest}
                                                : AccessPlan{AccessKind::element, word};
  }
  for (const segment::Predicate& predicate : predicates) {
    if (!uniform_predicate(loops, schedule, predicate)) return {AccessKind::element, word};
  }
  const auto run = index::run_along(offset, schedule.vector_axis, padded_size(loops, schedule), count, 16);
  if (!run)
    return repeats ? plan_repeated(loops, tuning, schedule, offset, element_bytes)
                         .value_or(AccessPlan{AccessKind::element, word})
                   : AccessPlan{AccessKind::element, word};
  if (run->stride == 0) return {AccessKind::scalar, word};
  if (run->stride != 1) return {AccessKind::element, word};
  const int aligned = static_cast<int>(std::min<std::int64_t>(run->alignment, count)) * element_bytes;
  const int bytes = std::min(widest, aligned);
  if (bytes < word) return {AccessKind::element, word};
  return {AccessKind::vector, bytes};
}

}  // namespace

AccessPlan plan_load(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, const Schedule& schedule,
                     segment::ValueId id) {
  const Value& value = loops.values[id];
  const int bytes = size_of(graph.node(value.node).type.dtype);
  // Data that differs within the chunk moves every element elsewhere.
  const bool scattered = std::any_of(value.data.begin(), value.data.end(), [&](segment::ValueId data) {
    return varies_in_chunk(loops, schedule, loops.values[data]);
  });
  if (scattered) return {AccessKind::element, std::max(4, bytes)};
  return plan_access(loops, tuning, schedule, value.offset, bytes, value.predicates, value.axes,
                     schedule.transforms.merged_reduction_axes > 1);
}

void plan_accesses(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  schedule.loads.assign(loops.values.size(), {});
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == Value::Kind::load) schedule.loads[id] = plan_load(graph, loops, tuning, schedule, id);
  }
  plan_stores(graph, loops, tuning, schedule);
  share_word_types(graph, loops, schedule);
}

void plan_stores(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  schedule.stores.clear();
  for (const segment::Store& store : loops.stores) {
    const int bytes = size_of(graph.node(store.node).type.dtype);
    AccessPlan plan = plan_access(loops, tuning, schedule, store.offset, bytes, {}, store.axes, false);
    schedule.stores.push_back(plan);
  }
  // The parts of one buffer are stored alike.
  for (std::size_t i = 0; i < schedule.stores.size(); ++i) {
    for (std::size_t k = 0; k < schedule.stores.size(); ++k) {
      if (loops.stores[i].node != loops.stores[k].node) continue;
      if (schedule.stores[k].kind != AccessKind::vector) schedule.stores[i].kind = schedule.stores[k].kind;
      schedule.stores[i].vector_bytes = std::min(schedule.stores[i].vector_bytes, schedule.stores[k].vector_bytes);
    }
  }
}

void share_word_types(const ir::Graph& graph, const Loops& loops, Schedule& schedule) {
  const auto is_vector = [&](std::size_t i) {
    if (loops.values[i].kind != Value::Kind::load) return false;
    const AccessPlan& plan = schedule.loads[i];
    // Single words are read out of an array of any type.
    const int word = std::max(4, size_of(graph.node(loops.values[i].node).type.dtype));
    return plan.kind == AccessKind::vector || (plan.kind == AccessKind::transposed && plan.vector_bytes > word);
  };
  std::map<ir::NodeId, int> narrowest;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    if (!is_vector(i)) continue;
    int& bytes = narrowest.emplace(loops.values[i].node, schedule.loads[i].vector_bytes).first->second;
    bytes = std::min(bytes, schedule.loads[i].vector_bytes);
  }
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    if (is_vector(i)) schedule.loads[i].vector_bytes = narrowest.at(loops.values[i].node);
  }
}

bool serve(const Schedule& planned, const Schedule& model) {
  const auto serves = [](const AccessPlan& here, const AccessPlan& requested) {
    if (here.kind == requested.kind)
      return here.repeat == requested.repeat && here.step == requested.step &&
             here.vector_bytes >= requested.vector_bytes;
    switch (requested.kind) {
      case AccessKind::element: return true;
      case AccessKind::scalar: return here.kind == AccessKind::uniform;
      case AccessKind::unaligned: return here.kind == AccessKind::vector && here.repeat == 1 && requested.step == 1;
      default: return false;
    }
  };
  return std::equal(planned.loads.begin(), planned.loads.end(), model.loads.begin(), model.loads.end(), serves) &&
         std::equal(planned.stores.begin(), planned.stores.end(), model.stores.begin(), model.stores.end(), serves);
}

int words_around(const AccessPlan& plan, int elements) { return plan.step == 1 ? elements / 2 + 1 : elements; }

int registers_of_chunk(const AccessPlan& plan, int element_bytes, int elements) {
  // Of a shifted one where its run begins, too.
  return plan.kind == AccessKind::unaligned ? words_around(plan, elements) + 1
                                            : std::max(1, elements * element_bytes / 4);
}

std::int64_t instructions(const AccessPlan& plan, int element_bytes, int elements) {
  switch (plan.kind) {
    case AccessKind::vector:
      return ceil_div(static_cast<std::int64_t>(elements / plan.repeat) * element_bytes, plan.vector_bytes);
    case AccessKind::element: return elements;
    case AccessKind::unaligned: return words_around(plan, elements);
    default: return 1;
  }
}

std::int64_t lines(const AccessPlan& plan, int element_bytes, int elements, int subgroup) {
  const std::int64_t bytes = static_cast<std::int64_t>(elements) * element_bytes * subgroup;
  switch (plan.kind) {
    case AccessKind::vector:
    case AccessKind::unaligned: return std::max<std::int64_t>(1, ceil_div(bytes * plan.step, 128));
    case AccessKind::element: return std::max<std::int64_t>(elements, ceil_div(bytes, 128));
    default: return 1;
  }
}

Widths moved_widths(const ir::Graph& graph, const Loops& loops, segment::AxisSet axes) {
  Widths widths;
  const auto add = [&](ir::NodeId node) {
    const int size = size_of(graph.node(node).type.dtype);
    widths.smallest = std::min(widths.smallest, size);
    widths.largest = std::max(widths.largest, size);
    return size;
  };
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load && (value.axes & axes) != 0) add(value.node);
  }
  for (const segment::Store& store : loops.stores) {
    if ((store.axes & axes) == 0) continue;
    widths.smallest_store = std::min(widths.smallest_store, add(store.node));
  }
  return widths;
}

int widest_chunk(const Widths& widths, const Tuning& tuning) {
  const int bytes = tuning.vector_bytes.value_or(16);
  const int requested = std::min(bytes / widths.smallest, 2 * bytes / widths.largest);
  // A word is the least a thread may own, so that no two threads write parts of one.
  return std::max({1, requested, 4 / widths.smallest_store});
}

std::vector<int> memory_order(const Loops& loops, const Expr& offset) {
  std::vector<int> order;
  std::int64_t stride = 1;
  for (bool found = true; found;) {
    found = false;
    for (int axis = static_cast<int>(loops.axes.size()) - 1; axis >= 0 && !found; --axis) {
      const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
      if (size == 1 || std::find(order.begin(), order.end(), axis) != order.end()) continue;
      if (index::stride_of(offset, axis) != stride) continue;
      order.push_back(axis);
      stride *= size;
      found = true;
    }
  }
  return order;
}

double sector_overhead(std::int64_t run_bytes) {
  constexpr std::int64_t kSector = 32;
  if (run_bytes % kSector == 0) return 1;
  if (kSector % run_bytes == 0)
    return static_cast<double>(kSector) / static_cast<double>(run_bytes);  // aligned, as powers of two are
  return static_cast<double>(run_bytes + kSector - 1) / static_cast<double>(run_bytes);
}

namespace {

/// The same of one access of all chunks.
double access_overhead(const Loops& loops, const Schedule& schedule, const Expr& offset, const AccessPlan& plan,
                       int element_bytes) {
  if (plan.kind == AccessKind::uniform || plan.kind == AccessKind::scalar || schedule.vector_axis < 0) return 1;
  const auto stride = index::stride_of(offset, schedule.vector_axis);
  if (!stride) return sector_overhead(element_bytes);
  if (*stride == 0) return 1;
  // Neighbours that are near each other share sectors even so.
  if (std::abs(*stride) > 1) return std::min(sector_overhead(element_bytes), static_cast<double>(std::abs(*stride)));
  std::int64_t run = element_bytes;
  std::int64_t next = *stride;
  for (int axis = schedule.vector_axis; axis >= 0 && index::stride_of(offset, axis) == next; --axis) {
    run *= loops.axes[static_cast<std::size_t>(axis)].size;
    next *= loops.axes[static_cast<std::size_t>(axis)].size;
  }
  return sector_overhead(run);
}

/// Two atomic operations store each element that shares a word with another thread's.
constexpr double kSharedWordOverhead = 8;

double cached_bytes(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  double all = 0;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& load = loops.values[i];
    if (load.kind != Value::Kind::load) continue;
    const int bytes = size_of(graph.node(load.node).type.dtype);
    const AccessPlan& plan = schedule.loads[i];
    // Where data decides, neighbours may be anywhere: taken to be near.
    const double overhead = !load.data.empty() ? 1.0
                            : plan.kind == AccessKind::transposed
                                ? sector_overhead(plan.run * bytes)
                                : access_overhead(loops, schedule, load.offset, plan, bytes);
    all += static_cast<double>(segment::elements_touched(loops, load)) * bytes * overhead;
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const segment::Store& store = loops.stores[i];
    const int bytes = size_of(graph.node(store.node).type.dtype);
    double overhead = access_overhead(loops, schedule, store.offset, schedule.stores[i], bytes);
    const bool shares_words = schedule.stores[i].kind == AccessKind::element && bytes < 4 &&
                              !stores_sub32(graph, loops, target, schedule, store.node);
    if (shares_words) overhead = std::max(overhead, kSharedWordOverhead);
    all += static_cast<double>(element_count_of(loops, store.offset)) * bytes * overhead;
  }
  return all;
}

}  // namespace

double traffic(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule) {
  // The caches of a GPU hand out sectors faster than its memory does. A CPU computes elements one
  // by one, wherever they are.
  const auto moved = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  return target.type == DeviceType::cpu ? moved
                                        : std::max(moved, cached_bytes(graph, loops, target, schedule) /
                                                              device_model(target).caches.sector_bandwidth);
}

bool stores_sub32(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule,
                  ir::NodeId node) {
  const int bytes = size_of(graph.node(node).type.dtype);
  const bool offered = target.has(FeatureTier::float16) &&
                       (bytes == 2 ? target.caps.memory.storage_16bit : bytes == 1 && target.caps.memory.storage_8bit);
  const auto reads = [&](const Value& value) { return value.kind == Value::Kind::load && value.node == node; };
  if (!offered || std::any_of(loops.values.begin(), loops.values.end(), reads)) return false;
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    if (loops.stores[i].node == node && schedule.stores[i].kind == AccessKind::vector) return false;
  }
  return true;
}

std::vector<ir::NodeId> buffers_read(const Loops& loops) {
  std::vector<ir::NodeId> all;
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load && std::find(all.begin(), all.end(), value.node) == all.end())
      all.push_back(value.node);
  }
  return all;
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
    if (static_cast<std::uint64_t>(bytes) <= target.caps.memory.storage_buffer_range) return {};
    return make_error(
        ErrorCode::out_of_memory,
        "The value %{} of type {} takes {} bytes, and one storage buffer of this device holds {} (storage_range).", id,
        to_text(graph.node(id).type), bytes, target.caps.memory.storage_buffer_range);
  };
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load)
      VKF_CHECK_OK(fits(value.node, std::min(index::saturating_add(index::interval_of(value.offset).high, 1),
                                             value.buffer_elements)));  // beyond is behind a guard
  }
  for (const segment::Store& store : loops.stores)
    VKF_CHECK_OK(fits(store.node, index::saturating_add(index::interval_of(store.offset).high, 1)));
  return {};
}

}  // namespace

Result<void> check_limits(const ir::Graph& graph, const Loops& loops, const Target& target, const Schedule& schedule,
                          std::int64_t iterations) {
  const std::vector<ir::NodeId> reads = buffers_read(loops);
  std::set<ir::NodeId> written;
  for (const segment::Store& store : loops.stores) written.insert(store.node);
  const std::size_t buffers = reads.size() + written.size() + (schedule.scratch_bytes > 0 ? 1 : 0);
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
  if (schedule.launch.workgroups > groups_limit) {
    return unsupported("The segment needs {} workgroups, and one dispatch of this device has {}.",
                       schedule.launch.workgroups, groups_limit);
  }
  if (iterations > target.workarounds.leaves_loops_after) {
    return unsupported(
        "An invocation of the segment goes through {} iterations of loops, and '{}' leaves loops after about {}.",
        iterations, target.name, target.workarounds.leaves_loops_after);
  }
  return {};
}

AxisCounts count_axes(const Loops& loops) {
  AxisCounts counts;
  for (const segment::Axis& axis : loops.axes) {
    if (axis.role == segment::Role::parallel) ++counts.rows;
    if (axis.role == segment::Role::reduction) ++counts.columns;
  }
  return counts;
}

std::int64_t element_count_of(const Loops& loops, const Expr& offset) {
  std::int64_t count = 1;
  for (index::AxisId axis : index::axes_of(offset))
    count = index::saturating_mul(count, loops.axes[static_cast<std::size_t>(axis)].size);
  return count;
}

/// No kernel moves more than this, 2^50 bytes: larger sizes are refused, but added up before.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

void count_bytes(const ir::Graph& graph, const Loops& loops, Schedule& schedule) {
  std::map<ir::NodeId, std::int64_t> touched;
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::load) continue;
    const std::int64_t own = segment::elements_touched(loops, value);
    std::int64_t& all = touched[value.node];
    all = std::min(value.buffer_elements, index::saturating_add(all, own));
  }
  schedule.cost.bytes_read = 0;
  schedule.cost.bytes_written = 0;
  for (const auto& [node, elements] : touched)
    schedule.cost.bytes_read = index::saturating_add(
        schedule.cost.bytes_read, index::saturating_mul(elements, size_of(graph.node(node).type.dtype)));
  for (const segment::Store& store : loops.stores) {
    const std::int64_t bytes =
        index::saturating_mul(element_count_of(loops, store.offset), size_of(graph.node(store.node).type.dtype));
    schedule.cost.bytes_written = index::saturating_add(schedule.cost.bytes_written, bytes);
  }
  schedule.cost.bytes_read = std::min(schedule.cost.bytes_read, kMostBytes);
  schedule.cost.bytes_written = std::min(schedule.cost.bytes_written, kMostBytes);
}

double cost_of(const ir::Node& node) {
  const auto* custom = std::get_if<ir::CustomPayload>(&node.payload);
  return custom != nullptr ? custom->cost : static_cast<double>(node.op->cost);
}

double compute_cost(const ir::Graph& graph, const Loops& loops) {
  double cost = 0;
  for (const Value& value : loops.values) {
    const bool computes = value.kind == Value::Kind::compute || value.kind == Value::Kind::reduction ||
                          value.kind == Value::Kind::nested || value.kind == Value::Kind::scan ||
                          value.kind == Value::Kind::position;
    if (!computes) continue;
    double evaluations = 1;
    const segment::AxisSet axes = value.kind == Value::Kind::reduction ? ~loops.inner()
                                  : value.kind == Value::Kind::nested  ? value.axes | value.over
                                                                       : value.axes;
    for (std::size_t i = 0; i < loops.axes.size(); ++i)
      evaluations *= ((axes >> i) & 1u) != 0 ? static_cast<double>(loops.axes[i].size) : 1.0;
    const ops::OpRow& op = *graph.node(value.node).op;
    // A product and its sum are one multiply-add.
    if (value.kind == Value::Kind::compute && !op.reduction.of.empty()) continue;
    cost += evaluations * cost_of(graph.node(value.node));
  }
  return cost;
}

int largest_workgroup(const Caps& caps) { return static_cast<int>(std::min(usable_invocations(caps), 1024u)); }

}  // namespace vkfuse::schedule

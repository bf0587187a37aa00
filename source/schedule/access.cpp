#include "schedule/access.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "index/arithmetic.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;

std::string_view name_of(Template kind) {
  constexpr std::string_view names[] = {"pointwise", "reduction", "sort",  "matmul",
                                        "attention", "stencil",   "tiled", "custom"};
  static_assert(std::size(names) == std::variant_size_v<TemplateParams>);
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

/// What decides how a load or a store is accessed.
struct Access {
  const Expr& offset;
  int element_bytes = 0;
  std::span<const segment::Predicate> predicates;
  segment::AxisSet axes = 0;
  bool may_repeat = false;  ///< an element may serve several neighbours of a chunk

  [[nodiscard]] int word() const { return std::max(4, element_bytes); }
  [[nodiscard]] AccessPlan one_by_one() const { return {AccessKind::element, word()}; }
};

/// A load of which each element serves `repeat` neighbours of the chunk, as a byte serves the two integers in it.
std::optional<AccessPlan> plan_repeated(const Loops& loops, const Tuning& tuning, const Schedule& schedule,
                                        const Access& access) {
  constexpr index::AxisId kOuter = 1 << 25, kElement = kOuter + 1, kWithin = kOuter + 2;
  const int element_bytes = access.element_bytes;
  for (const int repeat : {2, 4, 8}) {
    const int elements = schedule.chunk_size / repeat;
    if (schedule.chunk_size % repeat != 0 || elements * element_bytes < access.word()) break;
    const std::int64_t chunks = padded_size(loops, schedule) / schedule.chunk_size;
    const Expr element = Expr::axis(kElement, elements);
    const Expr along =
        index::substitute(access.offset, {{schedule.vector_axis, Expr::axis(kOuter, chunks) * schedule.chunk_size +
                                                                     element * repeat + Expr::axis(kWithin, repeat)}});
    if (index::depends_on(along, kWithin) || index::stride_of(along, kElement) != 1) continue;
    const std::int64_t alignment = std::min<std::int64_t>(index::alignment_of(along - element, 16), elements);
    const int bytes = std::min(
        {tuning.vector_bytes.value_or(16), elements * element_bytes, static_cast<int>(alignment) * element_bytes});
    if (bytes >= access.word()) return AccessPlan{AccessKind::vector, bytes, repeat};
  }
  return std::nullopt;
}

/// Of chunks that cross rows: a vector is only what runs along with the chunks; anything else needs coordinates per
/// element.
AccessPlan plan_across_rows(const Loops& loops, const Schedule& schedule, const Access& access, int widest) {
  const Expr rest = access.offset - flat_position(loops);
  if (!access.predicates.empty() || !rest.is_constant()) return access.one_by_one();
  const std::int64_t alignment = index::alignment_of(rest, schedule.chunk_size);
  // Chunks of less than a word begin inside of one.
  return alignment >= schedule.chunk_size && widest >= access.word() ? AccessPlan{AccessKind::vector, widest}
                                                                     : access.one_by_one();
}

AccessPlan plan_along_row(const Loops& loops, const Tuning& tuning, const Schedule& schedule, const Access& access,
                          int widest) {
  for (const segment::Predicate& predicate : access.predicates) {
    if (!uniform_predicate(loops, schedule, predicate)) return access.one_by_one();
  }
  const int count = schedule.chunk_size;
  const auto run = index::run_along(access.offset, schedule.vector_axis, padded_size(loops, schedule), count, 16);
  if (!run) {
    const auto repeated = access.may_repeat ? plan_repeated(loops, tuning, schedule, access) : std::nullopt;
    return repeated.value_or(access.one_by_one());
  }
  if (run->stride == 0) return {AccessKind::scalar, access.word()};
  if (run->stride != 1) return access.one_by_one();
  const int aligned = static_cast<int>(std::min<std::int64_t>(run->alignment, count)) * access.element_bytes;
  const int bytes = std::min(widest, aligned);
  return bytes < access.word() ? access.one_by_one() : AccessPlan{AccessKind::vector, bytes};
}

AccessPlan plan_access(const Loops& loops, const Tuning& tuning, const Schedule& schedule, const Access& access) {
  if (access.axes == 0) return {AccessKind::uniform, access.word()};
  if (schedule.vector_axis < 0) return access.one_by_one();
  // Chunks of one element that is a word of its own: wherever it is, it is a vector of one.
  if (schedule.chunk_size == 1 && access.element_bytes >= 4 && !schedule.crosses_rows &&
      ((access.axes >> schedule.vector_axis) & 1u) != 0)
    return {AccessKind::vector, access.element_bytes};
  // However narrow accesses are asked for, an element is loaded in one.
  const int widest = std::min(std::max(tuning.vector_bytes.value_or(16), access.element_bytes),
                              schedule.chunk_size * access.element_bytes);
  return schedule.crosses_rows ? plan_across_rows(loops, schedule, access, widest)
                               : plan_along_row(loops, tuning, schedule, access, widest);
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
  return plan_access(
      loops, tuning, schedule,
      {value.offset, bytes, value.predicates, value.axes, schedule.transforms.merged_reduction_axes > 1});
}

void plan_accesses(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  schedule.loads.assign(loops.values.size(), {});
  for (segment::ValueId id = 0; id < loops.values.size(); ++id) {
    if (loops.values[id].kind == Value::Kind::load) schedule.loads[id] = plan_load(graph, loops, tuning, schedule, id);
  }
  plan_stores(graph, loops, tuning, schedule);
  share_word_types(graph, loops, schedule);
}

namespace {

/// Whether data that differs within a chunk says where its elements go.
bool goes_to_many_places(const Loops& loops, const Schedule& schedule, const segment::Store& store) {
  const std::vector<index::DataId> data = index::data_of(store.offset);
  return std::any_of(data.begin(), data.end(), [&](index::DataId id) {
    return varies_in_chunk(loops, schedule, loops.values[loops.data.at(id)]);
  });
}

}  // namespace

void plan_stores(const ir::Graph& graph, const Loops& loops, const Tuning& tuning, Schedule& schedule) {
  schedule.stores.clear();
  for (const segment::Store& store : loops.stores) {
    const int bytes = size_of(graph.node(store.node).type.dtype);
    const AccessPlan plan = plan_access(loops, tuning, schedule, {store.offset, bytes, store.predicates, store.axes});
    schedule.stores.push_back(
        goes_to_many_places(loops, schedule, store) ? AccessPlan{AccessKind::element, std::max(4, bytes)} : plan);
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
                                            : std::max(1, elements / plan.repeat * element_bytes / 4);
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

std::vector<ir::NodeId> buffers_read(const Loops& loops) {
  std::vector<ir::NodeId> all;
  for (const Value& value : loops.values) {
    if (value.kind == Value::Kind::load && std::find(all.begin(), all.end(), value.node) == all.end())
      all.push_back(value.node);
  }
  return all;
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

}  // namespace vkfuse::schedule

#include "templates/reduction/visited_columns.hpp"

#include <algorithm>

#include "ops/comparisons.hpp"
#include "schedule/access.hpp"
#include "schedule/operands.hpp"
#include "templates/reduction/registers.hpp"

namespace vkfuse::schedule {

using segment::Loops;
using segment::Value;
using segment::ValueId;

namespace {

/// Reads bounds off the conditions of choices.
class Bounds {
 public:
  Bounds(const ir::Graph& graph, const Loops& loops, int axis) : graph_(graph), loops_(loops), axis_(axis) {}

  /// What holds at every column where what the reduction takes is more than its identity.
  [[nodiscard]] VisitedColumns of_reduction(const Value& reduction) const {
    VisitedColumns columns;
    const Value& choice = loops_.values[reduction.operands[0]];
    if (role_of(choice) != ops::Role::select) return columns;
    const auto otherwise = number_of(graph_, loops_.values[choice.operands[2]]);
    if (otherwise && *otherwise == identity_of(graph_.node(reduction.node)))
      add_conditions(loops_.values[choice.operands[0]], columns);
    return columns;
  }

 private:
  /// As its dtype holds it: the least integer for -infinity.
  [[nodiscard]] static double identity_of(const ir::Node& node) {
    std::vector<std::byte> bytes;
    ir::encode(node.type.dtype, node.op->reduction.identity, bytes);
    return ir::decode(node.type.dtype, bytes.data());
  }
  [[nodiscard]] ops::Role role_of(const Value& value) const {
    return value.kind == Value::Kind::compute ? graph_.node(value.node).op->role : ops::Role::none;
  }

  /// Of both sides of an `and`.
  void add_conditions(const Value& condition, VisitedColumns& columns) const {
    const ops::Role role = role_of(condition);
    if (role == ops::Role::logical_and) {
      for (const ValueId side : condition.operands) add_conditions(loops_.values[side], columns);
      return;
    }
    const ops::Comparison* comparison = ops::comparison_of(role);
    if (comparison == nullptr || role == ops::Role::ne) return;
    const ValueId first = condition.operands[0], second = condition.operands[1];
    if (is_column(first) && is_of_row(second)) add(*comparison, second, columns);
    if (is_column(second) && is_of_row(first)) add(*ops::comparison_of(comparison->turned), first, columns);
  }

  /// The column is `comparison` than the value.
  static void add(const ops::Comparison& comparison, ValueId value, VisitedColumns& columns) {
    if (!comparison.less) columns.begin.push_back({value, !comparison.equal});
    if (!comparison.greater) columns.end.push_back({value, comparison.equal});
  }

  [[nodiscard]] bool is_column(ValueId id) const {
    const Value& value = loops_.values[id];
    return value.kind == Value::Kind::position && is_i32(value) && value.offset == index::Expr::axis(axis_, size());
  }
  [[nodiscard]] bool is_of_row(ValueId id) const {
    const Value& value = loops_.values[id];
    return is_i32(value) && value.level == 0 && value.kind != Value::Kind::literal && !loops_.per_element(value);
  }
  [[nodiscard]] bool is_i32(const Value& value) const { return graph_.node(value.node).type.dtype == DType::i32; }
  [[nodiscard]] std::int64_t size() const { return loops_.axes[static_cast<std::size_t>(axis_)].size; }

  const ir::Graph& graph_;
  const Loops& loops_;
  const int axis_;
};

/// Whether the loops do nothing along columns but reduce, in one pass along one axis.
bool only_reduces(const Loops& loops) {
  const bool stores = std::any_of(loops.stores.begin(), loops.stores.end(),
                                  [&](const segment::Store& store) { return (store.axes & loops.columns()) != 0; });
  return loops.passes == 1 && count_axes(loops).columns == 1 && !stores && !has_scans(loops) && loops.keys() == 0 &&
         loops.inner() == 0 && !loops.opaque && !loops.empty;
}

bool is_fold(const ir::Graph& graph, const Value& reduction) {
  const ops::Reduction& row = graph.node(reduction.node).op->reduction;
  return reduction.online == Value::Online::no && row.kind == ops::Reduction::Kind::plain && row.of.empty();
}

/// Bounds of one that are bounds of the other as well.
std::vector<ColumnBound> common(const std::vector<ColumnBound>& one, const std::vector<ColumnBound>& other) {
  std::vector<ColumnBound> both;
  for (const ColumnBound& bound : one) {
    if (std::find(other.begin(), other.end(), bound) != other.end()) both.push_back(bound);
  }
  return both;
}

}  // namespace

std::optional<VisitedColumns> visited_columns(const ir::Graph& graph, const Loops& loops) {
  if (!only_reduces(loops)) return std::nullopt;
  int axis = 0;
  while (((loops.columns() >> static_cast<unsigned>(axis)) & 1u) == 0) ++axis;
  const Bounds bounds(graph, loops, axis);
  std::optional<VisitedColumns> columns;
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::reduction) continue;
    if (!is_fold(graph, value)) return std::nullopt;
    const VisitedColumns own = bounds.of_reduction(value);
    columns = columns ? VisitedColumns{common(columns->begin, own.begin), common(columns->end, own.end)} : own;
  }
  if (!columns || (columns->begin.empty() && columns->end.empty())) return std::nullopt;
  return columns;
}

std::int64_t expected_columns(const ir::Graph& graph, const Loops& loops) {
  const std::int64_t all = loops.reduction_count();
  const auto columns = visited_columns(graph, loops);
  if (!columns) return all;
  if (columns->begin.empty() || columns->end.empty()) return ceil_div(all, 2);
  segment::AxisSet axes = 0;
  for (const ColumnBound& bound : columns->begin) axes |= loops.values[bound.value].axes;
  for (const ColumnBound& bound : columns->end) axes |= loops.values[bound.value].axes;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < loops.axes.size(); ++i) rows *= ((axes >> i) & 1u) != 0 ? loops.axes[i].size : 1;
  return ceil_div(all, rows);
}

std::int64_t visited_chunks(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  const std::int64_t all = std::max<std::int64_t>(1, loops.reduction_count());
  return ceil_div(schedule.launch.reduction_chunks * expected_columns(graph, loops), all);
}

}  // namespace vkfuse::schedule

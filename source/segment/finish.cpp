// The last part of the walk: aliases are resolved, axes split where that removes quotients and remainders
// and merged where no access tells them apart, and what every value depends on is written down.
#include <algorithm>

#include "base/mutations.hpp"
#include "segment/builder.hpp"
#include "segment/value_exprs.hpp"

namespace vkfuse::segment {

using index::AxisId;
using index::Expr;

namespace {

constexpr int kMostPasses =
    24;  // each computes what those before have found: 60 norms in a row are text that a driver compiles for minutes
constexpr int kMostSplits = 48;

struct LooseAxis {
  AxisId id = 0;
  std::int64_t size = 1;
  Role role = Role::parallel;
  int group = 0;  ///< of inner axes
};

/// Only these say anything: what a value that is not loaded or placed carries there is unused.
template <typename Visit>
void for_each_access(const Loops& loops, const Visit& visit) {
  for (const Value& value : loops.values) {
    if (!value.offset.is_constant()) visit(value.offset);
    for (const Predicate& predicate : value.predicates) {
      for (const Predicate::Range& range : predicate.ranges) visit(range.value);
    }
  }
  for (const Store& store : loops.stores) for_each_expr(store, visit);
}

void substitute_all(Loops& loops, const std::map<AxisId, Expr>& map) {
  const auto substitute = [&](Expr& expr) { expr = index::substitute(expr, map); };
  for (Value& value : loops.values) for_each_expr(value, substitute);
  for (Store& store : loops.stores) for_each_expr(store, substitute);
}

void split_axes(Loops& loops, std::vector<LooseAxis>& axes, AxisId next) {
  for (int round = 0; round < kMostSplits; ++round) {
    std::optional<index::Split> split;
    for_each_access(loops, [&](const Expr& expr) {
      if (!split) split = index::useful_split(expr);
    });
    if (!split) return;
    const auto at =
        std::find_if(axes.begin(), axes.end(), [&](const LooseAxis& axis) { return axis.id == split->axis; });
    check(at != axes.end(), "a split names an axis of the loops");
    const LooseAxis outer{next++, at->size / split->factor, at->role, at->group};
    const LooseAxis inner{next++, split->factor, at->role, at->group};
    substitute_all(
        loops, {{split->axis, Expr::axis(outer.id, outer.size) * split->factor + Expr::axis(inner.id, inner.size)}});
    *at = outer;
    axes.insert(at + 1, inner);
  }
}

bool mergeable(const Loops& loops, const LooseAxis& outer, const LooseAxis& inner) {
  if (outer.role != inner.role || outer.group != inner.group || !checked_mul(outer.size, inner.size)) return false;
  bool same = true;
  for_each_access(loops, [&](const Expr& expr) {
    if (!same) return;
    const auto a = index::stride_of(expr, outer.id);
    const auto b = index::stride_of(expr, inner.id);
    same = a && b && checked_mul(*b, inner.size) == *a;
  });
  return same;
}

void merge_axes(Loops& loops, std::vector<LooseAxis>& axes, AxisId next) {
  for (std::size_t i = 1; i < axes.size();) {
    if (!mergeable(loops, axes[i - 1], axes[i])) {
      ++i;
      continue;
    }
    const LooseAxis merged{next++, axes[i - 1].size * axes[i].size, axes[i].role, axes[i].group};
    // In every access the pair is one linear term, so the outer axis may stand for nothing.
    const std::map<AxisId, Expr> map{{axes[i - 1].id, Expr(0)}, {axes[i].id, Expr::axis(merged.id, merged.size)}};
    substitute_all(loops, map);
    axes[i - 1] = merged;
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

AxisSet set_of(const Expr& expr) {
  AxisSet set = 0;
  for (AxisId axis : index::axes_of(expr)) set |= AxisSet{1} << axis;
  return set;
}

/// Values that positions and predicates of the value are made of.
void derive_data(Value& value, const std::map<int, ValueId>& numbers) {
  for_each_expr(value, [&](const Expr& expr) {
    for (index::DataId data : index::data_of(expr)) {
      const ValueId id = numbers.at(data);
      if (std::find(value.data.begin(), value.data.end(), id) == value.data.end()) value.data.push_back(id);
    }
  });
}

/// Axes that the operand depends on and the value does not.
AxisSet axes_reduced_by(const Loops& loops, const Value& value) {
  switch (value.kind) {
    case Value::Kind::reduction: return loops.columns();
    case Value::Kind::sort: return loops.keys();
    case Value::Kind::nested: return value.over;
    default: return 0;
  }
}

AxisSet axes_of(const Loops& loops, const Value& value) {
  AxisSet axes = 0;
  // A reduction's offset is only what an arg reduction counts.
  if (value.kind != Value::Kind::reduction) for_each_expr(value, [&](const Expr& expr) { axes |= set_of(expr); });
  for (ValueId id : value.operands) axes |= loops.values[id].axes;
  for (ValueId id : value.data) axes |= loops.values[id].axes;
  return axes & ~axes_reduced_by(loops, value);
}

/// Whether a value is computed from a hoisted one that depends on all its axes.
bool is_computed_from_hoisted(const Loops& loops, const Value& value) {
  const auto is_hoisted = [&](ValueId id) {
    return loops.values[id].hoisted && (value.axes & ~loops.values[id].axes) == 0;
  };
  return value.kind == Value::Kind::compute && std::any_of(value.operands.begin(), value.operands.end(), is_hoisted);
}

/// Axes and data of every value, operands first.
void derive_axes(const ir::Graph& graph, Loops& loops, const std::map<int, ValueId>& numbers) {
  std::vector<bool> follows(loops.values.size(),
                            false);  // a sum over columns, or a contraction: what no row begins with
  const auto is_after = [&](ValueId id) { return follows[id]; };
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    Value& value = loops.values[id];
    derive_data(value, numbers);
    value.axes = axes_of(loops, value);
    const bool contracts = graph.node(value.node).op->cls == ops::OpClass::contraction;
    const bool reduces = value.kind == Value::Kind::reduction || (value.kind == Value::Kind::nested && contracts);
    follows[id] = reduces || std::any_of(value.operands.begin(), value.operands.end(), is_after);
    value.hoisted =
        (is_computed_from_hoisted(loops, value) && !follows[id]) || (value.kind == Value::Kind::nested && !contracts);
    // Every row has a running reduction, even where the rows are equal.
    if (value.kind == Value::Kind::scan) value.axes |= (AxisSet{1} << loops.axes.size()) - 1;
  }
}

/// Where rows go is data that one invocation knows: those of elements alone, so far.
Result<void> check_updates(const ir::Graph& graph, const Loops& loops) {
  const auto updates = [](const Store& store) { return store.base.has_value(); };
  const auto store = std::find_if(loops.stores.begin(), loops.stores.end(), updates);
  if (store == loops.stores.end()) return {};
  if (std::all_of(loops.axes.begin(), loops.axes.end(), [](const Axis& axis) { return axis.role == Role::parallel; }))
    return {};
  return unsupported(
      "'{}' %{} writes rows whose elements are reduced, scanned or sorted: the kernel that writes them "
      "computes elements alone.",
      graph.node(store->node).op->name, store->node);
}

/// The axes of the walk by role, outermost first.
std::vector<LooseAxis> loose_axes(const WalkAxes& walk) {
  std::vector<LooseAxis> axes;
  for (const Role role : {Role::parallel, Role::reduction}) {
    for (const WalkAxis& axis : walk.base) {
      if (walk.is_reduction(axis.id) == (role == Role::reduction)) axes.push_back({axis.id, axis.size, role});
    }
  }
  for (const WalkAxis& axis : walk.own) axes.push_back({axis.id, axis.size, walk.own_role, axis.group});
  return axes;
}

/// Axes are called by their place from now on. By way of other names: a new one may be another axis's old one.
void number_axes(Loops& loops, const std::vector<LooseAxis>& axes, AxisId free) {
  std::map<AxisId, Expr> to_free, to_place;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto place = static_cast<AxisId>(i);
    to_free.emplace(axes[i].id, Expr::axis(place + free, axes[i].size));
    to_place.emplace(place + free, Expr::axis(place, axes[i].size));
    loops.axes.push_back({axes[i].size, axes[i].role});
  }
  substitute_all(loops, to_free);
  substitute_all(loops, to_place);
}

/// What nested values run over: the axes of their groups.
void number_groups(Loops& loops, const std::vector<LooseAxis>& axes) {
  for (Value& value : loops.values) {
    const AxisSet groups = std::exchange(value.over, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].role == Role::inner && ((groups >> axes[i].group) & 1u) != 0) value.over |= AxisSet{1} << i;
    }
  }
}

}  // namespace

/// Operands and data first, else in graph order, so that the text follows the graph.
std::vector<ValueId> Builder::ordered() const {
  std::vector<std::vector<ValueId>> users(requests_.size());
  std::vector<int> missing(requests_.size(), 0);
  const auto needs = [&](ValueId user, ValueId id) {
    users[requests_.resolved(id)].push_back(user);
    ++missing[user];
  };
  for (ValueId id = 0; id < requests_.size(); ++id) {
    if (requests_[id].alias) continue;
    const Value& value = requests_[id].value;
    for (ValueId operand : value.operands) needs(id, operand);
    for_each_expr(value, [&](const Expr& expr) {
      for (index::DataId data : index::data_of(expr)) needs(id, static_cast<ValueId>(data));
    });
  }
  std::set<std::pair<ir::NodeId, ValueId>> ready;
  for (ValueId id = 0; id < requests_.size(); ++id) {
    if (!requests_[id].alias && missing[id] == 0) ready.emplace(requests_[id].node, id);
  }
  std::vector<ValueId> order;
  while (!ready.empty()) {
    const ValueId id = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(id);
    for (ValueId user : users[id]) {
      if (--missing[user] == 0) ready.emplace(requests_[user].node, user);
    }
  }
  return order;
}

Builder::Numbers Builder::write_values(Loops& loops) const {
  Numbers numbers;
  for (ValueId id : ordered()) {
    numbers[static_cast<int>(id)] = static_cast<ValueId>(loops.values.size());
    loops.values.push_back(requests_[id].value);
  }
  for (ValueId id = 0; id < requests_.size(); ++id)
    numbers[static_cast<int>(id)] = numbers.at(static_cast<int>(requests_.resolved(id)));
  for (Value& value : loops.values) {
    for (ValueId& operand : value.operands) operand = numbers.at(static_cast<int>(operand));
  }
  return numbers;
}

/// Of rows that begin where data says: the start is clamped so that no row is before the first, and none of a start
/// past the end is there. A position of a row is clamped alike; below 0 it has become one past the end
/// (passes::write_out_updates).
Store Builder::update_store(ValueId request, ir::NodeId node, Coordinates coordinates) const {
  const ir::Node& update = graph_.node(node);
  const auto& how = std::get<ir::UpdatePayload>(update.payload);
  const auto axis = static_cast<std::size_t>(how.axis);
  Sizes sizes = *resolve(update.type.shape, symbols_);
  // Other stores of the kernel may have elements where there is no row, or no place for one.
  const bool writes =
      !has_no_elements(sizes) && !has_no_elements(*resolve(graph_.node(update.operands[2]).type.shape, symbols_));
  for (std::int64_t& size : sizes) size = std::max<std::int64_t>(size, 1);
  const auto start = static_cast<index::DataId>(requests_[request].value.operands[1]);
  const std::int64_t starts = VKF_PLANT(update_past_the_end, how.circular, true) ? sizes[axis] : sizes[axis] + 1;
  const bool each = how.has_position_of_each_row(graph_.node(update.operands[1]).type.shape);
  const Expr row = Expr::data(start, starts) + (each ? Expr(0) : coordinates[axis]);
  coordinates[axis] = how.circular ? index::floor_mod(row, sizes[axis]) : row;
  Store store{0, node, index::linearize(coordinates, sizes), saturating_product(sizes)};
  store.base = update.operands[0];
  if (!how.circular || !writes) store.predicates.push_back({{{row, writes ? sizes[axis] : 0}}});
  return store;
}

std::vector<Predicate> Builder::where_others_are_zero(const Expr& offset) const {
  const std::vector<AxisId> used = index::axes_of(offset);
  std::vector<Expr> others;
  Sizes sizes;
  for (const WalkAxis& axis : axes_.base) {
    if (axis.size == 1 || axes_.is_reduction(axis.id) || std::find(used.begin(), used.end(), axis.id) != used.end())
      continue;
    others.push_back(Expr::axis(axis.id, axis.size));
    sizes.push_back(axis.size);
  }
  if (others.empty()) return {};
  return {{{{index::linearize(others, sizes), 1}}}};
}

void Builder::write_stores(Loops& loops, const Numbers& numbers) {
  for (ir::NodeId id : segment_.stores) {
    const Coordinates& coordinates = stores_.at(id);
    const ValueId request = request_element(id, coordinates, 0);
    Store store{0, id, index::linearize(coordinates, sizes_of(id)), count_of(id)};
    if (graph_.node(id).op->role == ops::Role::update_rows)
      store = update_store(request, id, coordinates);
    else
      store.predicates = where_others_are_zero(store.offset);
    store.value = numbers.at(static_cast<int>(request));
    loops.stores.push_back(std::move(store));
  }
}

Result<Loops> Builder::finish() {
  Loops loops;
  Numbers numbers = write_values(loops);
  write_stores(loops, numbers);
  std::vector<LooseAxis> axes = loose_axes(axes_);
  split_axes(loops, axes, kFirstFresh);
  merge_axes(loops, axes, 2 * kFirstFresh);
  if (axes.size() > 32) return unsupported("Its loops have {} axes, and a kernel has 32 at most.", axes.size());
  number_axes(loops, axes, 3 * kFirstFresh);
  loops.empty = stores_nothing(graph_, segment_, symbols_);
  if (!loops.empty && has_no_elements(base_.sizes))
    return unsupported("%{} has no elements, and the kernel stores some that are computed from it.", base_.node);
  loops.backwards = backwards_.value_or(false);
  number_groups(loops, axes);
  derive_axes(graph_, loops, numbers);
  loops.data = std::move(numbers);
  for (Store& store : loops.stores) store.axes = set_of(store.offset);
  VKF_CHECK_OK(check_updates(graph_, loops));
  derive_levels(loops);
  if (loops.passes > kMostPasses)
    return unsupported("It goes through its rows {} times, and a kernel does so {} times at most.", loops.passes,
                       kMostPasses);
  return with_index_set_splitting(with_epilogue_reductions(graph_, std::move(loops)));
}

}  // namespace vkfuse::segment

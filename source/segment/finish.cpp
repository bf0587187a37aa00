// The last part of the walk: aliases are resolved, axes split where that removes quotients and remainders
// and merged where no access tells them apart, and what every value depends on is written down.
#include <algorithm>

#include "segment/builder.hpp"

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

/// Applies `visit` to every index expression of the loops.
template <typename Visit>
void for_each_expr(Loops& loops, const Visit& visit) {
  for (Value& value : loops.values) {
    visit(value.offset);
    for (Predicate& predicate : value.predicates) {
      for (Predicate::Range& range : predicate.ranges) visit(range.value);
    }
  }
  for (Store& store : loops.stores) visit(store.offset);
}

/// Only these say anything: what a value that is not loaded or placed carries there is unused.
template <typename Visit>
void for_each_access(const Loops& loops, const Visit& visit) {
  for (const Value& value : loops.values) {
    if (!value.offset.is_constant()) visit(value.offset);
    for (const Predicate& predicate : value.predicates) {
      for (const Predicate::Range& range : predicate.ranges) visit(range.value);
    }
  }
  for (const Store& store : loops.stores) visit(store.offset);
}

void substitute_all(Loops& loops, const std::map<AxisId, Expr>& map) {
  for_each_expr(loops, [&](Expr& expr) { expr = index::substitute(expr, map); });
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

/// Axes and data of every value, operands first.
void derive_axes(Loops& loops, const std::map<int, ValueId>& numbers,
                 const std::function<bool(const Value&)>& is_contraction) {
  const AxisSet columns = loops.columns();
  for (Value& value : loops.values) {
    std::vector<const Expr*> own{&value.offset};
    for (const Predicate& predicate : value.predicates) {
      for (const Predicate::Range& range : predicate.ranges) own.push_back(&range.value);
    }
    const bool places = value.kind != Value::Kind::reduction;  // a reduction's offset is only what an arg fold counts
    for (const Expr* expr : own) {
      if (places) value.axes |= set_of(*expr);
      for (index::DataId data : index::data_of(*expr)) {
        const ValueId id = numbers.at(data);
        if (std::find(value.data.begin(), value.data.end(), id) == value.data.end()) value.data.push_back(id);
      }
    }
    for (ValueId id : value.operands) value.axes |= loops.values[id].axes;
    for (ValueId id : value.data) value.axes |= loops.values[id].axes;
    if (value.kind == Value::Kind::reduction) value.axes &= ~columns;
    if (value.kind == Value::Kind::sort) value.axes &= ~loops.keys();
    if (value.kind == Value::Kind::nested) value.axes &= ~value.over;
    // Every row has a running reduction of its own, even where the rows are equal.
    const bool made_of_such = value.kind == Value::Kind::compute &&
                              std::any_of(value.operands.begin(), value.operands.end(), [&](ValueId id) {
                                return loops.values[id].hoisted && (value.axes & ~loops.values[id].axes) == 0;
                              });
    value.hoisted = made_of_such || (value.kind == Value::Kind::nested && !is_contraction(value));
    if (value.kind == Value::Kind::scan) value.axes |= (AxisSet{1} << loops.axes.size()) - 1;
  }
}

}  // namespace

/// Operands and data first, else in graph order, so that the text follows the graph.
std::vector<ValueId> Builder::ordered(const std::function<ValueId(ValueId)>& resolved) const {
  std::vector<std::vector<ValueId>> users(element_requests_.size());
  std::vector<int> missing(element_requests_.size(), 0);
  const auto needs = [&](ValueId user, ValueId id) {
    users[resolved(id)].push_back(user);
    ++missing[user];
  };
  for (ValueId id = 0; id < element_requests_.size(); ++id) {
    if (element_requests_[id].alias) continue;
    const Value& value = element_requests_[id].value;
    for (ValueId operand : value.operands) needs(id, operand);
    for (index::DataId data : index::data_of(value.offset)) needs(id, static_cast<ValueId>(data));
    for (const Predicate& predicate : value.predicates) {
      for (const Predicate::Range& range : predicate.ranges) {
        for (index::DataId data : index::data_of(range.value)) needs(id, static_cast<ValueId>(data));
      }
    }
  }
  std::set<std::pair<ir::NodeId, ValueId>> ready;
  for (ValueId id = 0; id < element_requests_.size(); ++id) {
    if (!element_requests_[id].alias && missing[id] == 0) ready.emplace(element_requests_[id].node, id);
  }
  std::vector<ValueId> order;
  while (!ready.empty()) {
    const ValueId id = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(id);
    for (ValueId user : users[id]) {
      if (--missing[user] == 0) ready.emplace(element_requests_[user].node, user);
    }
  }
  return order;
}

Result<Loops> Builder::finish() {
  Loops loops;
  const auto resolved = [&](ValueId id) {
    while (element_requests_[id].alias) id = *element_requests_[id].alias;
    return id;
  };
  const std::vector<ValueId> order = ordered(resolved);
  std::map<int, ValueId> numbers;  // of demands, resolved, as values
  for (ValueId id : order) {
    numbers[static_cast<int>(id)] = static_cast<ValueId>(loops.values.size());
    loops.values.push_back(element_requests_[id].value);
  }
  for (ValueId id = 0; id < element_requests_.size(); ++id)
    numbers[static_cast<int>(id)] = numbers.at(static_cast<int>(resolved(id)));
  for (Value& value : loops.values) {
    for (ValueId& operand : value.operands) operand = numbers.at(static_cast<int>(operand));
  }
  for (ir::NodeId id : segment_.stores) {
    const Coordinates& coordinates = stores_.at(id);
    const ValueId made = numbers.at(static_cast<int>(request_element(id, coordinates, 0)));
    loops.stores.push_back({made, id, index::linearize(coordinates, sizes_of(id)), count_of(id), 0});
  }

  std::vector<LooseAxis> axes;
  for (const BaseAxis& axis : axes_) {
    if (!is_reduction_axis(axis.id)) axes.push_back({axis.id, axis.size, Role::parallel});
  }
  for (const BaseAxis& axis : axes_) {
    if (is_reduction_axis(axis.id)) axes.push_back({axis.id, axis.size, Role::reduction});
  }
  for (const BaseAxis& axis : own_axes_) axes.push_back({axis.id, axis.size, own_role_, axis.group});
  split_axes(loops, axes, kFirstFresh);
  merge_axes(loops, axes, 2 * kFirstFresh);
  if (axes.size() > 32) return unsupported("Its loops have {} axes, and a kernel has 32 at most.", axes.size());
  std::map<AxisId, Expr> last;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    last.emplace(axes[i].id, Expr::axis(static_cast<AxisId>(i) + 3 * kFirstFresh, axes[i].size));
  }
  substitute_all(loops, last);
  last.clear();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    last.emplace(static_cast<AxisId>(i) + 3 * kFirstFresh, Expr::axis(static_cast<AxisId>(i), axes[i].size));
    loops.axes.push_back({axes[i].size, axes[i].role});
  }
  substitute_all(loops, last);
  // Of results that have none, nothing is stored, whatever is reduced for them.
  const auto has_none = [](const Sizes& sizes) { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); };
  const bool stores_nothing = std::all_of(segment_.stores.begin(), segment_.stores.end(), [&](ir::NodeId id) {
    return has_none(*resolve(graph_.node(id).type.shape, symbols_));
  });
  loops.empty = stores_nothing || has_none(base_.sizes);
  loops.backwards = backwards_.value_or(false);
  for (Value& value : loops.values) {
    const AxisSet groups = std::exchange(value.over, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].role == Role::inner && ((groups >> axes[i].group) & 1u) != 0) value.over |= AxisSet{1} << i;
    }
  }
  derive_axes(loops, numbers,
              [&](const Value& value) { return graph_.node(value.node).op->cls == ops::OpClass::contraction; });
  loops.data = std::move(numbers);
  for (Store& store : loops.stores) store.axes = set_of(store.offset);
  derive_levels(loops);
  if (loops.passes > kMostPasses)
    return unsupported("It goes through its rows {} times, and a kernel does so {} times at most.", loops.passes,
                       kMostPasses);
  return with_index_set_splitting(with_epilogue_reductions(graph_, std::move(loops)));
}

}  // namespace vkfuse::segment

// Where a concatenation, or an assignment to a slice, changes from one part to the next. Positions that a whole
// number of equal steps apart belong to different parts are computed together: no condition is left, and what the
// parts have in common is loaded and computed once, as both halves of a rotary embedding.
#include <algorithm>
#include <numeric>
#include <set>

#include "segment/value_exprs.hpp"

namespace vkfuse::segment {

namespace {

using index::Expr;

constexpr std::int64_t kMostParts = 8;
constexpr std::size_t kMostValues = 192;  ///< of the unrolled body: drivers take long over more
constexpr std::int64_t kVector =
    16;  ///< neighbours that a part must be whole groups of, for chunks to be vectors in each

/// Positions along an axis at which a range begins to hold or ceases to; none if it hangs on anything else.
std::set<std::int64_t> ends_of(const Predicate::Range& range, index::AxisId axis, std::int64_t size) {
  const auto stride = index::stride_of(range.value, axis);
  if (!stride || *stride == 0) return {};
  const Expr rest = range.value - Expr::axis(axis, size) * *stride;
  if (!rest.is_constant()) return {};
  std::set<std::int64_t> ends;
  // stride * position + rest reaches 0, and the size; strides other than 1 and -1 come from merged axes.
  for (const std::int64_t level : {std::int64_t{0}, range.size}) {
    const std::int64_t distance = level - rest.constant();
    if (distance % *stride != 0) return {};
    // Walking down, a range ends one later.
    const std::int64_t at = distance / *stride + (*stride < 0 ? 1 : 0);
    if (at > 0 && at < size) ends.insert(at);
  }
  return ends;
}

/// Into how many equal parts the axis falls so that every condition on it alone is the same all over a part.
std::int64_t parts_of(const Loops& loops, index::AxisId axis) {
  const std::int64_t size = loops.axes[static_cast<std::size_t>(axis)].size;
  std::set<std::int64_t> ends;
  for (const Value& value : loops.values) {
    if (value.kind != Value::Kind::choose) continue;
    for (const Predicate& predicate : value.predicates) {
      for (const Predicate::Range& range : predicate.ranges) ends.merge(ends_of(range, axis, size));
    }
  }
  std::int64_t step = size;
  for (const std::int64_t end : ends) step = std::gcd(step, end);
  std::int64_t neighbours = step;
  for (std::size_t inner = static_cast<std::size_t>(axis) + 1; inner < loops.axes.size(); ++inner)
    neighbours *= loops.axes[inner].size;
  return neighbours % kVector == 0 && size / step <= kMostParts ? size / step : 1;
}

/// Writes the body once for each part.
class Unroller {
 public:
  Unroller(const Loops& loops, index::AxisId axis, std::int64_t parts)
      : loops_(loops),
        axis_(axis),
        parts_(parts),
        step_(loops.axes[static_cast<std::size_t>(axis)].size / parts),
        result_(loops) {
    result_.values.clear();
    result_.stores.clear();
    result_.data.clear();
    result_.axes[static_cast<std::size_t>(axis)].size = step_;
  }

  Loops run() {
    std::vector<std::vector<ValueId>> copies;
    for (std::int64_t part = 0; part < parts_; ++part) copies.push_back(copy(part));
    for (const Store& store : loops_.stores) {
      for (std::int64_t part = 0; part < parts_; ++part) {
        Store own = store;
        own.value = copies[static_cast<std::size_t>(part)][store.value];
        for_each_expr(own, [&](Expr& expr) { expr = in_part(expr, part); });
        rename_data(own, copies[static_cast<std::size_t>(part)]);
        result_.stores.push_back(std::move(own));
      }
    }
    for (Value& value : result_.values) value.axes = axes_of(value);
    for (Store& store : result_.stores) {
      store.axes = 0;
      for (index::AxisId axis : index::axes_of(store.offset)) store.axes |= AxisSet{1} << axis;
    }
    derive_levels(result_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] Expr in_part(const Expr& expr, std::int64_t part) const {
    return index::substitute(expr, {{axis_, Expr::axis(axis_, step_) + part * step_}});
  }

  /// The predicate in a part: true, false, or what is left of it.
  [[nodiscard]] std::optional<bool> decide(Predicate& predicate, std::int64_t part) const {
    bool never = false;
    for (Predicate::Range& range : predicate.ranges) {
      range.value = in_part(range.value, part);
      const index::Interval reach = index::interval_of(range.value);
      never = never || reach.high < 0 || reach.low >= range.size;
    }
    if (never) return predicate.negated;
    std::erase_if(predicate.ranges, [](const Predicate::Range& range) {
      const index::Interval reach = index::interval_of(range.value);
      return reach.low >= 0 && reach.high < range.size;
    });
    return predicate.ranges.empty() ? std::optional(!predicate.negated) : std::nullopt;
  }

  /// Of a value in a part: where its predicates are decided, which of a choice it is.
  std::optional<bool> decide_choice(Value& value, std::int64_t part) const {
    bool all = true;
    bool none = false;
    std::erase_if(value.predicates, [&](Predicate& predicate) {
      const auto decided = decide(predicate, part);
      none = none || decided == false;
      all = all && decided == true;
      return decided == true;
    });
    return value.kind == Value::Kind::choose && (all || none) ? std::optional(!none) : std::nullopt;
  }

  /// Which values the stores need, whose operands and data become what these stand for.
  [[nodiscard]] std::vector<bool> needed_of(std::vector<Value>& values, const std::vector<ValueId>& resolved) const {
    std::vector<bool> needed(values.size(), false);
    for (const Store& store : loops_.stores) needed[resolved[store.value]] = true;
    for (ValueId id = static_cast<ValueId>(values.size()); id-- > 0;) {
      if (!needed[id]) continue;
      for (ValueId& operand : values[id].operands) needed[operand = resolved[operand]] = true;
      for (ValueId& data : values[id].data) needed[data = resolved[data]] = true;
    }
    return needed;
  }

  /// The values in a part that its stores need, as ids of the result.
  std::vector<ValueId> copy(std::int64_t part) {
    std::vector<Value> own = loops_.values;
    // What each value is here: itself, or what a decided choice stands for. Operands come first.
    std::vector<ValueId> resolved(own.size());
    for (ValueId id = 0; id < own.size(); ++id) {
      own[id].offset = in_part(own[id].offset, part);
      const auto chosen = decide_choice(own[id], part);
      resolved[id] = chosen ? resolved[own[id].operands[*chosen ? 0 : 1]] : id;
    }
    const std::vector<bool> needed = needed_of(own, resolved);
    std::vector<ValueId> ids(own.size(), 0);
    for (ValueId id = 0; id < own.size(); ++id) {
      if (resolved[id] != id) ids[id] = ids[resolved[id]];  // for positions that are made of it
      if (!needed[id]) continue;
      for (ValueId& operand : own[id].operands) operand = ids[operand];
      for (ValueId& data : own[id].data) data = ids[data];
      rename_data(own[id], ids);
      ids[id] = add_once(result_.values, std::move(own[id]));
    }
    return ids;
  }

  /// Positions are made of values of the result, whose ids serve as names.
  template <typename Access>
  void rename_data(Access& value, const std::vector<ValueId>& ids) {
    std::map<index::DataId, index::DataId> names;
    for_each_expr(value, [&](const Expr& expr) {
      for (index::DataId data : index::data_of(expr)) {
        const ValueId id = ids[loops_.data.at(data)];
        names[data] = static_cast<index::DataId>(id);
        result_.data[static_cast<index::DataId>(id)] = id;
      }
    });
    for_each_expr(value, [&](Expr& expr) { expr = index::rename_data(expr, names); });
  }

  [[nodiscard]] AxisSet axes_of(const Value& value) const {
    AxisSet axes = 0;
    const bool reductions = value.kind == Value::Kind::reduction;  // its offset is only what an arg reduction counts
    for_each_expr(value, [&](const Expr& expr) {
      for (index::AxisId axis : index::axes_of(expr)) axes |= reductions ? 0 : AxisSet{1} << axis;
    });
    for (ValueId id : value.operands) axes |= result_.values[id].axes;
    for (ValueId id : value.data) axes |= result_.values[id].axes;
    return reductions ? axes & ~loops_.columns() : axes;
  }

  const Loops& loops_;
  index::AxisId axis_;
  std::int64_t parts_;
  std::int64_t step_;
  Loops result_;
};

}  // namespace

Loops with_index_set_splitting(Loops loops) {
  const bool rows_alone =
      std::all_of(loops.axes.begin(), loops.axes.end(), [](const Axis& axis) { return axis.role == Role::parallel; });
  if (!rows_alone || loops.empty) return loops;
  const std::size_t stores = loops.stores.size();
  for (std::size_t axis = 0; axis < loops.axes.size(); ++axis) {
    const std::int64_t parts = parts_of(loops, static_cast<index::AxisId>(axis));
    const auto all_parts = static_cast<std::int64_t>(loops.stores.size() / stores) * parts;
    if (parts == 1 || all_parts > kMostParts || loops.values.size() * static_cast<std::size_t>(parts) > kMostValues)
      continue;
    loops = Unroller(loops, static_cast<index::AxisId>(axis), parts).run();
  }
  return loops;
}

std::optional<Loops> with_register_blocking(const Loops& loops, index::AxisId axis, std::int64_t parts) {
  const Axis& own = loops.axes[static_cast<std::size_t>(axis)];
  const bool others = std::any_of(loops.values.begin(), loops.values.end(), [](const Value& value) {
    return value.kind == Value::Kind::scan || value.kind == Value::Kind::sort || value.kind == Value::Kind::nested ||
           value.kind == Value::Kind::epilogue || value.online != Value::Online::no;
  });
  if (others || loops.empty || loops.has_register_blocking || own.role != Role::parallel || own.size % parts != 0 ||
      loops.stores.size() * static_cast<std::size_t>(parts) > kMostParts ||
      loops.values.size() * static_cast<std::size_t>(parts) > kMostValues) {
    return std::nullopt;
  }
  Loops made = Unroller(loops, axis, parts).run();
  made.has_register_blocking = true;
  return made;
}

}  // namespace vkfuse::segment

// The values of a sort's kernel: what keys are computed from, and what is computed from their order.
#include <algorithm>

#include "templates/sort/lower_emitter.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;

/// Only what the pass touches: a device may allow four.
void Sort::bind_buffers() {
  std::set<ir::NodeId> loaded;
  const auto load = [&](const std::vector<ValueId>& ids) {
    for (ValueId id : ids) {
      if (loops_.values[id].kind == Value::Kind::load) loaded.insert(loops_.values[id].node);
    }
  };
  if (sort_pass().computes_keys) load(backward_slice_of_keys());
  if (sort_pass().stores) load(backward_slice_of_sorted());
  std::erase_if(bindings_, [&](const Binding& binding) {
    return binding.store ? !sort_pass().stores : loaded.count(binding.value) == 0;
  });
  const int half = static_cast<int>(sort_pass_ % 2);     // that this pass writes
  const int halves = params_.passes.size() > 2 ? 2 : 1;  // two dispatches need only one
  if (!sort_pass().computes_keys) bindings_.push_back({0, false, true, halves == 2 ? 1 - half : 0, halves});
  if (!sort_pass().stores) bindings_.push_back({0, true, true, half, halves});
}

bool Sort::same_expr(const Expr& after, const Expr& key) const {
  const auto first = std::find_if(loops_.axes.begin(), loops_.axes.end(),
                                  [](const segment::Axis& axis) { return axis.role == segment::Role::key; });
  if (loops_.axes.end() - first != 1) return false;
  const auto axis = static_cast<index::AxisId>(first - loops_.axes.begin());
  for (index::DataId data : index::data_of(after)) {
    if (loops_.data.at(data) == sort_) return after == index::substitute(key, {{axis, Expr::data(data, first->size)}});
  }
  return after == key;
}

bool Sort::same_predicate(const segment::Predicate& after, const segment::Predicate& key) const {
  if (after.negated != key.negated || after.ranges.size() != key.ranges.size()) return false;
  for (std::size_t k = 0; k < after.ranges.size(); ++k) {
    if (after.ranges[k].size != key.ranges[k].size || !same_expr(after.ranges[k].value, key.ranges[k].value))
      return false;
  }
  return true;
}

bool Sort::is_sorted_key(ValueId id, ValueId key) {
  const Value& a = loops_.values[id];
  const Value& b = loops_.values[key];
  if (id == key) return (a.axes & loops_.keys()) == 0;
  if (a.kind != b.kind || a.node != b.node || a.operands.size() != b.operands.size() ||
      a.predicates.size() != b.predicates.size())
    return false;
  if (a.kind == Value::Kind::sort || a.kind == Value::Kind::literal || !same_expr(a.offset, b.offset)) return false;
  for (std::size_t i = 0; i < a.predicates.size(); ++i) {
    if (!same_predicate(a.predicates[i], b.predicates[i])) return false;
  }
  for (std::size_t i = 0; i < a.operands.size(); ++i) {
    if (a.operands[i] != b.operands[i] && !is_sorted_key(a.operands[i], b.operands[i])) return false;
  }
  return true;
}

std::vector<ValueId> Sort::backward_slice_of_keys() const {
  std::vector<bool> needed(loops_.values.size(), false);
  needed[loops_.values[sort_].operands[0]] = true;
  std::vector<ValueId> backward_slice;
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    if (!needed[id]) continue;
    backward_slice.push_back(id);
    for (ValueId operand : loops_.values[id].operands) needed[operand] = true;
    for (ValueId data : loops_.values[id].data) needed[data] = true;
  }
  std::reverse(backward_slice.begin(), backward_slice.end());
  return backward_slice;
}

std::vector<ValueId> Sort::backward_slice_of_sorted() {
  const ValueId key = loops_.values[sort_].operands[0];
  std::vector<bool> needed(loops_.values.size(), false);
  for (const segment::Store& store : loops_.stores) needed[store.value] = true;
  std::vector<ValueId> backward_slice;
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    if (!needed[id] || id == sort_) continue;
    backward_slice.push_back(id);
    const Value& value = loops_.values[id];
    const bool at_hand = after_sort_[id] && (value.axes & loops_.keys()) == 0 && is_sorted_key(id, key);
    if (at_hand) {
      sorted_keys_.insert(id);
      continue;
    }
    for (ValueId operand : value.operands) needed[operand] = true;
    for (ValueId data : value.data) needed[data] = true;
  }
  std::reverse(backward_slice.begin(), backward_slice.end());
  return backward_slice;
}

void Sort::set_axes(Scope& scope, bool of_keys) const {
  Sizes rows, columns, keys;
  std::vector<int> row_ids, column_ids, key_ids;
  for (std::size_t i = 0; i < loops_.axes.size(); ++i) {
    const segment::Axis& axis = loops_.axes[i];
    (axis.role == segment::Role::key         ? keys
     : axis.role == segment::Role::reduction ? columns
                                             : rows)
        .push_back(axis.size);
    (axis.role == segment::Role::key         ? key_ids
     : axis.role == segment::Role::reduction ? column_ids
                                             : row_ids)
        .push_back(static_cast<int>(i));
  }
  const auto set = [&](const Sizes& sizes, const std::vector<int>& ids, index::AxisId counter, std::int64_t count) {
    const std::vector<Expr> coordinates =
        index::delinearize(Expr::axis(counter, std::max<std::int64_t>(count, 2)), sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(ids[i], coordinates[i]);
  };
  if (!rows.empty()) set(rows, row_ids, kRow, schedule_.launch.parallel_chunks);
  if (of_keys) {
    set(keys, key_ids, kPosition, params_.keys);
  } else if (!columns.empty()) {
    columns.back() /= chunk_.elements;
    set(columns, column_ids, kColumn, schedule_.launch.reduction_chunks);
    Expr& inner = scope.axes.at(column_ids.back());
    inner = inner * chunk_.elements;
    if (chunk_.elements > 1) inner = inner + Expr::axis(kElement, chunk_.elements);
  }
  scope.axis_names = {{kRow, "row"}, {kPosition, "position"}, {kColumn, "column"}, {kElement, "j"}};
}

Result<void> Sort::key_function() {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, true);
  body.indent();
  VKF_CHECK_OK(emit_values(scope, backward_slice_of_keys()));
  body.line("return {};", use(scope, loops_.values[sort_].operands[0]));
  functions_.line("// What element `position` of a row is sorted by.");
  functions_.open("{} key_of(uint row, uint position) {{", type_);
  functions_.raw(body.take());
  functions_.close();
  functions_.blank();
  return {};
}

/// Entry `offset` of the order, and the key there: from shared memory, or from that of the dispatch before.
void Sort::emit_order(Scope& scope, ValueId id) {
  const bool key = id != sort_;
  const Code at = "begin + " + position(scope, loops_.values[sort_].offset).parenthesised();
  const Code text = from_memory() ? key ? pair_key(at) : pair_position(at) : code("{}[{}]", key ? "keys" : "order", at);
  scope.out->line("{} {} = {};", key ? type_ : "int", names_.values[id], key ? text : "int(" + text + ")");
  scope.names[id] = names_.values[id];
}

/// Whether a result, or what it is computed from, is the position in the row itself.
bool Sort::reads_order(const std::vector<ValueId>& backward_slice) const {
  const auto contains = [&](const std::vector<ValueId>& ids) {
    return std::find(ids.begin(), ids.end(), sort_) != ids.end();
  };
  const bool stored = std::any_of(loops_.stores.begin(), loops_.stores.end(),
                                  [&](const segment::Store& store) { return store.value == sort_; });
  return stored || std::any_of(backward_slice.begin(), backward_slice.end(), [&](ValueId id) {
           const Value& value = loops_.values[id];
           return sorted_keys_.count(id) == 0 && (contains(value.operands) || contains(value.data));
         });
}

/// The order, and what is computed from it.
Result<void> Sort::emit_sorted(Scope& scope) {
  const std::vector<ValueId> backward_slice = backward_slice_of_sorted();
  if (reads_order(backward_slice)) emit_order(scope, sort_);
  for (ValueId id : backward_slice) {
    if (sorted_keys_.count(id) != 0) {
      emit_order(scope, id);
    } else {
      VKF_CHECK_OK(emit_value(scope, id));
    }
  }
  return {};
}

Result<void> Sort::result_function() {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, false);
  body.indent();
  VKF_CHECK_OK(emit_sorted(scope));
  Code outs;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const Code value = use(scope, loops_.stores[i].value);
    if (schedule_.stores[i].kind == AccessKind::vector) {
      body.line("{} = {};", result_name(i), value);
      outs += ", out " + scalar_type(loops_.stores[i].node) + " " + result_name(i);
      continue;
    }
    Scope inner = scope;
    store_scalar(inner, i, value);
  }
  const Code text = body.take();
  Code parameters = "uint begin, uint row";
  for (const char* name : {"column", "j"}) {
    if (!text.uses(name)) continue;
    parameters += ", uint " + Code(name);
    coordinates_.emplace_back(name);
  }
  functions_.line("// One element of the results; `begin` is where the row's pairs begin.");
  functions_.open("void result({}{}) {{", parameters, outs);
  functions_.raw(text);
  functions_.close();
  functions_.blank();
  return {};
}

}  // namespace vkfuse::lowering

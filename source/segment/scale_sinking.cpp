// Factors that do not differ along what is summed: (x * r) . w = r * (x . w). They are either values of a row that wait
// for a reduction, or literals.
#include <algorithm>
#include <optional>

#include "ops/op.hpp"
#include "segment/loops.hpp"

namespace vkfuse::segment {

bool sums_products(const ir::Graph& graph, const Loops& loops, const Value& value) {
  if (value.kind != Value::Kind::reduction || value.online != Value::Online::no) return false;
  const ops::Reduction& reduction = graph.node(value.node).op->reduction;
  const Value& product = loops.values[value.operands[0]];
  return reduction.kind == ops::Reduction::Kind::plain && reduction.join == "add" &&
         product.kind == Value::Kind::compute && ops::element_row(*graph.node(product.node).op).is_product;
}

namespace {

/// A step between a factor of a contraction and what is left of it.
struct Step {
  ir::NodeId node = 0;           ///< its op joins the sum with `other`
  std::optional<ValueId> other;  ///< none: a conversion
  bool other_first = false;
};

/// exp(x - max(x)): of the order of 1 without its scale, so that it may be rounded before it is scaled.
bool is_softmax_weight(const ir::Graph& graph, const Loops& loops, const Value& value) {
  const auto is = [&](const Value& of, ops::Role role) {
    return of.kind == Value::Kind::compute && graph.node(of.node).op->role == role;
  };
  if (!is(value, ops::Role::exp)) return false;
  const Value& apart = loops.values[value.operands[0]];
  if (!is(apart, ops::Role::sub)) return false;
  const Value& most = loops.values[apart.operands[1]];
  return most.kind == Value::Kind::reduction && most.operands[0] == apart.operands[0] &&
         graph.node(most.node).op->reduction.join == "max";
}

/// Writes the values of `loops` into others, with the steps taken off the factors of contractions.
class Mover {
 public:
  Mover(const ir::Graph& graph, const Loops& loops, bool literals)
      : graph_(graph), loops_(loops), moved_(loops), renamed_(loops.values.size()), literals_(literals) {
    moved_.values.clear();
  }

  std::optional<Loops> run();

 private:
  /// Sums that had a factor in common still have.
  ValueId add(Value value) { return add_once(moved_.values, std::move(value)); }
  [[nodiscard]] bool waits(ValueId id) const {
    return !loops_.per_element(loops_.values[id]) && loops_.values[id].level > 0;
  }
  /// Whether a value is a contraction that factors are taken out of.
  [[nodiscard]] bool moves_out_of(const Value& value) const;
  [[nodiscard]] bool is_literal(ValueId id) const { return loops_.values[id].kind == Value::Kind::literal; }
  /// Numbers of 16 bits or fewer that were widened, times literals.
  [[nodiscard]] bool is_widened(ValueId id) const;
  ValueId peeled(ValueId id, std::vector<Step>& steps);
  ValueId peeled_conversion(ValueId id, std::vector<Step>& steps);
  /// The value in terms of the moved ones. The steps, if there are any, are no longer a part of its operand.
  std::vector<Step> take_off_steps(Value& value);
  ValueId add_with_steps(Value value, const std::vector<Step>& steps);

  const ir::Graph& graph_;
  const Loops& loops_;
  Loops moved_;
  std::vector<ValueId> renamed_;  ///< to what users of a value read now
  bool literals_;                 ///< whether literals move, and not what waits for a reduction
};

bool Mover::is_widened(ValueId id) const {
  const Value& value = loops_.values[id];
  if (value.kind != Value::Kind::compute) return false;
  const ir::Node& node = graph_.node(value.node);
  const ops::Role op = ops::element_row(*node.op).role;
  if (op == ops::Role::cast) {
    const DType from = graph_.node(node.operands[0]).type.dtype;
    return node.type.dtype == DType::f32 && is_float(from) && size_of(from) < 4;
  }
  if (op != ops::Role::mul) return false;
  return is_literal(value.operands[1]) ? is_widened(value.operands[0])
                                       : is_literal(value.operands[0]) && is_widened(value.operands[1]);
}

/// What is left of a value, as one of the moved ones, and the steps that lead from there to the value, in order.
ValueId Mover::peeled(ValueId id, std::vector<Step>& steps) {
  const Value& value = loops_.values[id];
  const ir::Node& node = graph_.node(value.node);
  if (value.kind != Value::Kind::compute || !is_float(node.type.dtype)) return renamed_[id];
  const ops::Role op = ops::element_row(*node.op).role;
  if (op == ops::Role::cast) return peeled_conversion(id, steps);
  if (op != ops::Role::mul && op != ops::Role::div) return renamed_[id];
  const ValueId a = value.operands[0];
  const ValueId b = value.operands[1];
  const auto moves = [&](ValueId other) { return literals_ ? is_literal(other) : waits(other); };
  if (moves(b)) {
    const ValueId left = peeled(a, steps);
    steps.push_back({value.node, b, false});
    return left;
  }
  if (moves(a) && op == ops::Role::mul) {
    const ValueId left = peeled(b, steps);
    steps.push_back({value.node, a, true});
    return left;
  }
  const std::size_t before = steps.size();
  const ValueId left_a = peeled(a, steps);
  const ValueId left_b = op == ops::Role::mul ? peeled(b, steps) : renamed_[b];
  if (steps.size() == before) return renamed_[id];
  Value left = value;
  left.operands = {left_a, left_b};
  return add(std::move(left));
}

/// Of a softmax that is computed in a wider type than its weights are multiplied in: they are rounded before their sum
/// divides them instead of after.
ValueId Mover::peeled_conversion(ValueId id, std::vector<Step>& steps) {
  const Value& value = loops_.values[id];
  const Value& scaled = loops_.values[value.operands[0]];
  const bool is_scaled = !literals_ && scaled.kind == Value::Kind::compute &&
                         is_float(graph_.node(scaled.node).type.dtype) &&
                         graph_.node(scaled.node).op->role == ops::Role::div && waits(scaled.operands[1]) &&
                         is_softmax_weight(graph_, loops_, loops_.values[scaled.operands[0]]);
  if (!is_scaled) return renamed_[id];
  Value left = value;
  left.operands = {renamed_[scaled.operands[0]]};
  steps.push_back({scaled.node, scaled.operands[1], false});
  steps.push_back({value.node, std::nullopt, false});
  return add(std::move(left));
}

bool Mover::moves_out_of(const Value& value) const {
  const bool sums = sums_products(graph_, loops_, value);
  const bool nested = value.kind == Value::Kind::nested && graph_.node(value.node).op->cls == ops::OpClass::contraction;
  if (!sums && !(nested && literals_)) return false;
  if (!is_float(graph_.node(value.node).type.dtype)) return false;
  const std::vector<ValueId>& factors = loops_.values[value.operands[0]].operands;
  return !literals_ || std::all_of(factors.begin(), factors.end(), [&](ValueId id) { return is_widened(id); });
}

void drop_unused(Loops& loops);

std::vector<Step> Mover::take_off_steps(Value& value) {
  std::vector<Step> steps;
  if (moves_out_of(value)) {
    Value product = loops_.values[value.operands[0]];
    for (ValueId& factor : product.operands) factor = peeled(factor, steps);
    if (!steps.empty()) value.operands[0] = add(std::move(product));
  }
  if (steps.empty()) {
    for (ValueId& operand : value.operands) operand = renamed_[operand];
  }
  for (ValueId& data : value.data) data = renamed_[data];
  if (value.online != Value::Online::no) value.partner = renamed_[value.partner];
  return steps;
}

/// The steps after the value instead of before it.
ValueId Mover::add_with_steps(Value value, const std::vector<Step>& steps) {
  const AxisSet axes = value.axes;
  ValueId result = add(std::move(value));
  for (const Step& step : steps) {
    Value after;
    after.kind = Value::Kind::compute;
    after.node = step.node;
    after.operands = {result};
    if (step.other) after.operands.push_back(renamed_[*step.other]);
    if (step.other_first) std::swap(after.operands[0], after.operands[1]);
    after.axes = axes;
    result = add(std::move(after));
  }
  return result;
}

std::optional<Loops> Mover::run() {
  bool any = false;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    Value value = loops_.values[id];
    const std::vector<Step> steps = take_off_steps(value);
    any = any || !steps.empty();
    renamed_[id] = add_with_steps(std::move(value), steps);
  }
  if (!any) return std::nullopt;
  for (Store& store : moved_.stores) store.value = renamed_[store.value];
  for (auto& data : moved_.data) data.second = renamed_[data.second];
  drop_unused(moved_);
  derive_levels(moved_);
  return std::move(moved_);
}

/// Values that nothing needs any more.
void drop_unused(Loops& loops) {
  std::vector<bool> used(loops.values.size(), false);
  for (const Store& store : loops.stores) used[store.value] = true;
  for (ValueId id = static_cast<ValueId>(loops.values.size()); id-- > 0;) {
    if (!used[id]) continue;
    const Value& value = loops.values[id];
    for (ValueId operand : value.operands) used[operand] = true;
    for (ValueId data : value.data) used[data] = true;
    if (value.online != Value::Online::no) used[value.partner] = true;
  }
  std::vector<ValueId> renamed(loops.values.size(), 0);
  std::vector<Value> kept;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    if (!used[id]) continue;
    renamed[id] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(loops.values[id]));
    Value& value = kept.back();
    for (ValueId& operand : value.operands) operand = renamed[operand];
    for (ValueId& data : value.data) data = renamed[data];
    value.partner = renamed[value.partner];
  }
  loops.values = std::move(kept);
  for (Store& store : loops.stores) store.value = renamed[store.value];
  std::erase_if(loops.data, [&](const auto& data) { return !used[data.second]; });
  for (auto& data : loops.data) data.second = renamed[data.second];
}

}  // namespace

std::optional<Loops> with_sunk_scales(const ir::Graph& graph, const Loops& loops) {
  return Mover(graph, loops, false).run();
}

std::optional<Loops> with_sunk_literals(const ir::Graph& graph, const Loops& loops) {
  return Mover(graph, loops, true).run();
}

}  // namespace vkfuse::segment

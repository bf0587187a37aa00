// Factors that do not differ along what is summed: (x * r) . w = r * (x . w).
#include <algorithm>

#include "ops/op.hpp"
#include "segment/loops.hpp"

namespace vkfuse::segment {

namespace {

/// A step between a factor of a sum of products and what is left of it.
struct Step {
  ir::NodeId node = 0;  ///< its op joins the sum with `other`
  ValueId other = 0;
  bool other_first = false;
};

/// Takes the steps off the value `id`, outermost first; what is left is put into `id`.
std::vector<Step> peel(const ir::Graph& graph, const Loops& loops, ValueId& id) {
  std::vector<Step> steps;
  while (loops.values[id].kind == Value::Kind::compute) {
    const Value& value = loops.values[id];
    const ir::Node& node = graph.node(value.node);
    const ops::OpRow& op = ops::element_row(*node.op);
    if (!is_float(node.type.dtype) || (op.name != "mul" && op.name != "div")) break;
    const auto waits = [&](std::size_t i) {
      const Value& operand = loops.values[value.operands[i]];
      return !loops.per_element(operand) && operand.stage > 0;
    };
    if (waits(1)) {
      steps.push_back({value.node, value.operands[1], false});
      id = value.operands[0];
    } else if (waits(0) && op.name == "mul") {
      steps.push_back({value.node, value.operands[0], true});
      id = value.operands[1];
    } else {
      break;
    }
  }
  return steps;
}

bool sums_products(const ir::Graph& graph, const Loops& loops, const Value& value) {
  if (value.kind != Value::Kind::fold || value.online != Value::Online::no) return false;
  const ops::Fold& fold = graph.node(value.node).op->fold;
  const Value& product = loops.values[value.operands[0]];
  return fold.kind == ops::Fold::Kind::plain && fold.join == "add" && product.kind == Value::Kind::compute &&
         ops::element_row(*graph.node(product.node).op).is_product && is_float(graph.node(product.node).type.dtype);
}

}  // namespace

std::optional<Loops> with_factors_after_sums(const ir::Graph& graph, const Loops& loops) {
  Loops moved = loops;
  moved.values.clear();
  std::vector<ValueId> renamed(loops.values.size());  // to what users of a value read now
  bool any = false;
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    Value value = loops.values[id];
    std::vector<Step> steps;
    if (sums_products(graph, loops, value)) {
      Value product = loops.values[value.operands[0]];
      for (ValueId& factor : product.operands) {
        const std::vector<Step> own = peel(graph, loops, factor);
        steps.insert(steps.end(), own.rbegin(), own.rend());  // what was applied first is applied first again
      }
      if (!steps.empty()) {
        any = true;
        for (ValueId& operand : product.operands) operand = renamed[operand];
        value.operands[0] = static_cast<ValueId>(moved.values.size());
        moved.values.push_back(std::move(product));
      }
    }
    if (steps.empty()) {
      for (ValueId& operand : value.operands) operand = renamed[operand];
    }
    for (ValueId& data : value.data) data = renamed[data];
    if (value.online != Value::Online::no) value.partner = renamed[value.partner];
    const AxisSet axes = value.axes;
    renamed[id] = static_cast<ValueId>(moved.values.size());
    moved.values.push_back(std::move(value));
    for (const Step& step : steps) {
      Value after;
      after.kind = Value::Kind::compute;
      after.node = step.node;
      after.operands = {renamed[id], renamed[step.other]};
      if (step.other_first) std::swap(after.operands[0], after.operands[1]);
      after.axes = axes;
      renamed[id] = static_cast<ValueId>(moved.values.size());
      moved.values.push_back(std::move(after));
    }
  }
  if (!any) return std::nullopt;
  for (Store& store : moved.stores) store.value = renamed[store.value];
  for (auto& data : moved.data) data.second = renamed[data.second];
  derive_stages(moved);
  return moved;
}

}  // namespace vkfuse::segment

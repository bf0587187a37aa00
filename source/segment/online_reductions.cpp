// Pairs of reductions in one pass: what makes softmax and norms of rows that do not fit on chip read them once.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

namespace {

/// The value as an elementwise op of that role, or null.
const Value* as_op(const ir::Graph& graph, const Loops& loops, ValueId id, ops::Role op) {
  const Value& value = loops.values[id];
  return value.kind == Value::Kind::compute && graph.node(value.node).op->role == op ? &value : nullptr;
}

const ops::Reduction& reduction_of(const ir::Graph& graph, const Value& value) {
  return graph.node(value.node).op->reduction;
}

bool is_single(const ir::Graph& graph, const Value& value) {
  const DType type = graph.node(value.node).type.dtype;
  return is_float(type) && type != DType::f64;
}

/// The reduction that `difference` = x - reduction(x) subtracts, if that is what it is.
std::optional<ValueId> subtracted_reduction(const ir::Graph& graph, const Loops& loops, ValueId difference) {
  const Value* sub = as_op(graph, loops, difference, ops::Role::sub);
  if (sub == nullptr) return std::nullopt;
  const Value& reduction = loops.values[sub->operands[1]];
  if (reduction.kind != Value::Kind::reduction || reduction.online != Value::Online::no ||
      reduction.operands[0] != sub->operands[0])
    return std::nullopt;
  return sub->operands[1];
}

void pair_up(const ir::Graph& graph, Loops& loops, ValueId id) {
  Value& reduction = loops.values[id];
  const ops::Reduction& rule = reduction_of(graph, reduction);
  if (rule.join != "add" || !is_single(graph, reduction) || reduction.online != Value::Online::no) return;
  if (const Value* exponential = as_op(graph, loops, reduction.operands[0], ops::Role::exp);
      exponential != nullptr && rule.kind == ops::Reduction::Kind::plain) {
    const auto most = subtracted_reduction(graph, loops, exponential->operands[0]);
    if (!most || reduction_of(graph, loops.values[*most]).join != "max" ||
        reduction_of(graph, loops.values[*most]).kind != ops::Reduction::Kind::plain)
      return;
    reduction.online = Value::Online::softmax;
    reduction.partner = *most;
  } else if (const Value* square = as_op(graph, loops, reduction.operands[0], ops::Role::mul);
             square != nullptr && square->operands[0] == square->operands[1]) {
    const auto mean = subtracted_reduction(graph, loops, square->operands[0]);
    if (!mean || reduction_of(graph, loops.values[*mean]).kind != ops::Reduction::Kind::mean) return;
    reduction.online = Value::Online::moments;
    reduction.partner = *mean;
  } else {
    return;
  }
  reduction.operands = loops.values[reduction.partner].operands;
}

}  // namespace

std::optional<Loops> with_online_reductions(const ir::Graph& graph, const Loops& loops) {
  const auto reductions = std::count_if(loops.values.begin(), loops.values.end(),
                                        [](const Value& value) { return value.kind == Value::Kind::reduction; });
  if (reductions < 2) return std::nullopt;
  Loops paired = loops;
  for (ValueId id = 0; id < paired.values.size(); ++id) {
    if (paired.values[id].kind == Value::Kind::reduction) pair_up(graph, paired, id);
  }
  const bool any = std::any_of(paired.values.begin(), paired.values.end(),
                               [](const Value& value) { return value.online != Value::Online::no; });
  if (!any) return std::nullopt;
  derive_levels(paired);  // again, now that some reductions wait for less
  return paired;
}

}  // namespace vkfuse::segment

// Pairs of folds in one pass: what makes softmax and norms of rows that do not fit on chip read them once.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

namespace {

/// The value as an elementwise op of that name, or null.
const Value* as_op(const ir::Graph& graph, const Loops& loops, ValueId id, std::string_view op) {
  const Value& value = loops.values[id];
  return value.kind == Value::Kind::compute && graph.node(value.node).op->name == op ? &value : nullptr;
}

const ops::Fold& fold_of(const ir::Graph& graph, const Value& value) { return graph.node(value.node).op->fold; }

bool is_single(const ir::Graph& graph, const Value& value) {
  const DType type = graph.node(value.node).type.dtype;
  return is_float(type) && type != DType::f64;
}

/// The fold that `difference` = x - fold(x) subtracts, if that is what it is.
std::optional<ValueId> subtracted_fold(const ir::Graph& graph, const Loops& loops, ValueId difference) {
  const Value* sub = as_op(graph, loops, difference, "sub");
  if (sub == nullptr) return std::nullopt;
  const Value& fold = loops.values[sub->operands[1]];
  if (fold.kind != Value::Kind::fold || fold.online != Value::Online::no || fold.operands[0] != sub->operands[0])
    return std::nullopt;
  return sub->operands[1];
}

void pair_up(const ir::Graph& graph, Loops& loops, ValueId id) {
  Value& fold = loops.values[id];
  const ops::Fold& rule = fold_of(graph, fold);
  if (rule.join != "add" || !is_single(graph, fold) || fold.online != Value::Online::no) return;
  if (const Value* exponential = as_op(graph, loops, fold.operands[0], "exp");
      exponential != nullptr && rule.kind == ops::Fold::Kind::plain) {
    const auto most = subtracted_fold(graph, loops, exponential->operands[0]);
    if (!most || fold_of(graph, loops.values[*most]).join != "max" ||
        fold_of(graph, loops.values[*most]).kind != ops::Fold::Kind::plain)
      return;
    fold.online = Value::Online::softmax;
    fold.partner = *most;
  } else if (const Value* square = as_op(graph, loops, fold.operands[0], "mul");
             square != nullptr && square->operands[0] == square->operands[1]) {
    const auto mean = subtracted_fold(graph, loops, square->operands[0]);
    if (!mean || fold_of(graph, loops.values[*mean]).kind != ops::Fold::Kind::mean) return;
    fold.online = Value::Online::moments;
    fold.partner = *mean;
  } else {
    return;
  }
  fold.operands = loops.values[fold.partner].operands;
}

}  // namespace

std::optional<Loops> with_online_folds(const ir::Graph& graph, const Loops& loops) {
  const auto folds = std::count_if(loops.values.begin(), loops.values.end(),
                                   [](const Value& value) { return value.kind == Value::Kind::fold; });
  if (folds < 2) return std::nullopt;
  Loops paired = loops;
  for (ValueId id = 0; id < paired.values.size(); ++id) {
    if (paired.values[id].kind == Value::Kind::fold) pair_up(graph, paired, id);
  }
  const bool any = std::any_of(paired.values.begin(), paired.values.end(),
                               [](const Value& value) { return value.online != Value::Online::no; });
  if (!any) return std::nullopt;
  derive_stages(paired);  // again, now that some folds wait for less
  return paired;
}

}  // namespace vkfuse::segment

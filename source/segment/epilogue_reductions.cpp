// Sums of products first, then the reductions of what they lead to.
#include <algorithm>

#include "segment/loops.hpp"

namespace vkfuse::segment {

namespace {

bool is_of_contraction(const ir::Graph& graph, const Value& value) {
  return graph.node(value.node).op->cls == ops::OpClass::contraction;
}

/// The axes of the contraction that all reductions are of results of; none where something else is reduced, scanned or
/// sorted.
AxisSet contracted_axes(const ir::Graph& graph, const Loops& loops) {
  AxisSet contracted = 0;
  std::vector<bool> after(loops.values.size(), false);  // computed from the contraction
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const Value& value = loops.values[id];
    const bool contracts = is_of_contraction(graph, value);
    if (value.kind == Value::Kind::scan || value.kind == Value::Kind::sort) return 0;
    after[id] =
        std::any_of(value.operands.begin(), value.operands.end(), [&](ValueId operand) { return after[operand]; });
    if (value.kind == Value::Kind::nested && contracts) {
      if (contracted != 0 && contracted != value.over) return 0;
      contracted = value.over;
      after[id] = true;
    }
    if (value.kind == Value::Kind::reduction && (contracts || !after[id])) return 0;
  }
  return contracted;
}

}  // namespace

Loops with_epilogue_reductions(const ir::Graph& graph, Loops loops) {
  const AxisSet contracted = contracted_axes(graph, loops);
  if (contracted == 0) return loops;
  const AxisSet columns = loops.columns();
  for (std::size_t i = 0; i < loops.axes.size(); ++i) {
    if (((columns >> i) & 1u) != 0) loops.axes[i].role = Role::parallel;
    if (((contracted >> i) & 1u) != 0) loops.axes[i].role = Role::reduction;
  }
  for (Value& value : loops.values) {
    if (value.kind == Value::Kind::reduction) {
      value.kind = Value::Kind::epilogue;
      value.over = columns;
    } else if (value.kind == Value::Kind::nested && is_of_contraction(graph, value)) {
      value.kind = Value::Kind::reduction;
      value.over = 0;
    }
  }
  derive_levels(loops);
  return loops;
}

}  // namespace vkfuse::segment

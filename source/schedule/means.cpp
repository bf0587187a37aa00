#include "schedule/means.hpp"

#include <algorithm>

namespace vkfuse::schedule {

using segment::Value;
using segment::ValueId;

bool sums_in_two_parts(const ir::Graph& graph, const segment::Loops& loops, ValueId reduction) {
  const Value& mean = loops.values[reduction];
  if (graph.node(mean.node).op->reduction.kind != ops::Reduction::Kind::mean) return false;
  const auto is_op = [&](const Value& value, ops::Role role) {
    return value.kind == Value::Kind::compute && graph.node(value.node).op->role == role;
  };
  const Value& averaged = loops.values[mean.operands[0]];
  if (!is_op(averaged, ops::Role::mul) || averaged.operands[0] != averaged.operands[1]) return true;
  return std::any_of(loops.stores.begin(), loops.stores.end(),
                     [&](const segment::Store& store) { return store.value == reduction; }) ||
         std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
           return is_op(value, ops::Role::sub) &&
                  std::find(value.operands.begin(), value.operands.end(), reduction) != value.operands.end();
         });
}

}  // namespace vkfuse::schedule

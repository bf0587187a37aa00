#include "schedule/means.hpp"

#include <algorithm>

namespace vkfuse::schedule {

using segment::Value;
using segment::ValueId;

namespace {

/// So many f16 of one value are a sum that an f32 holds.
constexpr std::int64_t kExactTerms = 4096;

/// Whether a value has 16 bits as it is in memory: what is computed may have more in a kernel.
bool is_moved_half(const ir::Graph& graph, const segment::Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  if (value.kind == Value::Kind::choose)
    return std::all_of(value.operands.begin(), value.operands.end(),
                       [&](ValueId operand) { return is_moved_half(graph, loops, operand); });
  return value.kind == Value::Kind::literal ||
         (value.kind == Value::Kind::load && size_of(graph.node(value.node).type.dtype) == 2);
}

/// Whether a mean is that of few elements of 16 bits, and 16 bits of it are all that anything sees: the sum of equal
/// ones is exact in one part, and what the quotient rounds is lost when it is stored.
bool is_of_few_halves(const ir::Graph& graph, const segment::Loops& loops, ValueId reduction) {
  const ir::Node& node = graph.node(loops.values[reduction].node);
  const ir::Node& operand = graph.node(node.operands[0]);
  if (size_of(node.type.dtype) != 2 || !is_moved_half(graph, loops, loops.values[reduction].operands[0])) return false;
  std::int64_t terms = 1;
  for (const int axis : std::get<ir::AxesPayload>(node.payload).axes) {
    const Dim& dim = operand.type.shape[static_cast<std::size_t>(axis)];
    if (dim.is_symbol() || dim.size() > kExactTerms) return false;
    terms *= std::max<std::int64_t>(dim.size(), 1);
    if (terms > kExactTerms) return false;
  }
  return std::none_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return std::find(value.operands.begin(), value.operands.end(), reduction) != value.operands.end();
  });
}

}  // namespace

bool sums_in_two_parts(const ir::Graph& graph, const segment::Loops& loops, ValueId reduction) {
  const Value& mean = loops.values[reduction];
  if (graph.node(mean.node).op->reduction.kind != ops::Reduction::Kind::mean) return false;
  if (is_of_few_halves(graph, loops, reduction)) return false;
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

#include "schedule/budget.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

int statements_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (const auto* custom = std::get_if<ir::CustomPayload>(&node.payload)) return ops::inlined_statements(custom->code);
  if (node.operands.empty()) return 1;
  const DType dtype = graph.node(node.operands.back()).type.dtype;  // the first of a select is a condition
  if (node.op->signature == ops::Signature::convert)
    return ops::inlined_statements(ops::cast_expression(dtype, node.type.dtype, false, "x"));
  const ops::OpRow& row = ops::element_row(*node.op);
  if (row.cls != ops::OpClass::elementwise || row.arity <= 0) return 1;
  const std::vector<std::string> operands(static_cast<std::size_t>(row.arity), "x");
  return ops::inlined_statements(ops::expression(row, dtype, false, operands));
}

namespace {

/// Of one element; `of_value` gives the statements of a value that is computed, in one pass.
template <typename OfValue>
std::int64_t statements_of_element(const segment::Loops& loops, const OfValue& of_value) {
  std::vector<std::int64_t> times(loops.values.size(), 0);
  for (int pass = 0; pass < loops.passes; ++pass) {
    const std::vector<bool> needed = segment::needed_in_pass(loops, pass);
    for (std::size_t i = 0; i < times.size(); ++i) times[i] += needed[i] ? 1 : 0;
  }
  std::int64_t count = 0;
  for (std::size_t i = 0; i < times.size(); ++i) count += std::max<std::int64_t>(1, times[i]) * of_value(i);
  return count;
}

/// The values that a kernel computes for each element of a chunk. Weights that fragments are made of are not among
/// them.
std::vector<bool> values_of_elements(const segment::Loops& loops, const Schedule& schedule) {
  const auto* rows = schedule.get_if<ReductionParams>();
  if (rows == nullptr || !rows->packed) return std::vector<bool>(loops.values.size(), true);
  std::vector<bool> counted(loops.values.size(), false);
  const auto add = [&](segment::ValueId root) {
    for (const segment::ValueId id : backward_slice_of(loops, root)) counted[id] = true;
  };
  add(rows->packed->vector);
  for (const segment::Value& value : loops.values) {
    if (value.kind == segment::Value::Kind::reduction && value.level < loops.passes) add(value.operands[0]);
  }
  return counted;
}

/// Elements of a factor that a thread of a product computes side by side in its loop; choices are made for each.
int elements_of_factors(const Schedule& schedule) {
  int most = 1;
  if (const auto* product = schedule.get_if<MatmulParams>()) {
    for (const TileOperand& factor : product->tile_operands) most = std::max(most, factor.elements);
  } else if (const auto* attention = schedule.get_if<AttentionParams>()) {
    for (const WeightedSum& one : attention->sums) most = std::max(most, one.value.elements);
    for (const ScoreProduct& one : attention->products) most = std::max({most, one.query.elements, one.key.elements});
  }
  return most;
}

}  // namespace

std::int64_t statements_of(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements) {
  const std::vector<bool> of_elements = values_of_elements(loops, schedule);
  return statements_of_element(loops, [&](std::size_t i) -> std::int64_t {
    const segment::Value& value = loops.values[i];
    const int count = value.kind == segment::Value::Kind::compute ? statements[value.node] : 1;
    return std::int64_t{count} * (of_elements[i] ? std::max(1, schedule.chunk_size) : 1);
  });
}

bool may_unroll(const ir::Graph& graph, const segment::Loops& loops, const Target& target, std::int64_t elements) {
  // Drivers of CPUs have no registers to keep a row in, and nothing to gain.
  const std::int64_t most =
      target.type == DeviceType::cpu ? target.budget.statements : target.budget.unrolled_statements;
  return statements_of_element(loops,
                               [&](std::size_t i) {
                                 const segment::Value& value = loops.values[i];
                                 return value.kind == segment::Value::Kind::compute ? statements_of(graph, value.node)
                                                                                    : 1;
                               }) *
             elements <=
         most;
}

std::string over_budget(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements,
                        const Target& target) {
  const KernelBudget& budget = target.budget;
  const std::int64_t count = statements_of(loops, schedule, statements);
  if (count > budget.statements) {
    return fmt::format(
        "One kernel would be about {} statements for a driver's compiler, and {} are the most that compile in seconds.",
        count, budget.statements);
  }
  const auto chooses = [](const segment::Value& value) { return value.kind == segment::Value::Kind::choose; };
  // Drivers of CPUs take twice as long for each (SwiftShader); those of GPUs were not seen to mind.
  const std::int64_t times = target.type == DeviceType::cpu ? elements_of_factors(schedule) : 1;
  const std::int64_t choices = times * std::count_if(loops.values.begin(), loops.values.end(), chooses);
  const bool has_inner_loops = loops.columns() != 0 || loops.keys() != 0;
  const std::int64_t most = has_inner_loops ? budget.choices_in_loops : budget.choices;
  if (choices > most)
    return fmt::format(
        "One kernel would choose between values {} times, and {} are the most that drivers compile in seconds.",
        choices, most);
  return {};
}

}  // namespace vkfuse::schedule

#include "schedule/budget.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace vkfuse::schedule {

int statements_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (const auto* custom = std::get_if<ir::CustomPayload>(&node.payload)) return ops::inlined_statements(custom->code);
  if (node.operands.empty()) return 1;
  const DType dtype = graph.node(node.operands.back()).type.dtype;  // the first of a select is a condition
  if (node.op->signature == ops::Signature::convert) return ops::inlined_statements(ops::cast_expression(dtype, node.type.dtype, false, "x"));
  const ops::OpRow& row = ops::element_row(*node.op);
  if (row.cls != ops::OpClass::elementwise || row.arity <= 0) return 1;
  const std::vector<std::string> operands(static_cast<std::size_t>(row.arity), "x");
  return ops::inlined_statements(ops::expression(row, dtype, false, operands));
}

std::int64_t statements_of(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements) {
  std::int64_t count = 0;
  for (const segment::Value& value : loops.values) count += value.kind == segment::Value::Kind::compute ? statements[value.node] : 1;
  return count * std::max(1, schedule.elements_per_item);
}

std::string over_budget(const segment::Loops& loops, const Schedule& schedule, std::span<const int> statements, const KernelBudget& budget) {
  const std::int64_t count = statements_of(loops, schedule, statements);
  if (count > budget.statements) {
    return fmt::format("One kernel would be about {} statements for a driver's compiler, and {} are the most that compile in seconds.", count, budget.statements);
  }
  const auto chooses = [](const segment::Value& value) { return value.kind == segment::Value::Kind::choose; };
  const std::int64_t choices = std::count_if(loops.values.begin(), loops.values.end(), chooses);
  const std::int64_t most = schedule.kind == Template::pointwise || schedule.kind == Template::tiled ? budget.choices : budget.choices_in_loops;
  if (choices > most) return fmt::format("One kernel would choose between values {} times, and {} are the most that drivers compile in seconds.", choices, most);
  return {};
}

}  // namespace vkfuse::schedule

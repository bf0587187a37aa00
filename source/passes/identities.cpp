// Views that change nothing, and chains of views that one view says as well.
#include <numeric>

#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::NodeId;

bool all_zero(const std::vector<std::int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n == 0; });
}

/// Whether element i of the result is element i of the first operand, bit by bit.
bool is_identity(const ir::Graph& graph, const ir::Node& node, std::span<const NodeId> operands) {
  if (operands.empty() || !(graph.node(operands[0]).type == node.type)) return false;
  const std::string_view op = node.op->name;
  if (op == "copy" || op == "reshape" || op == "broadcast") return true;
  if (op == "cast") return !is_float(node.type.dtype) || size_of(node.type.dtype) >= 4;  // of 16-bit floats it rounds
  if (op == "concat") return operands.size() == 1;
  if (const auto* pad = std::get_if<ir::PadPayload>(&node.payload)) return all_zero(pad->low) && all_zero(pad->high);
  if (const auto* slice = std::get_if<ir::SlicePayload>(&node.payload); slice != nullptr && op == "slice") {
    return all_zero(slice->starts) &&
           std::all_of(slice->steps.begin(), slice->steps.end(), [](std::int64_t step) { return step == 1; });
  }
  const auto* axes = std::get_if<ir::AxesPayload>(&node.payload);
  if (axes == nullptr) return false;
  return op == "permute" && std::is_sorted(axes->axes.begin(), axes->axes.end());
}

}  // namespace

Result<ir::Graph> drop_identities(const ir::Graph& graph) {
  std::vector<bool> is_output(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) is_output[output.value] = true;
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    std::vector<NodeId> operands = rewriter.mapped(id);
    // A copy that is a result is what its writer asked for.
    if (is_identity(rewriter.graph(), node, operands) && !(node.op->name == "copy" && is_output[id])) {
      rewriter.alias(id, operands[0]);
      continue;
    }
    const bool reshapes = node.op->name == "reshape";
    const bool permutes = node.op->name == "permute";
    if (!reshapes && !permutes) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    ir::Node joined = node;
    const ir::Node& behind = rewriter.graph().node(operands[0]);
    if (behind.op == node.op) {
      if (permutes) {
        const auto& inner = std::get<ir::AxesPayload>(behind.payload).axes;
        for (int& axis : std::get<ir::AxesPayload>(joined.payload).axes) axis = inner[static_cast<std::size_t>(axis)];
      }
      operands[0] = behind.operands[0];
    }
    if (is_identity(rewriter.graph(), joined, operands)) {
      rewriter.alias(id, operands[0]);
      continue;
    }
    VKF_TRY(made, ir::append_copy(rewriter.graph(), joined, std::move(operands)));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes

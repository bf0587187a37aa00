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

bool all_one(const std::vector<std::int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n == 1; });
}

/// When an op whose first operand has the type of the result changes nothing.
struct IdentityRow {
  std::string_view op;
  bool (*holds)(const ir::Node& node);
};
constexpr IdentityRow kIdentities[] = {
    {"copy", [](const ir::Node&) { return true; }},
    {"reshape", [](const ir::Node&) { return true; }},
    {"broadcast", [](const ir::Node&) { return true; }},
    {"concat", [](const ir::Node& node) { return node.operands.size() == 1; }},
    // Of 16-bit floats it rounds.
    {"cast", [](const ir::Node& node) { return !is_float(node.type.dtype) || size_of(node.type.dtype) >= 4; }},
    {"pad",
     [](const ir::Node& node) {
       const auto& pad = std::get<ir::PadPayload>(node.payload);
       return all_zero(pad.low) && all_zero(pad.high);
     }},
    {"slice",
     [](const ir::Node& node) {
       const auto& slice = std::get<ir::SlicePayload>(node.payload);
       return all_zero(slice.starts) && all_one(slice.steps);
     }},
    {"permute",
     [](const ir::Node& node) {
       const auto& axes = std::get<ir::AxesPayload>(node.payload).axes;
       return std::is_sorted(axes.begin(), axes.end());
     }},
};

/// Whether element i of the result is element i of the first operand, bit by bit.
bool is_identity(const ir::Graph& graph, const ir::Node& node, std::span<const NodeId> operands) {
  if (operands.empty() || !(graph.node(operands[0]).type == node.type)) return false;
  const auto* row = std::find_if(std::begin(kIdentities), std::end(kIdentities),
                                 [&](const IdentityRow& one) { return one.op == node.op->name; });
  return row != std::end(kIdentities) && row->holds(node);
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
    if (is_identity(rewriter.graph(), node, operands) && !(node.op->role == ops::Role::copy && is_output[id])) {
      rewriter.alias(id, operands[0]);
      continue;
    }
    const bool reshapes = node.op->role == ops::Role::reshape;
    const bool permutes = node.op->role == ops::Role::permute;
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

// What programs of one rank leave of collectives and annotations: nothing.
#include <algorithm>

#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

/// A single rank that nobody sends to has zeros.
Result<ir::NodeId> zeros_like(ir::Graph& graph, const TensorType& type) {
  const ir::NodeId zero = graph.add_scalar(type.dtype, 0);
  return graph.add_structured(ops::row("broadcast"), {zero}, ir::NoPayload{}, type.shape);
}

Error left_over(const ir::Node& node, ir::NodeId id) {
  return unsupported(
      "'{}' %{} is between {} ranks, which one device cannot compute: compile_parallel() takes such a program.",
      node.op->name, id, ir::group_of(node)->ranks);
}

}  // namespace

Result<ir::Graph> drop_single_ranks(const ir::Graph& graph) {
  const auto is_between = [](const ir::Node& node) {
    return node.op->cls == ops::OpClass::collective || node.op->cls == ops::OpClass::annotation;
  };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_between)) return graph;
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (!is_between(node)) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    const ir::RankGroup* group = ir::group_of(node);
    if (group != nullptr && group->ranks != 1) return left_over(node, id);
    const auto* sends = std::get_if<ir::SendReceivePayload>(&node.payload);
    if (sends != nullptr && sends->from.front() == -1) {
      VKF_TRY(zeros, zeros_like(rewriter.graph(), node.type));
      rewriter.alias(id, zeros);
    } else {
      rewriter.alias(id, rewriter.at(node.operands.front()));
    }
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes

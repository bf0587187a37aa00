// Means that are written out: a sum divided by the number of what is added up, or multiplied by its inverse. As
// reduce_mean they are exact for equal elements, which a norm that is written out asks for as well.
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

/// The number that the node is, for every element.
std::optional<double> number_of(const Node& node) {
  const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload);
  if (constant == nullptr || constant->bytes->size() != static_cast<std::size_t>(size_of(node.type.dtype)))
    return std::nullopt;
  return ir::decode(node.type.dtype, constant->bytes->data());
}

/// How many elements each of the results is of; 0 where only a run tells.
std::int64_t counted(const Graph& graph, const Node& sum) {
  std::int64_t count = 1;
  for (const int axis : std::get<ir::AxesPayload>(sum.payload).axes) {
    const Dim& dim = graph.node(sum.operands[0]).type.shape[static_cast<std::size_t>(axis)];
    if (dim.is_symbol()) return 0;
    count *= dim.size();
  }
  return count;
}

/// The sum that a quotient or product makes a mean of, and which operand it is, behind views that keep its elements.
std::optional<NodeId> averaged_sum(const Graph& graph, const Node& node) {
  const bool divides = node.op->name == "div";
  // 16-bit sums may overflow where their mean does not.
  if ((!divides && node.op->name != "mul") || (node.type.dtype != DType::f32 && node.type.dtype != DType::f64))
    return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (divides && side == 1) break;
    const auto number = number_of(graph.node(node.operands[1 - side]));
    NodeId sum = node.operands[side];
    if (graph.node(sum).op->name == "reshape") sum = graph.node(sum).operands[0];
    if (!number || graph.node(sum).op->name != "reduce_sum" ||
        graph.node(node.operands[side]).type.shape != node.type.shape)
      continue;
    const std::int64_t count = counted(graph, graph.node(sum));
    if (count < 2) continue;
    const double inverse = 1.0 / static_cast<double>(count);
    const double requested = divides                         ? static_cast<double>(count)
                             : node.type.dtype == DType::f32 ? static_cast<double>(static_cast<float>(inverse))
                                                             : inverse;
    if (*number == requested) return sum;
  }
  return std::nullopt;
}

}  // namespace

Result<Graph> name_means(const Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const auto sum = averaged_sum(graph, node);
    if (!sum) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    const Node& added = graph.node(*sum);
    VKF_TRY(mean,
            rewriter.graph().add_structured(ops::row("reduce_mean"), {rewriter.at(added.operands[0])}, added.payload));
    VKF_TRY(shaped, rewriter.graph().node(mean).type.shape == node.type.shape
                        ? Result<NodeId>(mean)
                        : rewriter.reshape(mean, node.type.shape));
    rewriter.alias(id, shaped);
  }
  VKF_TRY(named, rewriter.finish());
  return remove_dead(named);
}

}  // namespace vkfuse::passes

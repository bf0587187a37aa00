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
  const std::byte* element = literal_element(node);
  return element == nullptr ? std::nullopt : std::optional(ir::decode(node.type.dtype, element));
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

/// The sum whose elements a value has, in their order.
std::optional<NodeId> sum_of(const Graph& graph, NodeId id) {
  if (graph.node(id).op->role == ops::Role::reshape) id = graph.node(id).operands[0];
  return graph.node(id).op->role == ops::Role::reduce_sum ? std::optional(id) : std::nullopt;
}

/// What a sum of so many elements is divided by, or multiplied by, where that makes a mean of it.
double averaging_number(std::int64_t count, bool divides, DType dtype) {
  if (divides) return static_cast<double>(count);
  const double inverse = 1.0 / static_cast<double>(count);
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(inverse)) : inverse;
}

/// The sum that a quotient or product makes a mean of, seen through views that keep its elements.
std::optional<NodeId> averaged_sum(const Graph& graph, const Node& node) {
  const bool divides = node.op->role == ops::Role::div;
  // 16-bit sums may overflow where their mean does not.
  if ((!divides && node.op->role != ops::Role::mul) || (node.type.dtype != DType::f32 && node.type.dtype != DType::f64))
    return std::nullopt;
  const std::size_t sides = divides ? 1 : 2;
  for (std::size_t side = 0; side < sides; ++side) {
    const auto number = number_of(graph.node(node.operands[1 - side]));
    const auto sum = sum_of(graph, node.operands[side]);
    if (!number || !sum || graph.node(node.operands[side]).type.shape != node.type.shape) continue;
    const std::int64_t count = counted(graph, graph.node(*sum));
    if (count >= 2 && *number == averaging_number(count, divides, node.type.dtype)) return sum;
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

// Sums of exponentials about a guarded maximum, as log-sum-exp is written: sum(exp(x - c)) with c the largest element,
// or 0 where that is not finite. They become sums about the maximum itself, which a softmax has as well and one pass
// over the elements finds together with it.
#include <algorithm>
#include <limits>

#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

NodeId without_reshapes(const Graph& graph, NodeId id) {
  while (graph.node(id).op->role == ops::Role::reshape) id = graph.node(id).operands[0];
  return id;
}

bool is_literal_of(const Graph& graph, NodeId id, double number) {
  while (graph.node(id).op->role == ops::Role::reshape || graph.node(id).op->role == ops::Role::broadcast)
    id = graph.node(id).operands[0];
  const Node& node = graph.node(id);
  const std::byte* element = literal_element(node);
  return element != nullptr && is_float(node.type.dtype) && ir::decode(node.type.dtype, element) == number;
}

bool is_infinity(const Graph& graph, NodeId id) {
  return is_literal_of(graph, id, std::numeric_limits<double>::infinity());
}

/// What a condition says of a value's elements.
struct Asked {
  NodeId of = 0;
  bool infinite = false;  ///< that they are; else that they are finite, where a NaN may be either
};

/// A condition that infinite elements are told by, in one of the forms in which it is written.
std::optional<Asked> asked_by(const Graph& graph, NodeId condition) {
  const NodeId id = without_reshapes(graph, condition);
  const Node& node = graph.node(id);
  const auto of = [&](NodeId value, bool infinite) { return Asked{without_reshapes(graph, value), infinite}; };
  if (node.op->name == "is_finite") return of(node.operands[0], false);
  if (node.op->name == "is_inf") return of(node.operands[0], true);
  if (node.op->role == ops::Role::logical_not) {
    const auto denied = asked_by(graph, node.operands[0]);
    return denied ? std::optional(Asked{denied->of, !denied->infinite}) : std::nullopt;
  }
  if (node.op->role != ops::Role::eq && node.op->role != ops::Role::ne) return std::nullopt;
  for (const std::size_t side : {0U, 1U}) {
    const Node& magnitude = graph.node(without_reshapes(graph, node.operands[side]));
    if (magnitude.op->name == "abs" && is_infinity(graph, node.operands[1 - side]))
      return of(magnitude.operands[0], node.op->role == ops::Role::eq);
  }
  return std::nullopt;
}

Shape without_ones(Shape shape) {
  std::erase(shape, Dim(1));
  return shape;
}

/// The largest elements that a value guards.
std::optional<NodeId> guarded(const Graph& graph, NodeId centre) {
  const Node& choice = graph.node(without_reshapes(graph, centre));
  if (choice.op->role != ops::Role::select) return std::nullopt;
  const auto asked = asked_by(graph, choice.operands[0]);
  if (!asked) return std::nullopt;
  const std::size_t finite = asked->infinite ? 2 : 1;
  const NodeId largest = without_reshapes(graph, choice.operands[finite]);
  const bool is_guard = asked->of == largest && graph.node(largest).op->role == ops::Role::reduce_max &&
                        is_literal_of(graph, choice.operands[3 - finite], 0) &&
                        without_ones(choice.type.shape) == without_ones(graph.node(largest).type.shape);
  return is_guard ? std::optional(largest) : std::nullopt;
}

/// The shape of a reduction's results whose axes are all there.
Shape with_kept_axes(const Graph& graph, const Node& reduction) {
  Shape shape = graph.node(reduction.operands[0]).type.shape;
  for (const int axis : std::get<ir::AxesPayload>(reduction.payload).axes)
    shape[static_cast<std::size_t>(axis)] = Dim(1);
  return shape;
}

class GuardedSumFinder {
 public:
  explicit GuardedSumFinder(const Graph& graph) : graph_(graph), readers_(graph.size(), 0) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const NodeId operand : graph.node(id).operands) ++readers_[operand];
    }
    for (const ir::Output& output : graph.outputs()) ++readers_[output.value];
  }

  /// The maximum about which a node sums exponentials that nothing else reads.
  [[nodiscard]] std::optional<NodeId> maximum_of(const Node& sum) const {
    if (sum.op->role != ops::Role::reduce_sum) return std::nullopt;
    const Node& power = graph_.node(sum.operands[0]);
    if (power.op->role != ops::Role::exp || readers_[sum.operands[0]] != 1) return std::nullopt;
    const Node& below = graph_.node(power.operands[0]);
    if (below.op->role != ops::Role::sub || readers_[power.operands[0]] != 1) return std::nullopt;
    const auto largest = guarded(graph_, below.operands[1]);
    if (!largest) return std::nullopt;
    const Node& maximum = graph_.node(*largest);
    const bool is_its_own = maximum.operands[0] == below.operands[0] && maximum.payload == sum.payload &&
                            graph_.node(below.operands[1]).type.shape == with_kept_axes(graph_, sum);
    return is_its_own ? largest : std::nullopt;
  }

 private:
  const Graph& graph_;
  std::vector<int> readers_;
};

/// The sum about the maximum itself, and where that is not finite, its exponential.
Result<NodeId> sum_about_maximum(Rewriter& rewriter, const Graph& from, const Node& sum, NodeId largest) {
  const NodeId x = rewriter.at(from.node(largest).operands[0]), most = rewriter.at(largest);
  VKF_TRY(kept, rewriter.reshape(most, with_kept_axes(from, sum)));
  VKF_TRY(below, rewriter.op("sub", {x, kept}));
  VKF_TRY(power, rewriter.op("exp", {below}));
  VKF_TRY(total, rewriter.graph().add_structured(ops::row("reduce_sum"), {power}, sum.payload));
  VKF_TRY(is_finite, rewriter.op("is_finite", {most}));
  VKF_TRY(otherwise, rewriter.op("exp", {most}));
  return rewriter.op("select", {is_finite, total, otherwise});
}

}  // namespace

Result<Graph> unguard_sums(const Graph& graph) {
  const GuardedSumFinder finder(graph);
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto largest = finder.maximum_of(graph.node(id));
    if (!largest) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    VKF_TRY(made, sum_about_maximum(rewriter, graph, graph.node(id), *largest));
    rewriter.alias(id, made);
  }
  VKF_TRY(written, rewriter.finish());
  return remove_dead(written);
}

}  // namespace vkfuse::passes

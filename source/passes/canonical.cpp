// One form for graphs that differ only in how they were written down: equal computations are one node, operands of
// commutative ops and independent nodes have an order that follows from what they are, and not from when they were
// appended.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/mutations.hpp"
#include "ir/structured.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::NodeId;

/// A number for everything that a payload holds, but for names and bytes.
std::vector<std::uint64_t> words_of(ir::Payload payload) {
  std::vector<std::uint64_t> words{payload.index()};
  const auto visit = [&](const char*, auto& member) {
    if constexpr (requires { member.begin(); }) {
      words.push_back(member.size());
      for (const auto one : member) words.push_back(static_cast<std::uint64_t>(one));
    } else {
      words.push_back(static_cast<std::uint64_t>(member));
    }
  };
  ir::each_attribute(payload, visit);
  return words;
}

/// Ranks of nodes: deeper ones are larger, and equal computations have the same.
class Ranks {
 public:
  explicit Ranks(const ir::Graph& graph)
      : graph_(graph),
        rank_(graph.size(), 0),
        first_(graph.size()),
        operands_(graph.size()),
        words_(graph.size()),
        shapes_(graph.size()) {
    std::vector<std::vector<NodeId>> levels;
    std::vector<std::size_t> level(graph.size(), 0);
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (NodeId operand : graph.node(id).operands) level[id] = std::max(level[id], level[operand] + 1);
      if (levels.size() <= level[id]) levels.resize(level[id] + 1);
      levels[level[id]].push_back(id);
      const bool plain =
          graph.node(id).op->cls != ops::OpClass::input && graph.node(id).op->cls != ops::OpClass::constant;
      if (VKF_PLANT(equal_payloads, plain, false)) words_[id] = words_of(graph.node(id).payload);
      shapes_[id] = to_text(graph.node(id).type.shape);
    }
    for (std::vector<NodeId>& nodes : levels) rank(nodes);
  }

  /// The first of the nodes that compute the same.
  [[nodiscard]] NodeId first(NodeId id) const { return first_[id]; }
  /// Operands in their order; those of a commutative op: deeper ones first, then larger ones, then by what they are.
  [[nodiscard]] const std::vector<NodeId>& operands(NodeId id) const { return operands_[id]; }
  [[nodiscard]] std::uint32_t of(NodeId id) const { return rank_[id]; }

 private:
  void rank(std::vector<NodeId>& nodes) {
    for (NodeId id : nodes) {
      for (NodeId operand : graph_.node(id).operands) operands_[id].push_back(first_[operand]);
      if (!graph_.node(id).op->commutative) continue;
      std::sort(operands_[id].begin(), operands_[id].end(), [&](NodeId a, NodeId b) { return rank_[a] > rank_[b]; });
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return compare(a, b) < 0; });
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool same = i > 0 && compare(nodes[i - 1], nodes[i]) == 0;
      rank_[nodes[i]] = same ? next_ - 1 : next_++;
      first_[nodes[i]] = same ? first_[nodes[i - 1]] : nodes[i];
    }
  }

  /// Of nodes at one level.
  [[nodiscard]] int compare(NodeId a, NodeId b) const {
    const ir::Node& x = graph_.node(a);
    const ir::Node& y = graph_.node(b);
    const auto order = [](const auto& one, const auto& other) { return one < other ? -1 : other < one ? 1 : 0; };
    // Smaller tensors first: what has more dimensions is written first by most.
    if (const int sizes = order(x.type.shape.size(), y.type.shape.size())) return sizes;
    if (x.op != y.op) return order(x.op->name, y.op->name);
    if (x.type.dtype != y.type.dtype) return order(x.type.dtype, y.type.dtype);
    if (const int shapes = order(shapes_[a], shapes_[b])) return shapes;
    if (const int words = order(words_[a], words_[b])) return words;
    // The last name first, so that of two inputs the one that comes first in the alphabet is the first operand.
    if (const auto* input = std::get_if<ir::InputPayload>(&x.payload))
      return order(std::get<ir::InputPayload>(y.payload).name, input->name);
    if (const auto* constant = std::get_if<ir::ConstantPayload>(&x.payload)) {
      const auto& bytes = *constant->bytes;
      const auto& other = *std::get<ir::ConstantPayload>(y.payload).bytes;
      if (&bytes == &other) return 0;
      return std::memcmp(bytes.data(), other.data(), bytes.size());  // of one type, so of one size
    }
    for (std::size_t i = 0; i < operands_[a].size() && i < operands_[b].size(); ++i) {
      if (const int operands = order(rank_[operands_[a][i]], rank_[operands_[b][i]])) return operands;
    }
    return order(operands_[a].size(), operands_[b].size());
  }

  const ir::Graph& graph_;
  std::vector<std::uint32_t> rank_;
  std::vector<NodeId> first_;
  std::vector<std::vector<NodeId>> operands_;
  std::vector<std::vector<std::uint64_t>> words_;
  std::vector<std::string> shapes_;
  std::uint32_t next_ = 0;
};

/// Nodes where they were, but for those that an earlier one computes as well.
Result<ir::Graph> without_duplicates(const ir::Graph& graph, const Ranks& ranks) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (ranks.first(id) == id) {
      VKF_CHECK_OK(rewriter.keep(id));
    } else {
      rewriter.alias(id, rewriter.at(ranks.first(id)));
    }
  }
  return rewriter.finish();
}

/// Appends a node to the order, operands first, unless it is there.
void append_with_operands(NodeId root, const Ranks& ranks, std::vector<bool>& done, std::vector<NodeId>& order) {
  std::vector<std::pair<NodeId, std::size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [id, next] = stack.back();
    const std::vector<NodeId>& operands = ranks.operands(id);
    if (done[id] || next == operands.size()) {
      if (!done[id]) order.push_back(id);
      done[id] = true;
      stack.pop_back();
      continue;
    }
    const NodeId operand = operands[next++];
    if (!done[operand]) stack.emplace_back(operand, 0);
  }
}

/// From the outputs, operands first; then inputs that no output needs.
std::vector<NodeId> canonical_order(const ir::Graph& graph, const Ranks& ranks) {
  std::vector<NodeId> order;
  std::vector<bool> done(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) append_with_operands(ranks.first(output.value), ranks, done, order);
  std::vector<NodeId> unused;
  for (NodeId id : graph.inputs()) {
    if (!done[id]) unused.push_back(id);
  }
  std::sort(unused.begin(), unused.end(), [&](NodeId a, NodeId b) { return ranks.of(a) > ranks.of(b); });
  for (NodeId id : unused) append_with_operands(id, ranks, done, order);
  return order;
}

}  // namespace

Result<ir::Graph> canonicalize(const ir::Graph& graph, bool reorder) {
  const Ranks ranks(graph);
  if (!reorder) return without_duplicates(graph, ranks);
  Rewriter rewriter(graph);
  for (NodeId id : canonical_order(graph, ranks)) {
    std::vector<NodeId> operands;
    for (NodeId operand : ranks.operands(id)) operands.push_back(rewriter.at(operand));
    VKF_TRY(made, ir::append_copy(rewriter.graph(), graph.node(id), std::move(operands)));
    rewriter.alias(id, made);
  }
  for (NodeId id = 0; id < graph.size(); ++id) rewriter.alias(id, rewriter.at(ranks.first(id)));
  return rewriter.finish();
}

}  // namespace vkfuse::passes

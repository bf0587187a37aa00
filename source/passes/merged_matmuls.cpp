// Products of one value with several others, as the projections to queries, keys and values are: one product with all
// of these side by side, of which each reader takes its part.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "passes/passes.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;

/// Products that can be one.
struct Group {
  std::size_t shared = 0;  ///< which operand they share
  int axis = 0;            ///< of the others: they are put side by side along it
  int result_axis = 0;
  std::vector<NodeId> products;
};

/// The only axis of an operand that the result has and the other operand does not; nothing where there is none, or
/// several.
std::optional<int> own_axis(const Node& operand, const std::vector<int>& batch, const std::vector<int>& contracted) {
  std::optional<int> own;
  const auto is_in = [](const std::vector<int>& axes, int axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  for (int axis = 0; axis < static_cast<int>(operand.type.shape.size()); ++axis) {
    if (is_in(batch, axis) || is_in(contracted, axis)) continue;
    const Dim& size = operand.type.shape[static_cast<std::size_t>(axis)];
    if (own || size.is_symbol() || size.size() == 0) return std::nullopt;
    own = axis;
  }
  return own;
}

class MatmulFinder {
 public:
  explicit MatmulFinder(const Graph& graph) : graph_(graph), users_(graph.users()) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph.node(id).op->role == ops::Role::dot) products_of_[graph.node(id).operands].push_back(id);
    }
  }

  std::vector<Group> groups() const {
    // What products have in common but for the other operand's own axis.
    using Key = std::tuple<std::size_t, NodeId, std::vector<int>, std::vector<int>, std::vector<int>, std::vector<int>,
                           DType, DType, int, std::string>;
    std::map<Key, Group> all;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
      if (dot == nullptr || node.op->role != ops::Role::dot || node.operands[0] == node.operands[1] || is_copied(id))
        continue;
      for (const std::size_t shared : {std::size_t{0}, std::size_t{1}}) {
        const Node& other = graph_.node(node.operands[1 - shared]);
        const auto axis = shared == 0 ? own_axis(other, dot->batch_b, dot->contract_b)
                                      : own_axis(other, dot->batch_a, dot->contract_a);
        if (!axis) continue;
        Shape rest = other.type.shape;
        rest[static_cast<std::size_t>(*axis)] = Dim(1);
        Group& group = all[{shared, node.operands[shared], dot->batch_a, dot->batch_b, dot->contract_a, dot->contract_b,
                            other.type.dtype, node.type.dtype, *axis, to_text(rest)}];
        group.shared = shared;
        group.axis = *axis;
        group.result_axis =
            shared == 0 ? static_cast<int>(node.type.shape.size()) - 1 : static_cast<int>(dot->batch_a.size());
        group.products.push_back(id);
      }
    }
    std::vector<Group> found;
    std::set<NodeId> taken;
    for (auto& [key, group] : all) {
      group.products.erase(
          std::remove_if(group.products.begin(), group.products.end(), [&](NodeId id) { return taken.count(id) != 0; }),
          group.products.end());
      if (group.products.size() < 2 || !are_apart(group)) continue;
      taken.insert(group.products.begin(), group.products.end());
      found.push_back(std::move(group));
    }
    return found;
  }

 private:
  /// Whether another product is of the same values: it is there to be computed again.
  bool is_copied(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::vector<NodeId>& others = products_of_.at(node.operands);
    return std::any_of(others.begin(), others.end(),
                       [&](NodeId other) { return other != id && graph_.node(other).payload == node.payload; });
  }

  /// Whether what they are multiplied by can be made before the first of them, without another product, and none meets
  /// another one element by element, as the halves of a gated pair do: one tile has both of these.
  bool are_apart(const Group& group) const {
    std::set<NodeId> met;
    for (NodeId product : group.products) {
      std::set<NodeId> own;
      std::vector<NodeId> open = {product};
      while (!open.empty()) {
        const NodeId id = open.back();
        open.pop_back();
        for (NodeId user : users_[id]) {
          const Node& node = graph_.node(user);
          if (!is_elementwise(node) && node.op->cls != ops::OpClass::view) continue;
          if (met.count(user) != 0) return false;
          if (own.insert(user).second) open.push_back(user);
        }
      }
      met.insert(own.begin(), own.end());
    }
    // Ids are in running order.
    std::set<NodeId> before;
    std::vector<NodeId> open;
    for (NodeId product : group.products) open.push_back(graph_.node(product).operands[1 - group.shared]);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id < group.products.front() || !before.insert(id).second) continue;
      const Node& node = graph_.node(id);
      if (node.op->role == ops::Role::dot) return false;
      open.insert(open.end(), node.operands.begin(), node.operands.end());
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::map<std::vector<NodeId>, std::vector<NodeId>> products_of_;  ///< by their operands
};

class Joiner {
 public:
  Joiner(const Graph& graph, const std::vector<Group>& groups)
      : graph_(graph), rewriter_(graph), done_(graph.size(), false), group_of_(graph.size(), nullptr) {
    for (const Group& group : groups) {
      for (NodeId product : group.products) group_of_[product] = &group;
    }
  }

  Result<Rewritten> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) VKF_CHECK_OK(make(id));
    return rewriter_.finish_with_places();
  }

 private:
  /// What the first of a group needs may come after it: operands are made before.
  Result<void> make(NodeId id) {
    if (done_[id]) return {};
    const Group* const group = group_of_[id];
    for (NodeId product : group == nullptr ? std::vector<NodeId>{id} : group->products) {
      for (NodeId operand : graph_.node(product).operands) VKF_CHECK_OK(make(operand));
    }
    if (group == nullptr) {
      done_[id] = true;
      return rewriter_.keep(id);
    }
    std::vector<NodeId> others;
    for (NodeId product : group->products)
      others.push_back(rewriter_.at(graph_.node(product).operands[1 - group->shared]));
    ir::Graph& to = rewriter_.graph();
    VKF_TRY(side_by_side, to.add_structured(ops::row("concat"), std::move(others), ir::AxisPayload{group->axis}));
    const Node& first = graph_.node(group->products.front());
    std::vector<NodeId> operands = rewriter_.mapped(group->products.front());
    operands[1 - group->shared] = side_by_side;
    VKF_TRY(all, to.add_structured(*first.op, std::move(operands), first.payload));
    std::int64_t begin = 0;
    for (NodeId product : group->products) {
      const Shape& shape = graph_.node(product).type.shape;
      ir::SlicePayload part{std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.size(), 1)};
      part.starts[static_cast<std::size_t>(group->result_axis)] = begin;
      begin += shape[static_cast<std::size_t>(group->result_axis)].size();
      VKF_TRY(slice, to.add_structured(ops::row("slice"), {all}, std::move(part), shape));
      rewriter_.alias(product, slice);
      done_[product] = true;
    }
    return {};
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<bool> done_;
  std::vector<const Group*> group_of_;
};

}  // namespace

Result<std::optional<Rewritten>> merge_matmuls(const ir::Graph& graph) {
  const std::vector<Group> groups = MatmulFinder(graph).groups();
  if (groups.empty()) return std::optional<Rewritten>();
  VKF_TRY(joined, Joiner(graph, groups).run());
  return std::optional(std::move(joined));
}

}  // namespace vkfuse::passes

#include "segment/element_requests.hpp"

#include <algorithm>

namespace vkfuse::segment {

EqualMembers equal_members(const ir::Graph& graph, const Segment& segment) {
  EqualMembers equal;
  std::map<std::pair<const ops::OpRow*, std::vector<ir::NodeId>>, std::vector<ir::NodeId>> first;
  for (const ir::NodeId id : segment.members) {
    const ir::Node& node = graph.node(id);
    std::vector<ir::NodeId> operands = node.operands;
    for (ir::NodeId& operand : operands) {
      if (const auto found = equal.find(operand); found != equal.end()) operand = found->second;
    }
    std::vector<ir::NodeId>& alike = first[{node.op, std::move(operands)}];
    const auto same = std::find_if(alike.begin(), alike.end(), [&](ir::NodeId other) {
      return graph.node(other).type == node.type && graph.node(other).payload == node.payload;
    });
    if (same == alike.end())
      alike.push_back(id);
    else
      equal.emplace(id, *same);
  }
  return equal;
}

ValueId ElementRequests::find_or_add(ir::NodeId node, Coordinates coordinates, int context) {
  node = first_equal(node);
  std::vector<ValueId>& known = by_node_[node];
  for (ValueId id : known) {
    if (all_[id].context == context && all_[id].coordinates == coordinates) return id;
  }
  const ValueId id = add_unlisted(node, context);
  all_[id].coordinates = std::move(coordinates);
  known.push_back(id);
  return id;
}

ValueId ElementRequests::add_unlisted(ir::NodeId node, int context) {
  all_.push_back({node, {}, context, {}, std::nullopt});
  all_.back().value.node = node;
  return static_cast<ValueId>(all_.size() - 1);
}

ValueId ElementRequests::resolved(ValueId id) const {
  while (all_[id].alias) id = *all_[id].alias;
  return id;
}

std::span<const ValueId> ElementRequests::of(ir::NodeId node) const {
  const auto known = by_node_.find(first_equal(node));
  return known == by_node_.end() ? std::span<const ValueId>() : std::span<const ValueId>(known->second);
}

int PredicateContexts::inside(int context, Predicate predicate) {
  std::erase_if(predicate.ranges, [](const Predicate::Range& range) {
    const index::Interval interval = index::interval_of(range.value);
    return interval.low >= 0 && interval.high < range.size;
  });
  if (predicate.ranges.empty() && !predicate.negated) return context;
  for (std::size_t i = 1; i < all_.size(); ++i) {
    if (all_[i].parent == context && all_[i].predicate == predicate) return static_cast<int>(i);
  }
  all_.push_back({context, std::move(predicate)});
  return static_cast<int>(all_.size()) - 1;
}

std::vector<Predicate> PredicateContexts::predicates_of(int context) const {
  std::vector<Predicate> predicates;
  for (int at = context; at > 0; at = all_[static_cast<std::size_t>(at)].parent)
    predicates.push_back(all_[static_cast<std::size_t>(at)].predicate);
  std::reverse(predicates.begin(), predicates.end());
  return predicates;
}

}  // namespace vkfuse::segment

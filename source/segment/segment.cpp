#include "segment/segment.hpp"

#include <algorithm>

namespace vkfuse::segment {

bool is_literal(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload);
  return constant != nullptr && constant->bytes->size() == static_cast<std::size_t>(size_of(node.type.dtype));
}

bool is_choice(const ir::Node& node) {
  return node.op->role == ops::Role::pad || node.op->role == ops::Role::concat ||
         node.op->role == ops::Role::slice_assign;
}

bool is_resident(const ir::Graph& graph, ir::NodeId id) {
  const ops::OpClass cls = graph.node(id).op->cls;
  return cls == ops::OpClass::input || (cls == ops::OpClass::constant && !is_literal(graph, id));
}

Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes) {
  VisitedSet visited(graph.size());
  return build_segment(graph, std::move(members), escapes, visited);
}

Segment build_segment(const ir::Graph& graph, std::vector<ir::NodeId> members, const std::vector<bool>& escapes,
                      VisitedSet& visited) {
  Segment segment;
  std::sort(members.begin(), members.end());
  segment.members = std::move(members);
  visited.clear();
  for (ir::NodeId id : segment.members) visited.insert(id);
  for (ir::NodeId id : segment.members) {
    for (ir::NodeId operand : graph.node(id).operands) {
      if (visited.insert(operand) && !is_literal(graph, operand)) segment.reads.push_back(operand);
    }
    if (escapes[id]) segment.stores.push_back(id);
  }
  return segment;
}

}  // namespace vkfuse::segment

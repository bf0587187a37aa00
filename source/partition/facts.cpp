#include "partition/facts.hpp"

#include <algorithm>

namespace vkfuse::partition {

using ir::NodeId;

bool Facts::is_free(NodeId id) const {
  const ops::OpClass cls = graph.node(id).op->cls;
  return (cls == ops::OpClass::view || cls == ops::OpClass::generate) && !is_output[id] && !is_kept[id];
}

bool Facts::is_pointwise(NodeId id) const {
  const ops::OpClass cls = graph.node(id).op->cls;
  return cls == ops::OpClass::elementwise || cls == ops::OpClass::convert;
}

bool Facts::lies_elsewhere(NodeId id) const {
  if (!is_output[id] || graph.node(id).op->cls != ops::OpClass::view) return false;
  std::vector<NodeId> members = between[id];
  members.push_back(id);
  std::vector<bool> escapes(graph.size(), false);
  escapes[id] = true;
  const auto loops = segment::build_loops(graph, segment::build_segment(graph, std::move(members), escapes), symbols);
  const auto window = loops ? segment::window_of(*loops) : std::nullopt;
  return window && (segment::is_resident(graph, window->of) || is_output[window->of]);
}

Facts::Facts(const ir::Graph& of, SymbolValues sizes, std::vector<bool> kept)
    : graph(of), symbols(std::move(sizes)), is_kept(std::move(kept)), is_output(of.size(), false), is_alias(of.size(), false), is_computed(of.size(), false), users(of.size()), operands(of.size()),
      between(of.size()) {
  for (const ir::Output& output : graph.outputs()) is_output[output.value] = true;
  const auto add = [](std::vector<NodeId>& list, NodeId id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  };
  std::vector<bool> live(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) live[output.value] = true;
  for (NodeId id = static_cast<NodeId>(graph.size()); id-- > 0;) {
    if (!live[id]) continue;
    for (NodeId operand : graph.node(id).operands) live[operand] = true;
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (NodeId operand : graph.node(id).operands) {
      if (!is_free(operand) && !is_alias[operand]) {
        add(operands[id], operand);
        continue;
      }
      add(between[id], operand);
      for (NodeId through : between[operand]) add(between[id], through);
      for (NodeId behind : operands[operand]) add(operands[id], behind);
    }
    is_alias[id] = lies_elsewhere(id);
    is_computed[id] = live[id] && !is_free(id) && !segment::is_literal(graph, id) && !segment::is_resident(graph, id);
    if (!is_computed[id]) continue;
    for (NodeId operand : operands[id]) users[operand].push_back(id);
  }
}

}  // namespace vkfuse::partition

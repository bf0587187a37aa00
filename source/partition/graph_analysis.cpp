#include "partition/graph_analysis.hpp"

#include <algorithm>

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// Whether a result needs each node.
std::vector<bool> live_nodes(const ir::Graph& graph) {
  std::vector<bool> live(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) live[output.value] = true;
  for (NodeId id = static_cast<NodeId>(graph.size()); id-- > 0;) {
    if (!live[id]) continue;
    for (NodeId operand : graph.node(id).operands) live[operand] = true;
  }
  return live;
}

}  // namespace

bool GraphAnalysis::is_free(NodeId id) const {
  const ops::OpClass cls = graph.node(id).op->cls;
  return (cls == ops::OpClass::view || cls == ops::OpClass::generate) && !is_output[id] && !is_materialized[id];
}

bool GraphAnalysis::is_pointwise(NodeId id) const {
  const ops::OpClass cls = graph.node(id).op->cls;
  return cls == ops::OpClass::elementwise || cls == ops::OpClass::convert;
}

bool GraphAnalysis::lies_elsewhere(NodeId id, std::vector<bool>& escapes, VisitedSet& visited) const {
  if (!is_output[id] || graph.node(id).op->cls != ops::OpClass::view) return false;
  std::vector<NodeId> members = between[id];
  members.push_back(id);
  escapes[id] = true;
  const segment::Segment view = segment::build_segment(graph, std::move(members), escapes, visited);
  escapes[id] = false;
  const auto loops = segment::build_loops(graph, view, symbols);
  const auto window = loops ? segment::window_of(*loops) : std::nullopt;
  return window && (segment::is_resident(graph, window->of) || is_output[window->of]);
}

void GraphAnalysis::see_through(NodeId id, VisitedSet& listed, VisitedSet& passed) {
  listed.clear();
  passed.clear();
  const auto add_operand = [&](NodeId operand) {
    if (listed.insert(operand)) operands[id].push_back(operand);
  };
  const auto add_between = [&](NodeId view) {
    if (passed.insert(view)) between[id].push_back(view);
  };
  for (NodeId operand : graph.node(id).operands) {
    if (!is_free(operand) && !is_alias[operand]) {
      add_operand(operand);
      continue;
    }
    if (passed.contains(operand)) continue;
    add_between(operand);
    for (NodeId through : between[operand]) add_between(through);
    for (NodeId source : operands[operand]) add_operand(source);
  }
}

std::vector<NodeId> GraphAnalysis::closure_of(std::vector<NodeId> roots, const std::vector<NodeId>& members) const {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    for (NodeId operand : operands[roots[i]]) {
      if (contains(members, operand) && std::find(roots.begin(), roots.end(), operand) == roots.end())
        roots.push_back(operand);
    }
  }
  return roots;
}

GraphAnalysis::GraphAnalysis(const ir::Graph& of, SymbolValues sizes, std::vector<bool> kept)
    : graph(of),
      symbols(std::move(sizes)),
      is_materialized(std::move(kept)),
      is_output(of.size(), false),
      is_alias(of.size(), false),
      is_computed(of.size(), false),
      users(of.size()),
      operands(of.size()),
      between(of.size()) {
  for (const ir::Output& output : graph.outputs()) is_output[output.value] = true;
  // What rows are written into has to be in memory, where no other value is.
  std::vector<bool> is_base(graph.size(), false);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op->role == ops::Role::update_rows) is_base[graph.node(id).operands[0]] = true;
  }
  for (NodeId id = 0; id < graph.size(); ++id) is_materialized[id] = is_materialized[id] || is_base[id];
  // Each node copies what is between it and what is computed: of long chains of views, one now and then is stored.
  constexpr std::size_t kMostBetween = 256;
  VisitedSet listed(graph.size()), passed(graph.size()), visited(graph.size());
  std::vector<bool> escapes(graph.size(), false);
  const std::vector<bool> live = live_nodes(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    see_through(id, listed, passed);
    if (between[id].size() >= kMostBetween && graph.node(id).op->cls == ops::OpClass::view) is_materialized[id] = true;
    is_alias[id] = !is_base[id] && lies_elsewhere(id, escapes, visited);
    is_computed[id] = live[id] && !is_free(id) && !segment::is_literal(graph, id) && !segment::is_resident(graph, id);
    if (!is_computed[id]) continue;
    for (NodeId operand : operands[id]) users[operand].push_back(id);
  }
}

}  // namespace vkfuse::partition

#include "parallel/stages.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;

Result<void> note_axis(const ir::StagePayload& place, const std::vector<int>& mesh, Stages& stages) {
  if (place.mesh_axis >= static_cast<int>(mesh.size()))
    return invalid("'at_stage' names axis {} of a mesh that has {}.", place.mesh_axis, mesh.size());
  if (stages.mesh_axis >= 0 && stages.mesh_axis != place.mesh_axis) {
    return invalid("'at_stage' names axis {} of the mesh, and axis {} before; stages are along one axis.",
                   place.mesh_axis, stages.mesh_axis);
  }
  stages.mesh_axis = place.mesh_axis;
  stages.count = mesh[static_cast<std::size_t>(place.mesh_axis)];
  if (place.stage < stages.count) return {};
  return invalid("'at_stage' names stage {}, but axis {} of the mesh has {} rank{}.", place.stage, place.mesh_axis,
                 stages.count, stages.count == 1 ? "" : "s");
}

/// Ranks of other stages have other values, and no parts of the same.
Result<void> check_divisions(const ir::Graph& graph, int mesh_axis) {
  for (const ir::Node& node : graph.nodes()) {
    const auto* divided = std::get_if<ir::ShardPayload>(&node.payload);
    if (divided == nullptr) continue;
    const auto over = std::ranges::find(divided->mesh_axes, mesh_axis);
    if (over == divided->mesh_axes.end()) continue;
    return invalid("'shard' divides axis {} of {} over axis {} of the mesh, along which 'at_stage' has stages.",
                   over - divided->mesh_axes.begin(), to_text(node.type), mesh_axis);
  }
  return {};
}

void find_places(const ir::Graph& graph, Stages& stages) {
  stages.places.resize(graph.size());
  std::set<int> all;
  for (int stage = 0; stage < stages.count; ++stage) all.insert(stage);
  for (const ir::Output& output : graph.outputs()) {
    if (stages.homes[output.value] < 0) stages.places[output.value] = all;
  }
  for (NodeId id = static_cast<NodeId>(graph.size()); id-- > 0;) {
    std::set<int>& here = stages.places[id];
    if (stages.homes[id] >= 0) here = {stages.homes[id]};
    if (here.empty()) here = {0};  // nothing reads it
    for (const NodeId operand : graph.node(id).operands) {
      if (stages.homes[operand] < 0) stages.places[operand].insert(here.begin(), here.end());
    }
  }
}

}  // namespace

Result<Stages> stages_of(const ir::Graph& graph, const std::vector<int>& mesh) {
  Stages stages;
  for (const ir::Node& node : graph.nodes()) {
    int home = -1;
    for (const NodeId operand : node.operands) home = std::max(home, stages.homes[operand]);
    if (const auto* place = std::get_if<ir::StagePayload>(&node.payload)) {
      VKF_CHECK_OK(note_axis(*place, mesh, stages));
      home = place->stage;
    }
    stages.homes.push_back(home);
  }
  if (stages.mesh_axis >= 0) VKF_CHECK_OK(check_divisions(graph, stages.mesh_axis));
  find_places(graph, stages);
  return stages;
}

}  // namespace vkfuse::parallel

// The search begins with one kernel for each node. What no kernel can compute, or no driver in time, is helped by
// storing a view in front of it.
#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// One cluster for each node that is computed, without members yet.
Clusters single_clusters(const GraphAnalysis& analysis) {
  const std::size_t size = analysis.graph.size();
  Clusters clusters;
  clusters.owner.assign(size, kNoCluster);
  clusters.computing.resize(size);
  clusters.readers.resize(size);
  for (NodeId id = 0; id < size; ++id) {
    if (!analysis.is_computed[id]) continue;
    clusters.owner[id] = clusters.add();
    clusters.computing[id] = {clusters.owner[id]};
  }
  return clusters;
}

/// The last view in front of a node that chooses between values and is a kernel within the budget.
std::optional<NodeId> last_choice_before(Context& context, NodeId id) {
  const GraphAnalysis& analysis = context.analysis;
  std::optional<NodeId> last;
  for (NodeId view : analysis.between[id]) {
    const bool chooses = segment::is_choice(analysis.graph.node(view));
    if (!chooses || analysis.is_output[view] || analysis.is_materialized[view] || (last && *last > view)) continue;
    const auto kernel_cost = context.cost_model({view}, [](NodeId) { return true; });
    if (kernel_cost && kernel_cost->over_budget.empty()) last = view;
  }
  return last;
}

/// As many buffers as it is made of become one.
std::optional<NodeId> view_to_materialize(Context& context, NodeId id) {
  const GraphAnalysis& analysis = context.analysis;
  std::optional<NodeId> best;
  std::size_t fewest = analysis.operands[id].size();
  if (fewest <= 1) return last_choice_before(context, id);
  for (NodeId view : analysis.between[id]) {
    if (analysis.graph.node(view).op->cls != ops::OpClass::view || analysis.is_output[view]) continue;
    std::vector<bool> kept = analysis.is_materialized;
    kept[view] = true;
    const std::size_t left = GraphAnalysis(analysis.graph, analysis.symbols, std::move(kept)).operands[id].size();
    if (left >= fewest || !context.cost_model({view}, [](NodeId) { return true; })) continue;
    best = view;
    fewest = left;
  }
  return best ? best : last_choice_before(context, id);
}

}  // namespace

Start start_clusters(Context& context) {
  const GraphAnalysis& analysis = context.analysis;
  Start start{single_clusters(analysis), {}, {}, {}};
  for (NodeId id = 0; id < analysis.graph.size(); ++id) {
    if (!analysis.is_computed[id]) continue;
    auto kernel_cost =
        context.cost_model({id}, [&](NodeId) { return analysis.is_output[id] || !analysis.users[id].empty(); });
    if (!kernel_cost) {
      start.impossible.push_back(id);
      check(kernel_cost.error().kind == RefusalKind::stated, "a kernel of one op has one result, which somebody reads");
      if (!start.error)
        start.error = std::move(kernel_cost)
                          .error()
                          .stated.within(fmt::format("planning %{} = {}", id, analysis.graph.node(id).op->name));
      continue;
    }
    if (!kernel_cost->over_budget.empty()) start.over_budget.push_back(id);
    const ClusterId cluster = start.clusters.owner[id];
    for (NodeId value : kernel_cost->segment.reads) start.clusters.readers[value].push_back(cluster);
    start.clusters[cluster] = {{id}, *std::move(kernel_cost), 0};
  }
  return start;
}

/// Of few ops one after the other: what is stored for one may serve the next.
std::vector<NodeId> views_to_materialize(Context& context, const Start& start) {
  constexpr std::size_t kFew = 4;
  std::vector<NodeId> views;
  for (NodeId id : start.impossible) {
    const auto view = view_to_materialize(context, id);
    if (!view) return {};
    views.push_back(*view);
    if (start.impossible.size() <= kFew) return views;
  }
  sort_unique(views);
  return views;
}

std::vector<NodeId> views_over_budget(Context& context, const Start& start) {
  std::vector<NodeId> views;
  for (NodeId id : start.over_budget) {
    if (const auto view = last_choice_before(context, id)) views.push_back(*view);
  }
  sort_unique(views);
  return views;
}

}  // namespace vkfuse::partition

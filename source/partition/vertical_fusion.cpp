// Vertical fusion: a producer and a reader become one kernel, or three do where two do not pay.
#include <set>

#include "partition/fusion.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// Where two clusters do not pay as one, they may together with one that computes what the first reads: a softmax
/// before a matmul gains only if its scores need not be stored.
std::optional<Refusal> try_with_producer(Context& context, Clusters& clusters, ClusterId from, ClusterId to) {
  std::optional<Refusal> refusal = try_fusion(context, clusters, {from, to});
  if (!refusal || refusal->kind == RefusalKind::kernel_between || !context.options.has(PlannerPass::triples) ||
      context.options.policy == Policy::greedy_io)
    return refusal;
  std::set<ClusterId> producers;
  for (NodeId value : clusters[from].kernel_cost.segment.reads) {
    const ClusterId producer = clusters.owner[value];
    if (producer != kNoCluster && producer != to) producers.insert(producer);
  }
  for (ClusterId producer : producers) {
    if (!try_fusion(context, clusters, {producer, from, to})) return std::nullopt;
  }
  return refusal;
}

bool fuse_producer(Context& context, Search& search, NodeId value, ClusterId to) {
  Clusters& clusters = search.clusters;
  const ClusterId from = clusters.owner[value];
  if (from == kNoCluster || from == to) return false;
  if (context.options.policy == Policy::store_all && context.analysis.users[value].size() > 1) {
    search.reasons.fusion[value] = {{.kind = RefusalKind::several_readers}};
    return false;
  }
  // Nothing has changed since the last refusal.
  const ClusterId both[] = {from, to};
  if (clusters.are_frozen(both)) return false;
  const std::pair<int, int> versions(clusters[from].version, clusters[to].version);
  const auto refused = search.tried.fusions.find({from, to});
  if (refused != search.tried.fusions.end() && refused->second == versions) return false;
  std::optional<Refusal> refusal = try_with_producer(context, clusters, from, to);
  if (!refusal) {
    search.reasons.fusion.erase(value);
    return true;
  }
  // A kernel between the two may go without either of them changing.
  if (refusal->kind != RefusalKind::kernel_between) search.tried.fusions[{from, to}] = versions;
  search.reasons.fusion[value] = {*std::move(refusal)};
  return false;
}

}  // namespace

/// Again and again: a fusion refused because another kernel is between may be possible once that one is fused as well.
bool fuse_vertically(Context& context, Search& search) {
  constexpr int kMostSweeps = 8;
  const std::vector<std::vector<ClusterId>>& computing = search.clusters.computing;
  bool any = false;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool changed = false;
    for (NodeId id = 0; id < context.analysis.graph.size(); ++id) {
      for (std::size_t i = 0; i < computing[id].size(); ++i) {
        for (NodeId operand : context.analysis.operands[id]) {
          if (i >= computing[id].size()) break;
          const ClusterId to = computing[id][i];
          if (!contains(search.clusters[to].members, operand))
            changed = fuse_producer(context, search, operand, to) || changed;
        }
      }
    }
    any = any || changed;
    if (!changed) return any;
  }
  return any;
}

}  // namespace vkfuse::partition

// Sibling (multi-output) fusion: kernels that read the same value become one.
#include <algorithm>

#include "partition/fusion.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// Clusters that compute what is made of a value. An alias reads nothing.
std::vector<ClusterId> users_of(Context& context, const Clusters& clusters, NodeId value) {
  std::vector<ClusterId> users;
  VisitedSet& visited = context.scratch.visited;
  visited.resize(clusters.size());
  visited.clear();
  for (NodeId user : context.analysis.users[value]) {
    if (context.analysis.is_alias[user]) continue;
    for (ClusterId cluster : clusters.computing[user]) {
      if (visited.insert(cluster)) users.push_back(cluster);
    }
  }
  return users;
}

/// The first with each of the others.
bool fuse_pairs(Context& context, Clusters& clusters, std::vector<ClusterId>& siblings) {
  constexpr std::size_t kMostRefused = 256;  // in a row: of very many readers, the rest are refused as well
  bool changed = false;
  for (std::size_t i = 1, refused = 0; i < siblings.size() && refused < kMostRefused; ++i, ++refused) {
    const ClusterId a = std::min(siblings[0], siblings[i]);
    const ClusterId b = std::max(siblings[0], siblings[i]);
    if (clusters[a].members.empty() || clusters[b].members.empty()) continue;
    if (try_fusion(context, clusters, {a, b})) continue;
    changed = true;
    refused = 0;
    siblings[0] = a;
    siblings[i] = b;  // which is empty now
  }
  return changed;
}

}  // namespace

bool fuse_siblings(Context& context, Search& search) {
  constexpr std::size_t kMostTogether = 6;
  Clusters& clusters = search.clusters;
  bool changed = false;
  for (NodeId id = 0; id < context.analysis.graph.size(); ++id) {
    if (segment::is_literal(context.analysis.graph, id)) continue;
    std::vector<ClusterId> siblings = users_of(context, clusters, id);
    changed = fuse_pairs(context, clusters, siblings) || changed;
    // Two may not pay where all of them do.
    std::erase_if(siblings, [&](ClusterId cluster) { return clusters[cluster].members.empty(); });
    if (siblings.size() > 2 && siblings.size() <= kMostTogether)
      changed = !try_fusion(context, clusters, siblings) || changed;
  }
  return changed;
}

}  // namespace vkfuse::partition

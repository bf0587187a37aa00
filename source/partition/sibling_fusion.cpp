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

/// Two of them, unless that was refused and neither has changed.
bool fuse_two(Context& context, Search& search, ClusterId a, ClusterId b) {
  Clusters& clusters = search.clusters;
  if (clusters[a].members.empty() || clusters[b].members.empty()) return false;
  const std::pair<int, int> versions(clusters[a].version, clusters[b].version);
  const auto refused = search.tried.siblings.find({a, b});
  if (refused != search.tried.siblings.end() && refused->second == versions) return false;
  const auto refusal = try_fusion(context, clusters, {a, b});
  if (!refusal) return true;
  // A kernel between the two may go without either of them changing.
  if (refusal->kind != RefusalKind::kernel_between) search.tried.siblings[{a, b}] = versions;
  return false;
}

/// One of them, by its place, with each of those after it.
bool fuse_with_others(Context& context, Search& search, std::vector<ClusterId>& siblings, std::size_t one) {
  constexpr std::size_t kMostRefused = 256;  // in a row: of very many readers, the rest are refused as well
  bool changed = false;
  for (std::size_t i = one + 1, refused = 0; i < siblings.size() && refused < kMostRefused; ++i, ++refused) {
    const ClusterId a = std::min(siblings[one], siblings[i]);
    const ClusterId b = std::max(siblings[one], siblings[i]);
    if (!fuse_two(context, search, a, b)) continue;
    changed = true;
    refused = 0;
    siblings[one] = a;
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
    // Of few readers any two: the gradients of keys and of values both read the queries, as the forward pass does.
    const std::size_t first = siblings.size() <= kMostTogether ? siblings.size() : 1;
    for (std::size_t one = 0; one < first; ++one) changed = fuse_with_others(context, search, siblings, one) || changed;
    // Two may not pay where all of them do.
    std::erase_if(siblings, [&](ClusterId cluster) { return clusters[cluster].members.empty(); });
    if (siblings.size() > 2 && siblings.size() <= kMostTogether)
      changed = !try_fusion(context, clusters, siblings) || changed;
  }
  return changed;
}

}  // namespace vkfuse::partition

// Local search: neighbouring kernels of few ops are divided anew, in the best of all ways: what no fusion and no move
// of one part comes to, because it would get worse first.
#include <algorithm>

#include "partition/optimal_partition.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// Clusters by the positions they run over, as far as their launches cost much of their time.
using HorizontalCandidates = std::map<std::int64_t, std::vector<ClusterId>>;

HorizontalCandidates horizontal_candidates_of(const Context& context, const Clusters& clusters) {
  constexpr std::size_t kMostListed = 4;  // of as many positions
  HorizontalCandidates all;
  for (ClusterId cluster = 0; cluster < clusters.size(); ++cluster) {
    if (!is_launch_bound(context.target, clusters[cluster])) continue;
    std::vector<ClusterId>& listed = all[positions_of(context.analysis, clusters[cluster])];
    if (listed.size() < kMostListed) listed.push_back(cluster);
  }
  return all;
}

/// A cluster and neighbours of it, of their neighbours and so on, `second` first, as long as they have few nodes
/// together; then those that might share a launch with one of them.
std::vector<ClusterId> window_around(const Clusters& clusters, ClusterId first, ClusterId second,
                                     const HorizontalCandidates& horizontal_candidates) {
  constexpr std::size_t kMostNodes = 7;
  std::vector<ClusterId> window;
  std::vector<NodeId> nodes;
  const auto add = [&](ClusterId cluster) {
    if (is_among(window, cluster) || clusters[cluster].members.empty()) return;
    std::vector<NodeId> both = nodes;
    both.insert(both.end(), clusters[cluster].members.begin(), clusters[cluster].members.end());
    sort_unique(both);
    if (both.size() > kMostNodes) return;
    window.push_back(cluster);
    nodes = std::move(both);
  };
  add(first);
  if (second == first) return window;
  add(second);
  for (std::size_t i = 0; i < window.size(); ++i) {
    for (ClusterId next : clusters.neighbours_of(window[i])) add(next);
  }
  const auto is_in_window = [&](ClusterId cluster) { return is_among(window, cluster); };
  for (const auto& [positions, candidates] : horizontal_candidates) {
    if (std::none_of(candidates.begin(), candidates.end(), is_in_window)) continue;
    for (ClusterId cluster : candidates) add(cluster);
  }
  std::sort(window.begin(), window.end());
  return window;
}

bool repartition_window(Context& context, Search& search, const std::vector<ClusterId>& window) {
  constexpr double kNoMore = 0.999, kMore = 0.87;  // of the time there is, for as many bytes, and for more
  const Clusters& clusters = search.clusters;
  std::vector<NodeId> nodes;
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (ClusterId cluster : window) {
    nodes.insert(nodes.end(), clusters[cluster].members.begin(), clusters[cluster].members.end());
    microseconds += clusters[cluster].kernel_cost.microseconds;
    bytes += clusters[cluster].kernel_cost.bytes;
  }
  sort_unique(nodes);
  const auto is_in_window = [&](ClusterId cluster) { return is_among(window, cluster); };
  for (NodeId id : nodes) {
    if (!std::all_of(clusters.computing[id].begin(), clusters.computing[id].end(), is_in_window)) return false;
  }
  const int known = context.cost_model.costed();
  OptimalPartition best = optimal_partition(context, nodes, microseconds * kNoMore);
  search.tried.windows_costed += context.cost_model.costed() - known;
  if (best.kernels.empty() || (best.bytes > bytes && best.microseconds > microseconds * kMore)) return false;
  return repartition(context, search.clusters, window, std::move(best.kernels));
}

/// Whether a window is neither frozen nor looked at already as it is; it is from now on.
bool is_new(Search& search, const std::vector<ClusterId>& window) {
  std::vector<int> versions;
  for (ClusterId cluster : window) versions.push_back(search.clusters[cluster].version);
  return !window.empty() && !search.clusters.are_frozen(window) &&
         search.tried.windows.insert({window, std::move(versions)}).second;
}

}  // namespace

bool search_locally(Context& context, Search& search) {
  constexpr int kMostCosted = 300;
  constexpr std::size_t kMostWindows = 20'000;  // also where costs are known
  const Clusters& clusters = search.clusters;
  const HorizontalCandidates horizontal_candidates = horizontal_candidates_of(context, clusters);
  bool changed = false;
  for (ClusterId cluster = 0; cluster < clusters.size(); ++cluster) {
    if (clusters[cluster].members.empty()) continue;
    std::vector<ClusterId> others = clusters.neighbours_of(cluster);
    others.push_back(cluster);  // and by itself
    for (ClusterId other : others) {
      if (search.tried.windows_costed > kMostCosted || search.tried.windows.size() > kMostWindows) return changed;
      if (clusters[cluster].members.empty()) break;
      if (clusters[other].members.empty()) continue;
      const std::vector<ClusterId> window = window_around(clusters, cluster, other, horizontal_candidates);
      if (is_new(search, window)) changed = repartition_window(context, search, window) || changed;
    }
  }
  return changed;
}

}  // namespace vkfuse::partition

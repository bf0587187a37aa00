// Neighbouring kernels of few ops are divided anew, in the best of all ways: what no merge and no move of one part
// comes to, because it would get worse first.
#include <algorithm>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

/// Groups by the positions they run over, as far as their launches cost much of their time.
Search::HorizontalCandidates Search::launch_bound() const {
  constexpr std::size_t kMostListed = 4;  // of as many positions
  const double launch = schedule::costs_of(target_).launch_us;
  HorizontalCandidates all;
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) {
    if (clusters_[cluster].members.empty() || clusters_[cluster].kernel_cost.microseconds == 0 ||
        clusters_[cluster].kernel_cost.microseconds * kLaunchBound > launch)
      continue;
    std::vector<ClusterId>& listed = all[positions_of(clusters_[cluster])];
    if (listed.size() < kMostListed) listed.push_back(cluster);
  }
  return all;
}

/// A group and neighbours of it, of their neighbours and so on, `second` first, as long as they have few nodes
/// together; then those that might share a launch with one of them.
std::vector<ClusterId> Search::window_around(ClusterId first, ClusterId second,
                                             const HorizontalCandidates& horizontal_candidates) const {
  constexpr std::size_t kMostNodes = 7;
  std::vector<ClusterId> window;
  std::vector<NodeId> nodes;
  const auto add = [&](ClusterId cluster) {
    if (is_among(window, cluster) || clusters_[cluster].members.empty()) return;
    std::vector<NodeId> both = nodes;
    both.insert(both.end(), clusters_[cluster].members.begin(), clusters_[cluster].members.end());
    sort_unique(both);
    if (both.size() > kMostNodes) return;
    window.push_back(cluster);
    nodes = std::move(both);
  };
  add(first);
  if (second == first) return window;
  add(second);
  for (std::size_t i = 0; i < window.size(); ++i) {
    for (ClusterId next : neighbours_of(clusters_[window[i]], window[i])) add(next);
  }
  for (const auto& [positions, clusters] : horizontal_candidates) {
    if (std::none_of(clusters.begin(), clusters.end(), [&](ClusterId cluster) { return is_among(window, cluster); }))
      continue;
    for (ClusterId cluster : clusters) add(cluster);
  }
  std::sort(window.begin(), window.end());
  return window;
}

bool Search::repartition_window(const std::vector<ClusterId>& window) {
  constexpr double kNoMore = 0.999, kMore = 0.87;  // of the time there is, for as many bytes, and for more
  std::vector<NodeId> nodes;
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (ClusterId cluster : window) {
    nodes.insert(nodes.end(), clusters_[cluster].members.begin(), clusters_[cluster].members.end());
    microseconds += clusters_[cluster].kernel_cost.microseconds;
    bytes += clusters_[cluster].kernel_cost.bytes;
  }
  sort_unique(nodes);
  for (NodeId id : nodes) {
    if (!std::all_of(computing_[id].begin(), computing_[id].end(),
                     [&](ClusterId cluster) { return is_among(window, cluster); }))
      return false;
  }
  const int known = cost_model_.costed();
  Repartitioned best = best_of_all(nodes, microseconds * kNoMore);
  windows_costed_ += cost_model_.costed() - known;
  if (best.kernels.empty() || (best.bytes > bytes && best.microseconds > microseconds * kMore)) return false;
  return repartition(window, std::move(best.kernels));
}

bool Search::search_locally() {
  constexpr int kMostCosted = 300;              // so that large graphs are not searched for long
  constexpr std::size_t kMostWindows = 20'000;  // also where prices are known
  const HorizontalCandidates horizontal_candidates = launch_bound();
  bool changed = false;
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) {
    if (clusters_[cluster].members.empty()) continue;
    std::vector<ClusterId> others = neighbours_of(clusters_[cluster], cluster);
    others.push_back(cluster);  // and by itself
    for (ClusterId other : others) {
      if (windows_costed_ > kMostCosted || windows_tried_.size() > kMostWindows) return changed;
      if (clusters_[cluster].members.empty()) break;
      if (clusters_[other].members.empty()) continue;
      const std::vector<ClusterId> window = window_around(cluster, other, horizontal_candidates);
      std::vector<int> versions;
      for (ClusterId one : window) versions.push_back(clusters_[one].version);
      if (window.empty() || are_frozen(window) || !windows_tried_.insert({window, versions}).second) continue;
      changed = repartition_window(window) || changed;
    }
  }
  return changed;
}

}  // namespace vkfuse::partition

// Neighbouring kernels of few ops are divided anew, in the best of all ways: what no merge and no move of one part
// comes to, because it would get worse first.
#include <algorithm>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

/// Groups by the positions they run over, as far as their launches cost much of their time.
Search::Unrelated Search::launch_bound() const {
  constexpr std::size_t kMostListed = 4;  // of as many positions
  const double launch = schedule::costs_of(target_).launch_us;
  Unrelated all;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    if (groups_[group].members.empty() || groups_[group].price.microseconds == 0 ||
        groups_[group].price.microseconds * kLaunchBound > launch)
      continue;
    std::vector<GroupId>& listed = all[positions_of(groups_[group])];
    if (listed.size() < kMostListed) listed.push_back(group);
  }
  return all;
}

/// A group and neighbours of it, of their neighbours and so on, `second` first, as long as they have few nodes
/// together; then those that might share a launch with one of them.
std::vector<GroupId> Search::window_around(GroupId first, GroupId second, const Unrelated& unrelated) const {
  constexpr std::size_t kMostNodes = 7;
  std::vector<GroupId> window;
  std::vector<NodeId> nodes;
  const auto add = [&](GroupId group) {
    if (is_among(window, group) || groups_[group].members.empty()) return;
    std::vector<NodeId> both = nodes;
    both.insert(both.end(), groups_[group].members.begin(), groups_[group].members.end());
    sort_unique(both);
    if (both.size() > kMostNodes) return;
    window.push_back(group);
    nodes = std::move(both);
  };
  add(first);
  if (second == first) return window;
  add(second);
  for (std::size_t i = 0; i < window.size(); ++i) {
    for (GroupId next : neighbours_of(groups_[window[i]], window[i])) add(next);
  }
  for (const auto& [positions, groups] : unrelated) {
    if (std::none_of(groups.begin(), groups.end(), [&](GroupId group) { return is_among(window, group); })) continue;
    for (GroupId group : groups) add(group);
  }
  std::sort(window.begin(), window.end());
  return window;
}

bool Search::redivide_window(const std::vector<GroupId>& window) {
  constexpr double kNoMore = 0.999, kMore = 0.87;  // of the time there is, for as many bytes, and for more
  std::vector<NodeId> nodes;
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (GroupId group : window) {
    nodes.insert(nodes.end(), groups_[group].members.begin(), groups_[group].members.end());
    microseconds += groups_[group].price.microseconds;
    bytes += groups_[group].price.bytes;
  }
  sort_unique(nodes);
  for (NodeId id : nodes) {
    if (!std::all_of(computing_[id].begin(), computing_[id].end(),
                     [&](GroupId group) { return is_among(window, group); }))
      return false;
  }
  const int known = pricer_.priced();
  Redivided best = best_of_all(nodes, microseconds * kNoMore);
  windows_priced_ += pricer_.priced() - known;
  if (best.kernels.empty() || (best.bytes > bytes && best.microseconds > microseconds * kMore)) return false;
  return redivide(window, std::move(best.kernels));
}

bool Search::redivide_windows() {
  constexpr int kMostPriced = 300;              // so that large graphs are not searched for long
  constexpr std::size_t kMostWindows = 20'000;  // also where prices are known
  const Unrelated unrelated = launch_bound();
  bool changed = false;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    if (groups_[group].members.empty()) continue;
    std::vector<GroupId> others = neighbours_of(groups_[group], group);
    others.push_back(group);  // and by itself
    for (GroupId other : others) {
      if (windows_priced_ > kMostPriced || windows_tried_.size() > kMostWindows) return changed;
      if (groups_[group].members.empty()) break;
      if (groups_[other].members.empty()) continue;
      const std::vector<GroupId> window = window_around(group, other, unrelated);
      std::vector<int> versions;
      for (GroupId one : window) versions.push_back(groups_[one].version);
      if (window.empty() || are_settled(window) || !windows_tried_.insert({window, versions}).second) continue;
      changed = redivide_window(window) || changed;
    }
  }
  return changed;
}

}  // namespace vkfuse::partition

// Parts of kernels go elsewhere, and values are computed where they are read.
#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

/// Groups that store what this one reads, read what it stores, or read the same.
std::vector<ClusterId> Search::neighbours_of(const Cluster& cluster, ClusterId own) const {
  constexpr std::size_t kMost = 8;
  std::vector<ClusterId> all;
  const auto add = [&](ClusterId other) {
    if (other != kNoCluster && other != own && all.size() < kMost && !is_among(all, other)) all.push_back(other);
  };
  for (NodeId id : cluster.kernel_cost.segment.reads) add(owner_[id]);
  const auto add_readers = [&](const std::vector<NodeId>& values) {
    for (NodeId id : values) {
      for (ClusterId reader : readers_[id]) {
        if (all.size() == kMost) return;  // a value may have very many
        add(reader);
      }
    }
  };
  add_readers(cluster.kernel_cost.segment.stores);
  add_readers(cluster.kernel_cost.segment.reads);
  return all;
}

/// For each member, what of the group is computed from it, the same with what is computed for that alone, and what it
/// is computed from; itself included.
std::vector<std::vector<NodeId>> Search::parts_of(const Cluster& cluster) const {
  constexpr std::size_t kMost = 24;  // members of a group that is taken apart
  std::set<std::vector<NodeId>> parts;
  if (cluster.members.size() > kMost) return {};
  for (NodeId root : cluster.members) {
    std::vector<NodeId> above{root};
    for (NodeId id : cluster.members) {
      const auto& operands = analysis_.operands[id];
      if (id > root &&
          std::any_of(operands.begin(), operands.end(), [&](NodeId operand) { return contains(above, operand); }))
        above.push_back(id);
    }
    std::vector<NodeId> below = closure_of({root}, cluster.members);
    sort_unique(below);
    std::vector<NodeId> whole = above;
    for (auto id = cluster.members.rbegin(); id != cluster.members.rend(); ++id) {
      const auto& users = analysis_.users[*id];
      const auto inside = [&](NodeId user) { return contains(whole, user); };
      if (contains(whole, *id) || contains(below, *id) || contains(cluster.kernel_cost.segment.stores, *id) ||
          !std::all_of(users.begin(), users.end(), inside))
        continue;
      whole.insert(std::upper_bound(whole.begin(), whole.end(), *id), *id);
    }
    parts.insert(std::move(whole));
    if (above.size() < cluster.members.size()) parts.insert(std::move(above));
    if (below.size() < cluster.members.size()) parts.insert(std::move(below));
    parts.insert({root});
  }
  parts.erase(cluster.members);
  return {parts.begin(), parts.end()};
}

bool Search::try_move(ClusterId from, ClusterId to, const std::vector<NodeId>& part) {
  std::vector<NodeId> left;
  std::set_difference(clusters_[from].members.begin(), clusters_[from].members.end(), part.begin(), part.end(),
                      std::back_inserter(left));
  std::vector<NodeId> larger = clusters_[to].members;
  larger.insert(larger.end(), part.begin(), part.end());
  Change change = begun({from, to}, {std::move(left), std::move(larger)});
  // Most change nothing for the better, which is seen without loops and schedules.
  std::int64_t after = 0;
  static_cast<void>(each_made(change, [&](Cluster& cluster, const auto& stored) -> Result<void> {
    after += cost_model_.estimate(cluster.members, stored);
    return {};
  }));
  ++moves_estimated_;
  const std::int64_t before = clusters_[from].kernel_cost.bytes + clusters_[to].kernel_cost.bytes;
  const bool splits = clusters_[to].members.empty();
  if (!splits && after > before) return false;
  const int known = cost_model_.costed();
  auto outcome = costed({from, to}, {std::move(change.made[0].members), std::move(change.made[1].members)});
  moves_costed_ += cost_model_.costed() - known;
  if (!outcome.ok() || outcome->bytes > before) return false;
  const bool faster = outcome->microseconds < outcome->microseconds_before * 0.999;
  const bool less = outcome->bytes < before && outcome->microseconds <= outcome->microseconds_before * 1.001;
  if (!(faster || less) || !is_acyclic(*outcome)) return false;
  apply(*std::move(outcome));
  return true;
}

/// Whether a kernel reads, stores or computes what the part reads, or reads what the part computes.
bool Search::shares(const std::vector<NodeId>& part, ClusterId to) const {
  const segment::Segment& segment = clusters_[to].kernel_cost.segment;
  const auto known = [&](NodeId id) {
    return contains(clusters_[to].members, id) ||
           std::find(segment.reads.begin(), segment.reads.end(), id) != segment.reads.end();
  };
  return std::any_of(part.begin(), part.end(), [&](NodeId id) {
    const auto& operands = analysis_.operands[id];
    return known(id) || std::any_of(operands.begin(), operands.end(), known);
  });
}

bool Search::move_parts_of(ClusterId from) {
  const std::vector<ClusterId> neighbours = neighbours_of(clusters_[from], from);
  // Nothing has changed since the last time.
  int newest = clusters_[from].version;
  for (ClusterId cluster : neighbours) newest = std::max(newest, clusters_[cluster].version);
  const auto known = moves_tried_.find(from);
  if (known != moves_tried_.end() && known->second >= newest) return false;
  if (clusters_[from].frozen && are_frozen(neighbours)) return false;
  for (const std::vector<NodeId>& part : parts_of(clusters_[from])) {
    for (ClusterId to : neighbours) {
      if (shares(part, to) && try_move(from, to, part)) return true;
    }
    // A kernel that takes longer than its bytes do may be two.
    const double launch = schedule::costs_of(target_).launch_us;
    const double copied =
        static_cast<double>(clusters_[from].kernel_cost.bytes) / (schedule::costs_of(target_).copy_gb_per_s * 1e3);
    if (clusters_[from].kernel_cost.microseconds < 2 * launch + copied) continue;
    clusters_.emplace_back();
    if (try_move(from, static_cast<ClusterId>(clusters_.size() - 1), part)) return true;
    clusters_.pop_back();
  }
  moves_tried_[from] = newest;
  return false;
}

bool Search::move_parts() {
  // So that large graphs are not searched for long.
  constexpr int kMostCosted = 300;
  constexpr int kMostEstimated = 2500;
  const auto enough = [&] { return moves_costed_ > kMostCosted || moves_estimated_ > kMostEstimated; };
  bool changed = false;
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) {
    if (clusters_[cluster].members.size() < 2) continue;
    for (int moves = 0; moves < 8 && clusters_[cluster].members.size() > 1 && !enough() && move_parts_of(cluster);
         ++moves)
      changed = true;
  }
  return changed;
}

/// What of a group has to be computed again for one of its members: up to what it stores anyway.
Result<std::vector<NodeId>> Search::backward_slice_of(NodeId value, const Cluster& cluster) const {
  std::vector<NodeId> backward_slice{value};
  for (std::size_t i = 0; i < backward_slice.size(); ++i) {
    if (!analysis_.is_pointwise(backward_slice[i]))
      return unsupported("It is a result of '{}', which is never computed twice.",
                         analysis_.graph.node(backward_slice[i]).op->name);
    for (NodeId operand : analysis_.operands[backward_slice[i]]) {
      const bool computed =
          contains(cluster.members, operand) && !contains(cluster.kernel_cost.segment.stores, operand);
      if (computed && std::find(backward_slice.begin(), backward_slice.end(), operand) == backward_slice.end())
        backward_slice.push_back(operand);
    }
  }
  return backward_slice;
}

/// The members that the roots are computed from, themselves included.
std::vector<NodeId> Search::closure_of(std::vector<NodeId> roots, const std::vector<NodeId>& members) const {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    for (NodeId operand : analysis_.operands[roots[i]]) {
      if (contains(members, operand) && std::find(roots.begin(), roots.end(), operand) == roots.end())
        roots.push_back(operand);
    }
  }
  return roots;
}

Result<void> Search::try_rematerialization(NodeId value, bool always) {
  std::vector<ClusterId> clusters{owner_[value]};
  clusters.insert(clusters.end(), readers_[value].begin(), readers_[value].end());
  const Cluster& producer = clusters_[clusters[0]];
  std::vector<NodeId> kept = producer.kernel_cost.segment.stores;
  std::erase(kept, value);
  std::vector<NodeId> left = closure_of(std::move(kept), producer.members);
  std::vector<NodeId> moved{value};
  auto backward_slice = backward_slice_of(value, producer);
  if (backward_slice) {
    moved = *std::move(backward_slice);
  } else {
    // What only one other kernel needs may move there, with what is computed for it alone.
    sort_unique(left);
    if (clusters.size() > 2 || contains(left, value)) return std::move(backward_slice).error();
    moved.clear();
    std::set_difference(producer.members.begin(), producer.members.end(), left.begin(), left.end(),
                        std::back_inserter(moved));
  }
  std::vector<std::vector<NodeId>> members{left};
  for (std::size_t i = 1; i < clusters.size(); ++i) {
    members.push_back(clusters_[clusters[i]].members);
    members.back().insert(members.back().end(), moved.begin(), moved.end());
  }
  const std::size_t readers = clusters.size() - 1;
  VKF_TRY(change, costed(std::move(clusters), std::move(members)));
  if (!always && change.bytes >= change.bytes_before) {
    return unsupported("Computing it again in {} kernel{} would move {} bytes instead of {}.", readers,
                       readers == 1 ? "" : "s", change.bytes, change.bytes_before);
  }
  if (!always && change.microseconds > change.microseconds_before * slack(change.bytes, change.bytes_before)) {
    return unsupported("Computing it again in {} kernel{} is modelled at {:.1f} us instead of {:.1f} us.", readers,
                       readers == 1 ? "" : "s", change.microseconds, change.microseconds_before);
  }
  apply(std::move(change));
  return {};
}

bool Search::rematerialize_values(bool always) {
  bool changed = false;
  for (NodeId id = static_cast<NodeId>(analysis_.graph.size()); id-- > 0;) {
    const ClusterId from = owner_[id];
    if (from == kNoCluster || analysis_.is_output[id] || readers_[id].empty() ||
        !contains(clusters_[from].kernel_cost.segment.stores, id))
      continue;
    if (clusters_[from].frozen && are_frozen(readers_[id])) continue;
    std::vector<int> versions{clusters_[from].version};
    for (ClusterId reader : readers_[id]) versions.push_back(clusters_[reader].version);
    std::vector<int>& refused = refused_rematerialization_[id];
    if (refused == versions) continue;
    const Result<void> outcome = try_rematerialization(id, always);
    if (outcome.ok()) {
      changed = true;
      rematerialization_reasons_.erase(id);
    } else {
      refused = std::move(versions);
      rematerialization_reasons_[id] = outcome.error().message;
    }
  }
  return changed;
}

}  // namespace vkfuse::partition

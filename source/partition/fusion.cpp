// Two kernels, or three, become one: a producer and who reads it, readers of one value, kernels of one size.
#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

/// Whether a path leads from one of the groups to another through a third: merging them would then make a kernel
/// that waits for itself.
bool Search::connected_outside(std::span<const ClusterId> clusters) {
  if (has_no_way_in(clusters)) return false;
  NodeId last = 0;
  for (ClusterId cluster : clusters) last = std::max(last, clusters_[cluster].members.back());
  const bool ends = !leads_back_below(last);
  std::vector<ClusterId> stack;
  seen_.resize(clusters_.size(), 0);
  const int walk = ++walks_;
  bool back = false;
  const auto push_readers = [&](ClusterId cluster) {
    for (NodeId id : clusters_[cluster].kernel_cost.segment.stores) {
      if (ends && id >= last) break;
      for (ClusterId next : readers_[id]) {
        if (next == cluster) continue;
        if (is_among(clusters, next)) {
          back = back || !is_among(clusters, cluster);
        } else if (seen_[next] != walk) {
          seen_[next] = walk;
          stack.push_back(next);
        }
      }
    }
  };
  for (ClusterId cluster : clusters) push_readers(cluster);
  while (!stack.empty() && !back) {
    const ClusterId cluster = stack.back();
    stack.pop_back();
    push_readers(cluster);
  }
  return back;
}

/// Whether it is seen at once that no path leads through a third group: none of the groups reads what a third one
/// stores, or one alone does that all others read from, so that such a path would be a circle.
bool Search::has_no_way_in(std::span<const ClusterId> clusters) const {
  std::optional<ClusterId> entrance;
  for (ClusterId cluster : clusters) {
    const std::vector<NodeId>& reads = clusters_[cluster].kernel_cost.segment.reads;
    const auto is_third = [&](NodeId id) { return analysis_.is_computed[id] && !is_among(clusters, owner_[id]); };
    if (std::none_of(reads.begin(), reads.end(), is_third)) continue;
    if (entrance) return false;
    entrance = cluster;
  }
  const auto reads_from_entrance = [&](ClusterId cluster) {
    const std::vector<NodeId>& reads = clusters_[cluster].kernel_cost.segment.reads;
    return cluster == *entrance ||
           std::any_of(reads.begin(), reads.end(), [&](NodeId id) { return owner_[id] == *entrance; });
  };
  return !entrance || std::all_of(clusters.begin(), clusters.end(), reads_from_entrance);
}

/// What a kernel may take longer by the model: times are modelled to some tenth, from constants of the device's type
/// more roughly than from measured ones; bytes are known. That a value need not exist is worth it.
double Search::slack(std::int64_t bytes, std::int64_t before) const {
  constexpr double kRounding = 1.001, kMeasured = 1.05, kTenth = 1.15;
  if (target_.costs) return bytes * 2 <= before ? kMeasured : kRounding;
  return bytes < before ? kTenth : kRounding;
}

/// Merges the groups into the first if that is possible and pays; otherwise says why not.
Result<void> Search::try_fusion(std::vector<ClusterId> clusters) {
  outside_ = false;
  if (are_frozen(clusters)) return unsupported("They were looked at in another form of the graph.");
  outside_ = connected_outside(clusters);
  if (outside_) return unsupported("Another kernel must run between the two.");
  const std::size_t count = clusters.size();
  std::vector<std::vector<NodeId>> members(count);
  for (ClusterId cluster : clusters)
    members[0].insert(members[0].end(), clusters_[cluster].members.begin(), clusters_[cluster].members.end());
  VKF_TRY(change, costed(std::move(clusters), std::move(members)));
  if (change.bytes > change.bytes_before)
    return unsupported("One kernel would move {} bytes instead of {}.", change.bytes, change.bytes_before);
  const bool slow = change.microseconds > change.microseconds_before * slack(change.bytes, change.bytes_before);
  if (slow && options_.policy != Policy::greedy_io) {
    return unsupported("One kernel is modelled at {:.1f} us and the {} at {:.1f} us.", change.microseconds,
                       count == 2 ? "two" : "three", change.microseconds_before);
  }
  apply(std::move(change));
  return {};
}

/// Where two groups do not pay as one, they may together with one that computes what the first reads: a softmax
/// before a product gains only if its scores need not be stored.
Result<void> Search::try_with_producer(ClusterId from, ClusterId to) {
  Result<void> outcome = try_fusion({from, to});
  if (outcome.ok() || outside_ || !options_.has(PlannerPass::triples) || options_.policy == Policy::greedy_io)
    return outcome;
  std::set<ClusterId> producers;
  for (NodeId value : clusters_[from].kernel_cost.segment.reads) {
    if (owner_[value] != kNoCluster && owner_[value] != to) producers.insert(owner_[value]);
  }
  for (ClusterId producer : producers) {
    if (try_fusion({producer, from, to}).ok()) {
      outside_ = false;
      return {};
    }
  }
  outside_ = false;
  return outcome;
}

bool Search::fuse_producer(NodeId value, ClusterId to) {
  const ClusterId from = owner_[value];
  if (from == kNoCluster || from == to) return false;
  if (options_.policy == Policy::store_all && analysis_.users[value].size() > 1) {
    reasons_[value] = "Several ops read it.";
    return false;
  }
  // Nothing has changed since the last refusal.
  const ClusterId both[] = {from, to};
  if (are_frozen(both)) return false;
  const auto refused = refused_.find({from, to});
  if (refused != refused_.end() && refused->second == std::pair(clusters_[from].version, clusters_[to].version))
    return false;
  const Result<void> outcome = try_with_producer(from, to);
  if (outcome.ok()) {
    reasons_.erase(value);
    return true;
  }
  if (!outside_) refused_[{from, to}] = {clusters_[from].version, clusters_[to].version};
  reasons_[value] = outcome.error().message;
  return false;
}

/// Again and again: a merge refused because a third kernel stands between may be possible once that one is merged as
/// well.
bool Search::fuse_vertically() {
  constexpr int kMostIterations = 8;
  bool any = false;
  for (int round = 0; round < kMostIterations; ++round) {
    bool changed = false;
    for (NodeId id = 0; id < analysis_.graph.size(); ++id) {
      for (std::size_t i = 0; i < computing_[id].size(); ++i) {
        for (NodeId operand : analysis_.operands[id]) {
          if (i >= computing_[id].size()) break;
          const ClusterId to = computing_[id][i];
          if (!contains(clusters_[to].members, operand)) changed = fuse_producer(operand, to) || changed;
        }
      }
    }
    any = any || changed;
    if (!changed) return any;
  }
  return any;
}

/// Kernels that read the same value read it once when they are one.
bool Search::fuse_siblings() {
  constexpr std::size_t kMostTogether = 6;
  constexpr std::size_t kMostRefused = 256;  // in a row: of very many readers, the rest are refused as well
  bool changed = false;
  for (NodeId id = 0; id < analysis_.graph.size(); ++id) {
    if (segment::is_literal(analysis_.graph, id)) continue;
    std::vector<ClusterId> kernels;  // an alias reads nothing
    changed_.resize(clusters_.size());
    changed_.clear();
    for (NodeId user : analysis_.users[id]) {
      if (analysis_.is_alias[user]) continue;
      for (ClusterId cluster : computing_[user]) {
        if (changed_.insert(cluster)) kernels.push_back(cluster);
      }
    }
    for (std::size_t i = 1, refused = 0; i < kernels.size() && refused < kMostRefused; ++i, ++refused) {
      const ClusterId a = std::min(kernels[0], kernels[i]);
      const ClusterId b = std::max(kernels[0], kernels[i]);
      if (clusters_[a].members.empty() || clusters_[b].members.empty()) continue;
      if (!try_fusion({a, b}).ok()) continue;
      changed = true;
      refused = 0;
      kernels[0] = a;
      kernels[i] = b;  // which is empty now
    }
    // Two may not pay where all of them do.
    std::erase_if(kernels, [&](ClusterId cluster) { return clusters_[cluster].members.empty(); });
    if (kernels.size() > 2 && kernels.size() <= kMostTogether) changed = try_fusion(kernels).ok() || changed;
  }
  return changed;
}

/// Positions that the loops of a group run over: those of its largest member or of what that folds.
std::int64_t Search::positions_of(const Cluster& cluster) const {
  std::int64_t most = 0;
  const auto count = [&](NodeId id) {
    const auto sizes = resolve(analysis_.graph.node(id).type.shape, analysis_.symbols);
    const auto elements = sizes ? element_count(*sizes) : Result<std::int64_t>(0);
    return elements ? *elements : 0;
  };
  for (NodeId id : cluster.members) {
    const ir::Node& node = analysis_.graph.node(id);
    most = std::max(most, count(id));
    if (node.op->cls == ops::OpClass::reduce || node.op->cls == ops::OpClass::scan)
      most = std::max(most, count(node.operands[0]));
    if (node.op->cls != ops::OpClass::contraction) continue;
    std::int64_t contracted = 1;
    for (int axis : std::get<ir::DotPayload>(node.payload).contract_a) {
      const auto sizes = resolve(analysis_.graph.node(node.operands[0]).type.shape, analysis_.symbols);
      contracted *= sizes ? (*sizes)[static_cast<std::size_t>(axis)] : 1;
    }
    most = std::max(most, count(id) * contracted);
  }
  return most;
}

/// Kernels that run over as many positions, one of which may be the other's as well, are launched once.
bool Search::fuse_horizontally() {
  constexpr std::size_t kMostTried = 4;  // of as many positions
  const double launch = schedule::costs_of(target_).launch_us;
  bool changed = false;
  std::map<std::int64_t, std::vector<ClusterId>> tried;
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) {
    if (clusters_[cluster].members.empty() || clusters_[cluster].kernel_cost.microseconds == 0 ||
        clusters_[cluster].kernel_cost.microseconds * kLaunchBound > launch)
      continue;
    std::vector<ClusterId>& others = tried[positions_of(clusters_[cluster])];
    bool merged = false;
    for (std::size_t i = 0; i < others.size() && !merged; ++i) {
      const double both = clusters_[others[i]].kernel_cost.microseconds + clusters_[cluster].kernel_cost.microseconds;
      merged = launch >= kLaunchBound * both && try_fusion({others[i], cluster}).ok();
    }
    changed = changed || merged;
    if (!merged && others.size() < kMostTried) others.push_back(cluster);
  }
  return changed;
}

}  // namespace vkfuse::partition

// What a kernel reads and what it computes again, as a minimum cut: all kernels stay what they are for, and of
// everything that this one could read instead of computing it, those values are read that together have the fewest
// bytes, stored ones once, others twice. One value at a time does not come there: two that are computed from one may
// both have to go before it pays to store that.
#include <algorithm>
#include <limits>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// The minimum cut of a small network by the shortest augmenting paths.
class Network {
 public:
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;

  explicit Network(std::size_t places) : edges_(places) {}

  void connect(std::size_t from, std::size_t to, std::int64_t capacity) {
    edges_[from].push_back({to, edges_[to].size(), capacity});
    edges_[to].push_back({from, edges_[from].size() - 1, 0});
  }

  /// Which places are on the side of `source` once as much flows as can; nothing where that is endless.
  std::optional<std::vector<bool>> cut(std::size_t source, std::size_t sink) {
    for (;;) {
      std::vector<std::pair<std::size_t, std::size_t>> came(edges_.size(), {kNowhere, 0});
      std::vector<std::size_t> queue{source};
      came[source] = {source, 0};
      for (std::size_t i = 0; i < queue.size(); ++i) {
        for (std::size_t k = 0; k < edges_[queue[i]].size(); ++k) {
          const Edge& edge = edges_[queue[i]][k];
          if (edge.left == 0 || came[edge.to].first != kNowhere) continue;
          came[edge.to] = {queue[i], k};
          queue.push_back(edge.to);
        }
      }
      if (came[sink].first == kNowhere) {
        std::vector<bool> reached;
        for (const auto& [from, edge] : came) reached.push_back(from != kNowhere);
        return reached;
      }
      std::int64_t most = kEndless;
      for (std::size_t at = sink; at != source; at = came[at].first)
        most = std::min(most, edges_[came[at].first][came[at].second].left);
      if (most >= kEndless) return std::nullopt;
      for (std::size_t at = sink; at != source; at = came[at].first) {
        Edge& edge = edges_[came[at].first][came[at].second];
        edge.left -= most;
        edges_[at][edge.back].left += most;
      }
    }
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Edge {
    std::size_t to = 0, back = 0;
    std::int64_t left = 0;
  };
  std::vector<std::vector<Edge>> edges_;
};

}  // namespace

/// What the kernel has to compute in any case: what it stores, and what no kernel computes twice.
std::vector<NodeId> Search::fixed_members(const Cluster& cluster) const {
  std::vector<NodeId> fixed = cluster.kernel_cost.segment.stores;
  std::copy_if(cluster.members.begin(), cluster.members.end(), std::back_inserter(fixed),
               [&](NodeId id) { return !analysis_.is_pointwise(id); });
  sort_unique(fixed);
  return fixed;
}

/// The values that a kernel reads at the least cost; nothing where there are too many to look at.
std::optional<std::vector<NodeId>> Search::cheapest_reads(ClusterId cluster) const {
  constexpr std::size_t kMostValues = 64;
  const std::vector<NodeId> fixed = fixed_members(clusters_[cluster]);
  // Upwards through what may be computed again.
  std::vector<NodeId> values;
  for (NodeId id : fixed) values.insert(values.end(), analysis_.operands[id].begin(), analysis_.operands[id].end());
  const auto may_compute = [&](NodeId id) { return analysis_.is_computed[id] && analysis_.is_pointwise(id); };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (contains(fixed, values[i]) || !may_compute(values[i])) continue;
    for (NodeId operand : analysis_.operands[values[i]]) {
      if (std::find(values.begin(), values.end(), operand) == values.end()) values.push_back(operand);
    }
    if (values.size() > kMostValues) return std::nullopt;
  }
  sort_unique(values);
  std::erase_if(values, [&](NodeId id) { return contains(fixed, id) || segment::is_literal(analysis_.graph, id); });
  // Two places a value: in front of it what it is computed from, behind it who needs it; between the two what reading
  // it costs.
  const std::size_t source = 2 * values.size(), sink = source + 1;
  Network network(sink + 1);
  const auto place_of = [&](NodeId id) {
    return static_cast<std::size_t>(std::lower_bound(values.begin(), values.end(), id) - values.begin());
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    network.connect(2 * i, 2 * i + 1, cost_of_reading(values[i], cluster));
    if (!may_compute(values[i])) {
      network.connect(source, 2 * i, Network::kEndless);
      continue;
    }
    // What is computed from positions and literals alone costs nothing.
    for (NodeId operand : analysis_.operands[values[i]]) {
      if (segment::is_literal(analysis_.graph, operand)) continue;
      if (contains(fixed, operand)) continue;  // there anyway
      network.connect(2 * place_of(operand) + 1, 2 * i, Network::kEndless);
    }
  }
  for (NodeId id : fixed) {
    for (NodeId operand : analysis_.operands[id]) {
      if (!contains(fixed, operand) && !segment::is_literal(analysis_.graph, operand))
        network.connect(2 * place_of(operand) + 1, sink, Network::kEndless);
    }
  }
  const auto reached = network.cut(source, sink);
  if (!reached) return std::nullopt;
  std::vector<NodeId> reads;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((*reached)[2 * i] && !(*reached)[2 * i + 1]) reads.push_back(values[i]);
  }
  return reads;
}

/// Bytes that are moved so that a kernel has a value without computing it: once if it is stored for others, too, twice
/// if not. No number is large enough for what nobody else computes.
std::int64_t Search::cost_of_reading(NodeId id, ClusterId reader) const {
  const std::int64_t bytes = cost_model_.bytes_of(id);
  if (!analysis_.is_computed[id]) return bytes;
  const auto others = [&](ClusterId cluster) { return cluster != reader; };
  if (std::none_of(computing_[id].begin(), computing_[id].end(), others)) return Network::kEndless;
  const bool stored = analysis_.is_output[id] || std::any_of(readers_[id].begin(), readers_[id].end(), others);
  return stored ? bytes : 2 * bytes;
}

Result<void> Search::try_min_cut(ClusterId cluster) {
  const auto reads = cheapest_reads(cluster);
  if (!reads) return unsupported("It could read or compute too many values.");
  std::vector<NodeId> before = clusters_[cluster].kernel_cost.segment.reads;
  sort_unique(before);
  if (*reads == before) return unsupported("It reads what is cheapest.");
  // For as many bytes it may still pay: who stores a value for this kernel alone need perhaps not compute it any more.
  std::int64_t costs = 0;
  bool frees = false;
  for (NodeId id : *reads) costs += cost_of_reading(id, cluster);
  for (NodeId id : before) {
    const std::int64_t cost = cost_of_reading(id, cluster);
    costs -= cost;
    frees = frees || (!contains(*reads, id) && cost > cost_model_.bytes_of(id));
  }
  if (costs > 0 || (costs == 0 && !frees)) return unsupported("It reads what is cheapest.");
  std::vector<NodeId> members = fixed_members(clusters_[cluster]);
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (NodeId operand : analysis_.operands[members[i]]) {
      const bool made = analysis_.is_computed[operand] && !contains(*reads, operand);
      if (made && std::find(members.begin(), members.end(), operand) == members.end()) members.push_back(operand);
    }
  }
  // Who stores what is read, now or then.
  std::vector<ClusterId> clusters{cluster};
  const auto add_assignment = [&](NodeId id) {
    if (!analysis_.is_computed[id]) return;
    ClusterId assigned = owner_[id];
    const auto elsewhere =
        std::find_if(computing_[id].begin(), computing_[id].end(), [&](ClusterId one) { return one != cluster; });
    if (assigned == kNoCluster || assigned == cluster)
      assigned = elsewhere == computing_[id].end() ? kNoCluster : *elsewhere;
    if (assigned != kNoCluster && !is_among(clusters, assigned)) clusters.push_back(assigned);
  };
  for (NodeId id : before) add_assignment(id);
  for (NodeId id : *reads) add_assignment(id);
  std::vector<std::vector<NodeId>> made{std::move(members)};
  for (std::size_t i = 1; i < clusters.size(); ++i) made.push_back(clusters_[clusters[i]].members);
  // A value that nobody has stored belongs to the first that computes it, and not to who reads it from now on.
  std::vector<std::pair<NodeId, ClusterId>> owned;
  for (NodeId id : *reads) {
    if (!analysis_.is_computed[id] || (owner_[id] != kNoCluster && owner_[id] != cluster)) continue;
    const auto assigned = std::find_if(clusters.begin() + 1, clusters.end(),
                                       [&](ClusterId one) { return contains(clusters_[one].members, id); });
    if (assigned == clusters.end()) return unsupported("Nobody stores %{}.", id);
    owned.emplace_back(id, owner_[id]);
    owner_[id] = *assigned;
  }
  const auto give_up = [&](Error error) {
    for (const auto& [id, owner] : owned) owner_[id] = owner;
    return error;
  };
  auto change = costed(std::move(clusters), std::move(made));
  if (!change.ok()) return give_up(std::move(change).error());
  if (change->bytes >= change->bytes_before)
    return give_up(unsupported("It would move {} bytes instead of {}.", change->bytes, change->bytes_before));
  constexpr double kRounding = 1.001;  // what may take longer has been tried value by value
  if (change->microseconds > change->microseconds_before * kRounding) {
    return give_up(unsupported("It is modelled at {:.1f} us instead of {:.1f} us.", change->microseconds,
                               change->microseconds_before));
  }
  if (!is_acyclic(*change)) return give_up(unsupported("A kernel would wait for itself."));
  apply(*std::move(change));
  return {};
}

bool Search::rematerialize_by_min_cut() {
  constexpr int kMostCosted = 60;  // so that large graphs are not searched for long
  bool changed = false;
  for (ClusterId cluster = 0; cluster < clusters_.size() && min_cuts_costed_ <= kMostCosted; ++cluster) {
    if (clusters_[cluster].members.empty() || clusters_[cluster].kernel_cost.segment.stores.empty()) continue;
    int newest = clusters_[cluster].version;
    bool frozen = clusters_[cluster].frozen;
    for (NodeId id : clusters_[cluster].kernel_cost.segment.reads) {
      if (owner_[id] == kNoCluster) continue;
      newest = std::max(newest, clusters_[owner_[id]].version);
      frozen = frozen && clusters_[owner_[id]].frozen;
    }
    if (frozen) continue;
    const auto tried = min_cuts_tried_.find(cluster);
    if (tried != min_cuts_tried_.end() && tried->second >= newest) continue;
    const int known = cost_model_.costed();
    const bool cut = try_min_cut(cluster).ok();
    min_cuts_costed_ += cost_model_.costed() - known;
    min_cuts_tried_[cluster] = newest;
    changed = changed || cut;
  }
  return changed;
}

}  // namespace vkfuse::partition

// What a kernel reads and what it computes again, as a minimum cut: all kernels stay what they are for, and of
// everything that this one could read instead of computing it, those values are read that together have the fewest
// bytes, stored ones once, others twice. One value at a time does not come there: two that are computed from one may
// both have to go before it pays to store that.
#include <algorithm>

#include "base/flow_network.hpp"
#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// What the kernel has to compute in any case: what it stores, and what no kernel computes twice.
std::vector<NodeId> fixed_members(const GraphAnalysis& analysis, const Cluster& cluster) {
  std::vector<NodeId> fixed = cluster.kernel_cost.segment.stores;
  std::copy_if(cluster.members.begin(), cluster.members.end(), std::back_inserter(fixed),
               [&](NodeId id) { return !analysis.is_pointwise(id); });
  sort_unique(fixed);
  return fixed;
}

/// Which values one kernel reads.
class ReadSelection {
 public:
  ReadSelection(const Context& context, const Clusters& clusters, ClusterId cluster)
      : context_(context),
        analysis_(context.analysis),
        clusters_(clusters),
        cluster_(cluster),
        fixed_(fixed_members(context.analysis, clusters[cluster])) {}

  [[nodiscard]] const std::vector<NodeId>& fixed() const { return fixed_; }

  /// Bytes that are moved so that the kernel has a value without computing it: once if it is stored for others, too,
  /// twice if not. No number is large enough for what nobody else computes.
  [[nodiscard]] std::int64_t cost_of_reading(NodeId id) const {
    const std::int64_t bytes = context_.cost_model.bytes_of(id);
    if (!analysis_.is_computed[id]) return bytes;
    const auto is_other = [&](ClusterId cluster) { return cluster != cluster_; };
    const auto& computing = clusters_.computing[id];
    const auto& readers = clusters_.readers[id];
    if (std::none_of(computing.begin(), computing.end(), is_other)) return FlowNetwork::kInfinite;
    const bool is_stored = analysis_.is_output[id] || std::any_of(readers.begin(), readers.end(), is_other);
    return is_stored ? bytes : 2 * bytes;
  }

  /// The values that the kernel reads at the least cost; nothing where there are too many to look at.
  [[nodiscard]] std::optional<std::vector<NodeId>> cheapest_reads() const {
    const auto values = candidates();
    if (!values) return std::nullopt;
    const auto reached = network_of(*values).cut(2 * values->size(), 2 * values->size() + 1);
    if (!reached) return std::nullopt;
    std::vector<NodeId> reads;
    for (std::size_t i = 0; i < values->size(); ++i) {
      if ((*reached)[2 * i] && !(*reached)[2 * i + 1]) reads.push_back((*values)[i]);
    }
    return reads;
  }

  /// Whether these reads cost less than those before. For as many bytes it may still pay: who stores a value for this
  /// kernel alone need perhaps not compute it any more.
  [[nodiscard]] bool is_cheaper(const std::vector<NodeId>& reads, const std::vector<NodeId>& before) const {
    std::int64_t costs = 0;
    bool frees = false;
    for (NodeId id : reads) costs += cost_of_reading(id);
    for (NodeId id : before) {
      const std::int64_t cost = cost_of_reading(id);
      costs -= cost;
      frees = frees || (!contains(reads, id) && cost > context_.cost_model.bytes_of(id));
    }
    return costs < 0 || (costs == 0 && frees);
  }

 private:
  [[nodiscard]] bool may_compute(NodeId id) const { return analysis_.is_computed[id] && analysis_.is_pointwise(id); }
  /// What is computed from positions and literals alone costs nothing, and what the kernel has anyway neither.
  [[nodiscard]] bool is_for_free(NodeId id) const {
    return contains(fixed_, id) || segment::is_literal(analysis_.graph, id);
  }

  /// What the kernel could read: upwards from what it has to compute through what may be computed again.
  [[nodiscard]] std::optional<std::vector<NodeId>> candidates() const {
    constexpr std::size_t kMostValues = 256;  // a training step's norms look at 80 and more
    std::vector<NodeId> values;
    for (NodeId id : fixed_) values.insert(values.end(), analysis_.operands[id].begin(), analysis_.operands[id].end());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (contains(fixed_, values[i]) || !may_compute(values[i])) continue;
      for (NodeId operand : analysis_.operands[values[i]]) {
        if (std::find(values.begin(), values.end(), operand) == values.end()) values.push_back(operand);
      }
      if (values.size() > kMostValues) return std::nullopt;
    }
    sort_unique(values);
    std::erase_if(values, [&](NodeId id) { return is_for_free(id); });
    return values;
  }

  /// Two places a value: in front of it what it is computed from, after it who needs it; between the two what reading
  /// it costs. The source and the sink come last.
  [[nodiscard]] FlowNetwork network_of(const std::vector<NodeId>& values) const {
    const std::size_t source = 2 * values.size(), sink = source + 1;
    FlowNetwork network(sink + 1);
    const auto connect_operands = [&](NodeId id, std::size_t place) {
      for (NodeId operand : analysis_.operands[id]) {
        if (is_for_free(operand)) continue;
        const auto at = std::lower_bound(values.begin(), values.end(), operand) - values.begin();
        network.connect(2 * static_cast<std::size_t>(at) + 1, place, FlowNetwork::kInfinite);
      }
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      network.connect(2 * i, 2 * i + 1, cost_of_reading(values[i]));
      if (may_compute(values[i])) {
        connect_operands(values[i], 2 * i);
      } else {
        network.connect(source, 2 * i, FlowNetwork::kInfinite);
      }
    }
    for (NodeId id : fixed_) connect_operands(id, sink);
    return network;
  }

  const Context& context_;
  const GraphAnalysis& analysis_;
  const Clusters& clusters_;
  const ClusterId cluster_;
  const std::vector<NodeId> fixed_;
};

/// What a kernel computes that has these members and reads these values.
std::vector<NodeId> members_with(const GraphAnalysis& analysis, std::vector<NodeId> members,
                                 const std::vector<NodeId>& reads) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (NodeId operand : analysis.operands[members[i]]) {
      const bool is_made = analysis.is_computed[operand] && !contains(reads, operand);
      if (is_made && std::find(members.begin(), members.end(), operand) == members.end()) members.push_back(operand);
    }
  }
  return members;
}

/// The cluster, and those that store what it reads: its owner, or else another one that computes it.
std::vector<ClusterId> with_producers(const Context& context, const Clusters& clusters, ClusterId cluster,
                                      const std::vector<NodeId>& before, const std::vector<NodeId>& reads) {
  std::vector<ClusterId> all{cluster};
  const auto add_producer = [&](NodeId id) {
    if (!context.analysis.is_computed[id]) return;
    ClusterId producer = clusters.owner[id];
    if (producer == kNoCluster || producer == cluster) {
      const auto& computing = clusters.computing[id];
      const auto other =
          std::find_if(computing.begin(), computing.end(), [&](ClusterId one) { return one != cluster; });
      producer = other == computing.end() ? kNoCluster : *other;
    }
    if (producer != kNoCluster && !is_among(all, producer)) all.push_back(producer);
  };
  for (NodeId id : before) add_producer(id);
  for (NodeId id : reads) add_producer(id);
  return all;
}

/// A value that nobody has stored belongs to the first that computes it, and not to who reads it from now on. Whether
/// there is one for each.
bool give_to_producers(const Context& context, const Clusters& clusters, std::span<const ClusterId> changed,
                       const std::vector<NodeId>& reads, ProvisionalOwners& owners) {
  const ClusterId reader = changed.front();
  const std::span<const ClusterId> producers = changed.subspan(1);
  for (NodeId id : reads) {
    const ClusterId owner = clusters.owner[id];
    if (!context.analysis.is_computed[id] || (owner != kNoCluster && owner != reader)) continue;
    const auto producer = std::find_if(producers.begin(), producers.end(),
                                       [&](ClusterId one) { return contains(clusters[one].members, id); });
    if (producer == producers.end()) return false;
    owners.set(id, *producer);
  }
  return true;
}

/// Whether kernels of a change want registers that those before did not: what they read may be less, but threads would
/// keep what they compute in memory.
bool spills_more(const Clusters& clusters, const Change& change) {
  int before = 0, after = 0;
  for (const ClusterId id : change.clusters) before += clusters[id].kernel_cost.spilled;
  for (const Cluster& made : change.made) after += made.kernel_cost.spilled;
  return after > before;
}

bool try_min_cut(Context& context, Clusters& clusters, ClusterId cluster) {
  constexpr double kRounding = 1.001;  // what may take longer has been tried value by value
  const ReadSelection selection(context, clusters, cluster);
  const auto reads = selection.cheapest_reads();
  std::vector<NodeId> before = clusters[cluster].kernel_cost.segment.reads;
  sort_unique(before);
  if (!reads || *reads == before || !selection.is_cheaper(*reads, before)) return false;
  std::vector<ClusterId> changed = with_producers(context, clusters, cluster, before, *reads);
  std::vector<std::vector<NodeId>> made{members_with(context.analysis, selection.fixed(), *reads)};
  for (std::size_t i = 1; i < changed.size(); ++i) made.push_back(clusters[changed[i]].members);
  ProvisionalOwners owners(clusters);
  if (!give_to_producers(context, clusters, changed, *reads, owners)) return false;
  auto change = cost_change(context, clusters, std::move(changed), std::move(made));
  if (!change.ok() || change->bytes >= change->bytes_before ||
      change->microseconds > change->microseconds_before * kRounding || spills_more(clusters, *change) ||
      !is_acyclic(clusters, *change))
    return false;
  apply(context.scratch, clusters, *std::move(change));
  owners.keep();
  return true;
}

/// Whether a cluster and all that store what it reads are frozen.
bool is_frozen_with_producers(const Clusters& clusters, ClusterId cluster) {
  const std::vector<NodeId>& reads = clusters[cluster].kernel_cost.segment.reads;
  return clusters[cluster].frozen && std::all_of(reads.begin(), reads.end(), [&](NodeId id) {
           return clusters.owner[id] == kNoCluster || clusters[clusters.owner[id]].frozen;
         });
}

/// The newest version of a cluster and of those that store what it reads.
int newest_version(const Clusters& clusters, ClusterId cluster) {
  int newest = clusters[cluster].version;
  for (NodeId id : clusters[cluster].kernel_cost.segment.reads) {
    if (clusters.owner[id] != kNoCluster) newest = std::max(newest, clusters[clusters.owner[id]].version);
  }
  return newest;
}

}  // namespace

bool rematerialize_by_min_cut(Context& context, Search& search) {
  constexpr int kMostCosted = 60;  // and one for each kernel: work stays in proportion to the graph
  Clusters& clusters = search.clusters;
  Tried& tried = search.tried;
  const auto kernels = std::count_if(clusters.all.begin(), clusters.all.end(), [](const Cluster& cluster) {
    return !cluster.members.empty() && !cluster.kernel_cost.segment.stores.empty();
  });
  const int most_costed = kMostCosted + static_cast<int>(kernels);
  bool changed = false;
  for (ClusterId cluster = 0; cluster < clusters.size() && tried.min_cuts_costed <= most_costed; ++cluster) {
    if (clusters[cluster].members.empty() || clusters[cluster].kernel_cost.segment.stores.empty()) continue;
    if (is_frozen_with_producers(clusters, cluster)) continue;
    const int newest = newest_version(clusters, cluster);
    const auto last = tried.min_cuts.find(cluster);
    if (last != tried.min_cuts.end() && last->second >= newest) continue;
    const int known = context.cost_model.costed();
    changed = try_min_cut(context, clusters, cluster) || changed;
    tried.min_cuts_costed += context.cost_model.costed() - known;
    tried.min_cuts[cluster] = newest;
  }
  return changed;
}

}  // namespace vkfuse::partition

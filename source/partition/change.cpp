#include "partition/change.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

namespace {

using IsStored = std::function<bool(NodeId)>;
using Visit = std::function<std::optional<Refusal>(Cluster&, const IsStored& is_stored)>;

/// Of what is made: which kernel each value belongs to, and which values one of them reads.
void note_assignment_and_reads(Context& context, const Clusters& clusters, const Change& change) {
  Scratch& scratch = context.scratch;
  scratch.changed.resize(clusters.size());
  scratch.changed.clear();
  for (ClusterId cluster : change.clusters) scratch.changed.insert(cluster);
  scratch.assigned.clear();
  scratch.read.clear();
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const std::vector<NodeId>& members = change.made[i].members;
    scratch.computed.clear();
    for (NodeId id : members) {
      scratch.computed.insert(id);
      if (scratch.assigned.insert(id) || change.clusters[i] == clusters.owner[id]) scratch.assignment[id] = i;
    }
    for (NodeId id : members) {
      for (NodeId operand : context.analysis.operands[id]) {
        if (!scratch.computed.contains(operand)) scratch.read.insert(operand);
      }
    }
  }
}

/// Visits what is made with what of it is stored. A value that some other kernel reads is stored by one of those that
/// have it: by its owner, or by the first of them.
std::optional<Refusal> each_made(Context& context, const Clusters& clusters, Change& change, const Visit& visit) {
  const Scratch& scratch = context.scratch;
  bool known = false;
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    Cluster& made = change.made[i];
    if (made.members.empty()) continue;
    if (!known) note_assignment_and_reads(context, clusters, change);
    const auto is_stored = [&](NodeId id) {
      const ClusterId owner = clusters.owner[id];
      if (scratch.assignment[id] != i || owner == kNoCluster || !scratch.changed.contains(owner)) return false;
      const auto is_outside = [&](ClusterId reader) { return !scratch.changed.contains(reader); };
      return context.analysis.is_output[id] || scratch.read.contains(id) ||
             std::any_of(clusters.readers[id].begin(), clusters.readers[id].end(), is_outside);
    };
    const std::size_t before = made.members.size();
    if (auto refusal = visit(made, is_stored)) return refusal;
    known = made.members.size() == before;
  }
  return std::nullopt;
}

/// A value that some kernel would read and none would store: a copy that went leaves nobody to read from.
std::optional<NodeId> read_but_not_stored(Context& context, const Clusters& clusters, const Change& change) {
  Scratch& scratch = context.scratch;
  scratch.computed.clear();
  for (const Cluster& cluster : change.made) {
    for (NodeId value : cluster.kernel_cost.segment.stores) scratch.computed.insert(value);
  }
  const auto is_stored = [&](NodeId value) {
    if (scratch.computed.contains(value)) return true;
    const ClusterId owner = clusters.owner[value];
    return owner != kNoCluster && !scratch.changed.contains(owner) &&
           contains(clusters[owner].kernel_cost.segment.stores, value);
  };
  for (const Cluster& cluster : change.made) {
    for (NodeId value : cluster.kernel_cost.segment.reads) {
      if (context.analysis.is_computed[value] && !is_stored(value)) return value;
    }
  }
  return std::nullopt;
}

/// They compute, own and read nothing any more.
void take_out(Scratch& scratch, Clusters& clusters, std::span<const ClusterId> going) {
  scratch.changed.resize(clusters.size());
  scratch.changed.clear();
  for (ClusterId cluster : going) scratch.changed.insert(cluster);
  // Of each value once: it may have as many readers as there are clusters.
  const auto goes = [&](ClusterId cluster) { return scratch.changed.contains(cluster); };
  scratch.computed.clear();
  scratch.read.clear();
  for (ClusterId cluster : going) {
    for (NodeId id : clusters[cluster].members) {
      if (!scratch.computed.insert(id)) continue;
      std::erase_if(clusters.computing[id], goes);
      if (clusters.owner[id] != kNoCluster && goes(clusters.owner[id])) clusters.owner[id] = kNoCluster;
    }
    for (NodeId value : clusters[cluster].kernel_cost.segment.reads) {
      if (scratch.read.insert(value)) std::erase_if(clusters.readers[value], goes);
    }
    clusters[cluster] = {};
  }
}

}  // namespace

Change begin_change(Context& context, const Clusters& clusters, std::vector<ClusterId> changed,
                    std::vector<std::vector<NodeId>> members) {
  check(std::set<ClusterId>(changed.begin(), changed.end()).size() == changed.size(),
        "the kernels of a change are told apart");
  Change change;
  for (ClusterId cluster : changed) {
    change.bytes_before += clusters[cluster].kernel_cost.bytes;
    change.microseconds_before += clusters[cluster].kernel_cost.microseconds;
  }
  for (std::vector<NodeId>& own : members) {
    sort_unique(own);
    change.made.push_back({std::move(own), {}, 0});
  }
  change.clusters = std::move(changed);
  const auto kernels =
      std::count_if(change.made.begin(), change.made.end(), [](const Cluster& made) { return !made.members.empty(); });
  for (bool again = kernels > 1; again;) {
    again = false;
    const auto drop_unneeded = [&](Cluster& cluster, const IsStored& is_stored) -> std::optional<Refusal> {
      std::vector<NodeId> roots;
      std::copy_if(cluster.members.begin(), cluster.members.end(), std::back_inserter(roots), is_stored);
      std::vector<NodeId> needed = context.analysis.closure_of(std::move(roots), cluster.members);
      sort_unique(needed);
      again = again || needed.size() < cluster.members.size();
      cluster.members = std::move(needed);
      return std::nullopt;
    };
    static_cast<void>(each_made(context, clusters, change, drop_unneeded));
  }
  return change;
}

std::int64_t estimated_bytes(Context& context, const Clusters& clusters, Change& change) {
  std::int64_t bytes = 0;
  static_cast<void>(
      each_made(context, clusters, change, [&](Cluster& cluster, const IsStored& is_stored) -> std::optional<Refusal> {
        bytes += context.cost_model.estimate(cluster.members, is_stored);
        return std::nullopt;
      }));
  return bytes;
}

OrRefusal<Change> cost_change(Context& context, const Clusters& clusters, std::vector<ClusterId> changed,
                              std::vector<std::vector<NodeId>> members) {
  Change change = begin_change(context, clusters, std::move(changed), std::move(members));
  const auto cost = [&](Cluster& cluster, const IsStored& is_stored) -> std::optional<Refusal> {
    auto kernel_cost = context.cost_model(cluster.members, is_stored);
    if (!kernel_cost) return std::move(kernel_cost).error();
    cluster.kernel_cost = *std::move(kernel_cost);
    change.bytes += cluster.kernel_cost.bytes;
    change.microseconds += cluster.kernel_cost.microseconds;
    return std::nullopt;
  };
  if (auto refusal = each_made(context, clusters, change, cost)) return *std::move(refusal);
  if (const auto value = read_but_not_stored(context, clusters, change))
    return Refusal{.kind = RefusalKind::stored_by_none, .nodes = {*value}};
  return change;
}

bool is_acyclic(const Clusters& clusters, const Change& change) {
  const std::size_t made = change.made.size();
  NodeId last = 0;
  for (const Cluster& cluster : change.made)
    last = std::max(last, cluster.members.empty() ? 0 : cluster.members.back());
  const bool ends = !clusters.leads_back_below(last);
  // Kernels that are made come first, then the others by their number.
  const auto push_readers = [&](std::size_t at, std::vector<std::size_t>& stack) {
    for (NodeId id : (at < made ? change.made[at] : clusters.all[at - made]).kernel_cost.segment.stores) {
      for (std::size_t i = 0; i < made; ++i) {
        const std::vector<NodeId>& reads = change.made[i].kernel_cost.segment.reads;
        if (std::find(reads.begin(), reads.end(), id) != reads.end()) stack.push_back(i);
      }
      if (ends && id >= last) continue;
      for (ClusterId reader : clusters.readers[id]) {
        if (!is_among(change.clusters, reader)) stack.push_back(made + reader);
      }
    }
  };
  for (std::size_t root = 0; root < made; ++root) {
    std::vector<std::size_t> stack;
    std::set<std::size_t> seen;
    push_readers(root, stack);
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      if (at == root) return false;
      if (seen.insert(at).second) push_readers(at, stack);
    }
  }
  return true;
}

void apply(Scratch& scratch, Clusters& clusters, Change change) {
  take_out(scratch, clusters, change.clusters);
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const ClusterId cluster = change.clusters[i];
    clusters[cluster] = std::move(change.made[i]);
    clusters[cluster].version = ++clusters.version;
    for (NodeId id : clusters[cluster].members) {
      clusters.computing[id].push_back(cluster);
      if (clusters.owner[id] == kNoCluster) clusters.owner[id] = cluster;
    }
    for (NodeId value : clusters[cluster].kernel_cost.segment.reads) clusters.readers[value].push_back(cluster);
  }
  // The cluster that stores a value owns it.
  for (ClusterId cluster : change.clusters) {
    for (NodeId id : clusters[cluster].kernel_cost.segment.stores) clusters.owner[id] = cluster;
  }
  for (ClusterId cluster : change.clusters) clusters.note_backwards(cluster);
}

}  // namespace vkfuse::partition

// A value that is stored is computed in the kernels that read it instead.
#include <algorithm>

#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// What of a cluster has to be computed again for one of its members: up to what it stores anyway.
/// Reductions of a kernel that takes little more than its launch may be in each of its readers, as the norm of one row.
OrRefusal<std::vector<NodeId>> backward_slice_of(const Context& context, NodeId value, const Cluster& cluster) {
  constexpr double kLittle = 1.5;  // times the launch
  const GraphAnalysis& analysis = context.analysis;
  const bool may_reduce = cluster.kernel_cost.microseconds <= kLittle * schedule::costs_of(context.target).launch_us;
  std::vector<NodeId> backward_slice{value};
  for (std::size_t i = 0; i < backward_slice.size(); ++i) {
    const bool reduces = analysis.graph.node(backward_slice[i]).op->cls == ops::OpClass::reduce;
    if (!analysis.is_pointwise(backward_slice[i]) && !(may_reduce && reduces)) {
      const auto& name = analysis.graph.node(backward_slice[i]).op->name;
      return Refusal{.kind = RefusalKind::never_computed_twice, .op = std::string(name)};
    }
    for (NodeId operand : analysis.operands[backward_slice[i]]) {
      const bool is_computed =
          contains(cluster.members, operand) && !contains(cluster.kernel_cost.segment.stores, operand);
      if (is_computed && std::find(backward_slice.begin(), backward_slice.end(), operand) == backward_slice.end())
        backward_slice.push_back(operand);
    }
  }
  return backward_slice;
}

/// What the producer keeps where it does not compute a value any more, and what each reader computes from now on.
struct Division {
  std::vector<NodeId> left, moved;
};

OrRefusal<Division> divide_at(const Context& context, NodeId value, const Cluster& producer, std::size_t readers) {
  const GraphAnalysis& analysis = context.analysis;
  std::vector<NodeId> kept = producer.kernel_cost.segment.stores;
  std::erase(kept, value);
  Division division{analysis.closure_of(std::move(kept), producer.members), {}};
  auto backward_slice = backward_slice_of(context, value, producer);
  if (backward_slice) {
    division.moved = *std::move(backward_slice);
    return division;
  }
  // What only one other kernel needs may move there, with what is computed for it alone.
  sort_unique(division.left);
  if (readers > 1 || contains(division.left, value)) return std::move(backward_slice).error();
  std::set_difference(producer.members.begin(), producer.members.end(), division.left.begin(), division.left.end(),
                      std::back_inserter(division.moved));
  return division;
}

std::optional<Refusal> try_rematerialization(Context& context, Clusters& clusters, NodeId value, bool always) {
  const std::size_t readers = clusters.readers[value].size();
  std::vector<ClusterId> changed{clusters.owner[value]};
  changed.insert(changed.end(), clusters.readers[value].begin(), clusters.readers[value].end());
  auto division = divide_at(context, value, clusters[changed[0]], readers);
  if (!division) return std::move(division).error();
  std::vector<std::vector<NodeId>> members{std::move(division->left)};
  for (std::size_t i = 1; i < changed.size(); ++i) {
    members.push_back(clusters[changed[i]].members);
    members.back().insert(members.back().end(), division->moved.begin(), division->moved.end());
  }
  auto change = cost_change(context, clusters, std::move(changed), std::move(members));
  if (!change) return std::move(change).error();
  const auto count = static_cast<std::int64_t>(readers);
  const bool reduces = std::any_of(division->moved.begin(), division->moved.end(),
                                   [&](NodeId id) { return !context.analysis.is_pointwise(id); });
  // What one reduction more takes is not known better than the rest, and there are as many as readers.
  const double most = reduces && readers > 1 ? 1 : slack(context.target, change->bytes, change->bytes_before);
  if (!always && change->bytes >= change->bytes_before) {
    return Refusal{.kind = RefusalKind::again_moves_more, .counts = {count, change->bytes, change->bytes_before}};
  }
  if (!always && change->microseconds > change->microseconds_before * most) {
    return Refusal{.kind = RefusalKind::again_is_slower,
                   .counts = {count},
                   .microseconds = {change->microseconds, change->microseconds_before}};
  }
  apply(context.scratch, clusters, *std::move(change));
  return std::nullopt;
}

/// Whether another kernel than the one that stores it reads a value that need not be stored.
bool is_intermediate(const Context& context, const Clusters& clusters, NodeId id) {
  const ClusterId from = clusters.owner[id];
  return from != kNoCluster && !context.analysis.is_output[id] && !clusters.readers[id].empty() &&
         contains(clusters[from].kernel_cost.segment.stores, id);
}

bool rematerialize(Context& context, Search& search, bool always) {
  Clusters& clusters = search.clusters;
  bool changed = false;
  for (NodeId id = static_cast<NodeId>(context.analysis.graph.size()); id-- > 0;) {
    if (!is_intermediate(context, clusters, id)) continue;
    const Cluster& producer = clusters[clusters.owner[id]];
    if (producer.frozen && clusters.are_frozen(clusters.readers[id])) continue;
    std::vector<int> versions{producer.version};
    for (ClusterId reader : clusters.readers[id]) versions.push_back(clusters[reader].version);
    std::vector<int>& refused = search.tried.rematerializations[id];
    if (refused == versions) continue;
    std::optional<Refusal> refusal = try_rematerialization(context, clusters, id, always);
    if (!refusal) {
      changed = true;
      search.reasons.rematerialization.erase(id);
    } else {
      refused = std::move(versions);
      search.reasons.rematerialization[id] = *std::move(refusal);
    }
  }
  return changed;
}

}  // namespace

bool rematerialize_values(Context& context, Search& search) { return rematerialize(context, search, false); }

bool rematerialize_all_values(Context& context, Search& search) { return rematerialize(context, search, true); }

}  // namespace vkfuse::partition

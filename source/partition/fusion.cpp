#include "partition/fusion.hpp"

#include <algorithm>

#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// Whether it is seen at once that no path leads through another cluster: none of these reads what another one stores,
/// or one alone does that all others read from, so that such a path would be a circle.
bool has_no_way_in(const GraphAnalysis& analysis, const Clusters& clusters, std::span<const ClusterId> fused) {
  std::optional<ClusterId> entrance;
  for (ClusterId cluster : fused) {
    const std::vector<NodeId>& reads = clusters[cluster].kernel_cost.segment.reads;
    const auto is_another = [&](NodeId id) { return analysis.is_computed[id] && !is_among(fused, clusters.owner[id]); };
    if (std::none_of(reads.begin(), reads.end(), is_another)) continue;
    if (entrance) return false;
    entrance = cluster;
  }
  const auto reads_from_entrance = [&](ClusterId cluster) {
    const std::vector<NodeId>& reads = clusters[cluster].kernel_cost.segment.reads;
    return cluster == *entrance ||
           std::any_of(reads.begin(), reads.end(), [&](NodeId id) { return clusters.owner[id] == *entrance; });
  };
  return !entrance || std::all_of(fused.begin(), fused.end(), reads_from_entrance);
}

/// Whether a path leads from one of the clusters to another through one that is not among them: fusing them would then
/// make a kernel that waits for itself.
bool connected_outside(Context& context, const Clusters& clusters, std::span<const ClusterId> fused) {
  if (has_no_way_in(context.analysis, clusters, fused)) return false;
  NodeId last = 0;
  for (ClusterId cluster : fused) last = std::max(last, clusters[cluster].members.back());
  const bool ends = !clusters.leads_back_below(last);
  std::vector<ClusterId> stack;
  VisitedSet& visited = context.scratch.visited;
  visited.resize(clusters.size());
  visited.clear();
  bool back = false;
  const auto push_readers = [&](ClusterId cluster) {
    for (NodeId id : clusters[cluster].kernel_cost.segment.stores) {
      if (ends && id >= last) break;
      for (ClusterId next : clusters.readers[id]) {
        if (next == cluster) continue;
        if (is_among(fused, next)) {
          back = back || !is_among(fused, cluster);
        } else if (visited.insert(next)) {
          stack.push_back(next);
        }
      }
    }
  };
  for (ClusterId cluster : fused) push_readers(cluster);
  while (!stack.empty() && !back) {
    const ClusterId cluster = stack.back();
    stack.pop_back();
    push_readers(cluster);
  }
  return back;
}

}  // namespace

double slack(const Target& target, std::int64_t bytes, std::int64_t before) {
  constexpr double kRounding = 1.001, kMeasured = 1.05, kTenth = 1.15;
  if (target.costs) return bytes * 2 <= before ? kMeasured : kRounding;
  return bytes < before ? kTenth : kRounding;
}

std::optional<Refusal> try_fusion(Context& context, Clusters& clusters, std::vector<ClusterId> fused) {
  if (clusters.are_frozen(fused)) return Refusal{.kind = RefusalKind::frozen};
  if (connected_outside(context, clusters, fused)) return Refusal{.kind = RefusalKind::kernel_between};
  const std::size_t count = fused.size();
  std::vector<std::vector<NodeId>> members(count);
  for (ClusterId cluster : fused)
    members[0].insert(members[0].end(), clusters[cluster].members.begin(), clusters[cluster].members.end());
  auto change = cost_change(context, clusters, std::move(fused), std::move(members));
  if (!change) return std::move(change).error();
  if (change->bytes > change->bytes_before)
    return Refusal{.kind = RefusalKind::one_moves_more, .counts = {change->bytes, change->bytes_before}};
  const bool slow =
      change->microseconds > change->microseconds_before * slack(context.target, change->bytes, change->bytes_before);
  if (slow && context.options.policy != Policy::greedy_io) {
    return Refusal{.kind = RefusalKind::one_is_slower,
                   .counts = {static_cast<std::int64_t>(count)},
                   .microseconds = {change->microseconds, change->microseconds_before}};
  }
  apply(context.scratch, clusters, *std::move(change));
  return std::nullopt;
}

}  // namespace vkfuse::partition

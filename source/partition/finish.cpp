// What a search has found, as a partition: kernels in an order where producers come first, and why values are stored.
#include <algorithm>
#include <set>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

enum class Emitted : std::uint8_t { no, waiting, yes };  ///< waiting: for what it reads

/// Producers first: a depth-first walk with an explicit stack, so that depth is no limit.
void emit(const Clusters& clusters, ClusterId root, std::vector<Emitted>& emitted, Partition& result) {
  std::vector<std::pair<ClusterId, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const std::pair<ClusterId, bool> top = stack.back();
    stack.pop_back();
    Emitted& state = emitted[top.first];
    if (state == Emitted::yes || clusters[top.first].members.empty()) continue;
    if (top.second) {
      state = Emitted::yes;
      result.segments.push_back(clusters[top.first].kernel_cost.segment);
      continue;
    }
    check(state == Emitted::no, "no kernel waits for itself");
    state = Emitted::waiting;
    stack.emplace_back(top.first, true);
    for (NodeId value : clusters[top.first].kernel_cost.segment.reads) {
      const ClusterId owner = clusters.owner[value];
      if (owner != kNoCluster && emitted[owner] != Emitted::yes) stack.emplace_back(owner, false);
    }
  }
}

void check_stores(const GraphAnalysis& analysis, const Partition& partition) {
  std::set<NodeId> stored;
  for (const segment::Segment& segment : partition.segments)
    stored.insert(segment.stores.begin(), segment.stores.end());
  const auto is_there = [&](NodeId id) { return !analysis.is_computed[id] || stored.count(id) != 0; };
  for (NodeId id = 0; id < analysis.graph.size(); ++id)
    check(!analysis.is_output[id] || is_there(id), "some kernel stores every result");
  for (const segment::Segment& segment : partition.segments) {
    check(std::all_of(segment.reads.begin(), segment.reads.end(), is_there), "some kernel stores what another reads");
  }
}

/// Why a value is not computed in the kernel that reads it and, where it could be, why it is not computed twice.
std::vector<Refusal> reasons_of(const Context& context, const Reasons& reasons, NodeId value) {
  if (!context.options.fusion) return {{.kind = RefusalKind::fusion_off}};
  if (reasons.looked_at_all) return {{.kind = RefusalKind::best_of_all}};
  const auto fusion = reasons.fusion.find(value);
  const auto again = reasons.rematerialization.find(value);
  std::vector<Refusal> all =
      fusion == reasons.fusion.end() ? std::vector<Refusal>{{.kind = RefusalKind::not_fused}} : fusion->second;
  const bool has_another = again != reasons.rematerialization.end() && context.analysis.is_pointwise(value);
  if (has_another && all != std::vector{again->second}) all.push_back(again->second);
  return all;
}

}  // namespace

Result<void> check_sizes(const Context& context, const Clusters& clusters) {
  for (const Cluster& cluster : clusters.all) {
    if (cluster.members.empty()) continue;
    auto checked = context.cost_model.check_size(cluster.kernel_cost.segment);
    if (!checked)
      return std::move(checked).error().within(fmt::format(
          "planning %{} = {}", cluster.members.back(), context.analysis.graph.node(cluster.members.back()).op->name));
  }
  return {};
}

CostedPartition finish(const Context& context, const Search& search) {
  CostedPartition costed;
  Partition& result = costed.partition;
  for (const Cluster& cluster : search.clusters.all) {
    if (cluster.kernel_cost.segment.stores.empty()) continue;
    const KernelCostModel::Surcharge surcharge = context.cost_model.surcharge(cluster.kernel_cost.segment);
    costed.bytes += cluster.kernel_cost.bytes - surcharge.bytes;
    costed.microseconds += cluster.kernel_cost.microseconds - surcharge.microseconds;
  }
  std::vector<Emitted> emitted(search.clusters.size(), Emitted::no);
  for (ClusterId cluster = 0; cluster < search.clusters.size(); ++cluster)
    emit(search.clusters, cluster, emitted, result);
  check_stores(context.analysis, result);
  std::set<NodeId> known;
  for (const segment::Segment& segment : result.segments) {
    if (segment.stores.size() == 1 && context.analysis.is_alias[segment.stores[0]]) continue;  // no kernel
    for (NodeId value : segment.reads) {
      if (segment::is_resident(context.analysis.graph, value) || !known.insert(value).second) continue;
      result.fusion_boundaries.push_back({value, reasons_of(context, search.reasons, value)});
    }
  }
  return costed;
}

}  // namespace vkfuse::partition

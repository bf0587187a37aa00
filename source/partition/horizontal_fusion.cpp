// Horizontal fusion: kernels that have nothing in common but the number of positions become one.
#include <algorithm>
#include <map>

#include "partition/fusion.hpp"

namespace vkfuse::partition {

using ir::NodeId;

std::int64_t positions_of(const GraphAnalysis& analysis, const Cluster& cluster) {
  std::int64_t most = 0;
  const auto count = [&](NodeId id) {
    const auto sizes = resolve(analysis.graph.node(id).type.shape, analysis.symbols);
    const auto elements = sizes ? element_count(*sizes) : Result<std::int64_t>(0);
    return elements ? *elements : 0;
  };
  for (NodeId id : cluster.members) {
    const ir::Node& node = analysis.graph.node(id);
    most = std::max(most, count(id));
    if (node.op->cls == ops::OpClass::reduce || node.op->cls == ops::OpClass::scan)
      most = std::max(most, count(node.operands[0]));
    if (node.op->cls != ops::OpClass::contraction) continue;
    std::int64_t contracted = 1;
    for (int axis : std::get<ir::DotPayload>(node.payload).contract_a) {
      const auto sizes = resolve(analysis.graph.node(node.operands[0]).type.shape, analysis.symbols);
      contracted *= sizes ? (*sizes)[static_cast<std::size_t>(axis)] : 1;
    }
    most = std::max(most, count(id) * contracted);
  }
  return most;
}

bool is_launch_bound(const Target& target, double microseconds) {
  constexpr double kLaunchBound = 0.05;  // of the time of kernels that a launch takes
  return microseconds * kLaunchBound <= schedule::costs_of(target).launch_us;
}

bool is_launch_bound(const Target& target, const Cluster& cluster) {
  const double microseconds = cluster.kernel_cost.microseconds;
  return !cluster.members.empty() && microseconds != 0 && is_launch_bound(target, microseconds);
}

bool fuse_horizontally(Context& context, Search& search) {
  constexpr std::size_t kMostTried = 4;  // of as many positions
  Clusters& clusters = search.clusters;
  bool changed = false;
  std::map<std::int64_t, std::vector<ClusterId>> tried;
  for (ClusterId cluster = 0; cluster < clusters.size(); ++cluster) {
    if (!is_launch_bound(context.target, clusters[cluster])) continue;
    std::vector<ClusterId>& others = tried[positions_of(context.analysis, clusters[cluster])];
    bool fused = false;
    for (std::size_t i = 0; i < others.size() && !fused; ++i) {
      const double both = clusters[others[i]].kernel_cost.microseconds + clusters[cluster].kernel_cost.microseconds;
      fused = is_launch_bound(context.target, both) && !try_fusion(context, clusters, {others[i], cluster});
    }
    changed = changed || fused;
    if (!fused && others.size() < kMostTried) others.push_back(cluster);
  }
  return changed;
}

}  // namespace vkfuse::partition

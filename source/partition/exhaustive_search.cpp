// Graphs of few ops: the best of all partitions.
#include <limits>
#include <numeric>

#include "partition/optimal_partition.hpp"

namespace vkfuse::partition {

using ir::NodeId;

bool search_exhaustively(Context& context, Search& search) {
  constexpr std::size_t kMostNodes = 8;           // some milliseconds
  constexpr double kNoMore = 0.97, kMore = 0.87;  // of the time of what was found, for as many bytes, and for more
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < context.analysis.graph.size(); ++id) {
    if (context.analysis.is_computed[id]) nodes.push_back(id);
  }
  if (nodes.size() < 3 || nodes.size() > kMostNodes) return false;
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (const Cluster& cluster : search.clusters.all) {
    microseconds += cluster.kernel_cost.microseconds;
    bytes += cluster.kernel_cost.bytes;
  }
  OptimalPartition best = optimal_partition(context, nodes, std::numeric_limits<double>::infinity());
  const double enough = best.bytes <= bytes ? kNoMore : kMore;
  if (best.kernels.empty() || best.microseconds > microseconds * enough) return false;
  std::vector<ClusterId> all(search.clusters.size());
  std::iota(all.begin(), all.end(), ClusterId{0});
  if (!repartition(context, search.clusters, std::move(all), std::move(best.kernels))) return false;
  search.reasons.looked_at_all = true;
  return true;
}

}  // namespace vkfuse::partition

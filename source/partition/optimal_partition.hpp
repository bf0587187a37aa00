// The best of all partitions of a few nodes.
#pragma once

#include "partition/search.hpp"

namespace vkfuse::partition {

/// Nodes as kernels, and what those move and take.
struct OptimalPartition {
  std::vector<std::vector<ir::NodeId>> kernels;
  double microseconds = 0;
  std::int64_t bytes = 0;
};

/// The fastest partition of these nodes, which are sorted, that takes less than `limit`; no kernels where there is
/// none. What other nodes read of them is stored.
OptimalPartition optimal_partition(Context& context, const std::vector<ir::NodeId>& nodes, double limit);

/// Other kernels in place of these, unless a kernel would wait for itself.
bool repartition(Context& context, Clusters& clusters, std::vector<ClusterId> replaced,
                 std::vector<std::vector<ir::NodeId>> kernels);

}  // namespace vkfuse::partition

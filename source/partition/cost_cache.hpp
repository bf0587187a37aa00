// What is known of kernels, for several searches: forms of one graph have most of their kernels in common.
#pragma once

#include <functional>
#include <memory>

#include "partition/partition.hpp"

namespace vkfuse::partition {

/// Costs of kernels by their structure, for one target and one set of sizes.
class CostCache {
 public:
  CostCache();
  ~CostCache();
  CostCache(const CostCache&) = delete;
  CostCache& operator=(const CostCache&) = delete;

  struct Known;
  [[nodiscard]] Known& known() const { return *known_; }

 private:
  std::unique_ptr<Known> known_;
};

/// A partition with what its kernels move and take together.
struct CostedPartition {
  Partition partition;
  std::int64_t bytes = 0;
  double microseconds = 0;  ///< modelled
};

/// The partition of another form of a graph, from which that of this one begins: kernels whose nodes are here as they
/// were there are kernels, and are looked at again where a neighbour is none of them.
struct WarmStart {
  const ir::Graph& graph;
  const Partition& partition;
  const std::vector<std::optional<ir::NodeId>>& places;  ///< of its nodes, here
};

/// As without `cost_cache`, which has been given to searches for this target at these sizes alone. The partition is the
/// same, unless it has a warm start.
Result<CostedPartition> partition(const ir::Graph& graph, const Target& target, const Options& options,
                                  CostCache& cost_cache, const WarmStart* warm_start = nullptr);

}  // namespace vkfuse::partition

// The clusters of a search, each a kernel: what they have, and of each value which of them compute, own and read it.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "partition/kernel_cost.hpp"

namespace vkfuse::partition {

using ClusterId = std::uint32_t;
inline constexpr ClusterId kNoCluster = ~ClusterId{0};

inline bool is_among(std::span<const ClusterId> clusters, ClusterId cluster) {
  return std::find(clusters.begin(), clusters.end(), cluster) != clusters.end();
}

struct Cluster {
  std::vector<ir::NodeId> members;  ///< sorted; empty where the cluster is no more
  KernelCost kernel_cost;
  int version = 0;      ///< of its members
  bool frozen = false;  ///< by the warm start, unless something beside it changes
};

/// A value: it refers to nothing, and a copy is a partition to come back to.
struct Clusters {
  std::vector<Cluster> all;
  std::vector<ClusterId> owner;                   ///< of each node: the cluster that stores it if any does
  std::vector<std::vector<ClusterId>> computing;  ///< of each node: the clusters that have it as a member
  std::vector<std::vector<ClusterId>> readers;    ///< of each value: the clusters that load it
  /// Clusters that store a value of a lower number than one they read: they compute several things. The lowest that is
  /// stored and the highest that is read.
  std::map<ClusterId, std::pair<ir::NodeId, ir::NodeId>> backwards;
  int version = 0;  ///< the last that a cluster has got

  Cluster& operator[](ClusterId cluster) { return all[cluster]; }
  const Cluster& operator[](ClusterId cluster) const { return all[cluster]; }
  [[nodiscard]] std::size_t size() const { return all.size(); }
  /// An empty one.
  ClusterId add();

  [[nodiscard]] bool are_frozen(std::span<const ClusterId> clusters) const;
  /// Whether a cluster stores a value below `last` and reads one that is not. Where none does, numbers of values grow
  /// along a path through kernels, so that a walk can stop where all that matter are passed.
  [[nodiscard]] bool leads_back_below(ir::NodeId last) const;
  /// Clusters that store what this one reads, read what it stores, or read the same; a few of them.
  [[nodiscard]] std::vector<ClusterId> neighbours_of(ClusterId cluster) const;
  void note_backwards(ClusterId cluster);
};

/// Owners while a change is tried. They are given back at the end of the scope, unless the change is kept.
class ProvisionalOwners {
 public:
  explicit ProvisionalOwners(Clusters& clusters) : clusters_(clusters) {}
  ProvisionalOwners(const ProvisionalOwners&) = delete;
  ProvisionalOwners& operator=(const ProvisionalOwners&) = delete;
  ~ProvisionalOwners();

  void set(ir::NodeId id, ClusterId owner);
  void keep() { before_.clear(); }

 private:
  Clusters& clusters_;
  std::vector<std::pair<ir::NodeId, ClusterId>> before_;
};

}  // namespace vkfuse::partition

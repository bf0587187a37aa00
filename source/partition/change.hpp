// Changes of clusters: what is made of them, what that moves and takes, and whether it can run.
#pragma once

#include "partition/search.hpp"

namespace vkfuse::partition {

/// What clusters become: some are replaced by as many others, of which some may be empty.
struct Change {
  std::vector<ClusterId> clusters;
  std::vector<Cluster> made;
  std::int64_t bytes = 0, bytes_before = 0;
  double microseconds = 0, microseconds_before = 0;
};

/// A change without costs. A copy that nothing in its kernel needs any more goes.
Change begin_change(Context& context, const Clusters& clusters, std::vector<ClusterId> changed,
                    std::vector<std::vector<ir::NodeId>> members);
/// Bytes of all that the kernels would read and store, whole: seen without loops and schedules.
std::int64_t estimated_bytes(Context& context, const Clusters& clusters, Change& change);
OrRefusal<Change> cost_change(Context& context, const Clusters& clusters, std::vector<ClusterId> changed,
                              std::vector<std::vector<ir::NodeId>> members);
/// Whether no kernel waits for itself after a change: no path leads from one that is made back to it.
bool is_acyclic(const Clusters& clusters, const Change& change);
void apply(Scratch& scratch, Clusters& clusters, Change change);

}  // namespace vkfuse::partition

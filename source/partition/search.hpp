// The search for a partition: free functions over clusters. partition.cpp has the table of them, and says in which
// order they are tried.
#pragma once

#include <map>
#include <set>

#include "partition/clusters.hpp"
#include "partition/partition.hpp"

namespace vkfuse::partition {

/// Sets for the change that is looked at: of graphs of very many nodes they are not made anew for each.
struct Scratch {
  explicit Scratch(std::size_t nodes)
      : assignment(nodes, 0), assigned(nodes), computed(nodes), read(nodes), changed(nodes) {}

  std::vector<std::size_t>
      assignment;  ///< which of the kernels that are made a node belongs to, if it is in `assigned`
  VisitedSet assigned, computed, read;  ///< of nodes
  VisitedSet changed, visited;          ///< of clusters
};

/// What does not change during a search, and the cost model, which answers alike whatever it was asked before.
struct Context {
  Context(GraphAnalysis of, const Target& on, const Options& given, CostCache& cost_cache)
      : analysis(std::move(of)),
        target(on),
        options(given),
        cost_model(analysis, target, options, cost_cache),
        scratch(analysis.graph.size()) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const GraphAnalysis analysis;
  const Target& target;
  const Options& options;
  KernelCostModel cost_model;
  Scratch scratch;
};

/// What was tried at which versions of clusters and need not be tried again, and how much was: searches end, so that
/// large graphs are not searched for long.
struct Tried {
  std::map<std::pair<ClusterId, ClusterId>, std::pair<int, int>> fusions, siblings;
  std::map<ir::NodeId, std::vector<int>> rematerializations;  ///< at these versions of producer and readers
  std::map<ClusterId, int> min_cuts;                          ///< the newest of it and of who stores what it reads
  std::map<ClusterId, int> moves;                             ///< the newest of it and its neighbours
  std::set<std::pair<std::vector<ClusterId>, std::vector<int>>> windows;
  int windows_costed = 0;
  int min_cuts_costed = 0;
  int moves_estimated = 0;
  int moves_costed = 0;
};

/// Why values are stored.
struct Reasons {
  std::map<ir::NodeId, std::vector<Refusal>> fusion;  ///< why a value is not computed in the kernel that reads it
  std::map<ir::NodeId, Refusal> rematerialization;
  bool looked_at_all = false;
};

/// The state of a search.
struct Search {
  Clusters clusters;
  Tried tried = {};
  Reasons reasons = {};
};

/// One kernel for each node that is computed.
struct Start {
  Clusters clusters;
  std::vector<ir::NodeId> impossible;   ///< ops that no kernel can compute
  std::vector<ir::NodeId> over_budget;  ///< ops that are over the target's budget with the views in front of them
  std::optional<Error> error;           ///< of the first that is impossible
};
Start start_clusters(Context& context);
/// Where ops are impossible: of each a view in front of it, which a kernel can compute, and which the op would read
/// instead of more than one value.
std::vector<ir::NodeId> views_to_materialize(Context& context, const Start& start);
/// Of ops that are over the budget with the views in front of them, the last of these that chooses. Stored, it is a
/// kernel within the budget, and the op reads it.
std::vector<ir::NodeId> views_over_budget(Context& context, const Start& start);

/// After a start: kernels of another form's partition, as far as their nodes are here. They are frozen.
void warm_start_from(Context& context, Search& search, const WarmStart& warm_start);

// Each says whether anything changed.
/// A producer and a reader become one kernel.
bool fuse_vertically(Context& context, Search& search);
/// Kernels that read the same value read it once when they are one.
bool fuse_siblings(Context& context, Search& search);
/// Kernels that run over as many positions, one of which may be the other's as well, are launched once.
bool fuse_horizontally(Context& context, Search& search);
/// Parts of kernels go to others that they share values with, or become kernels.
bool move_parts(Context& context, Search& search);
/// The fastest of all partitions of a few ops, where that is clearly faster.
bool search_exhaustively(Context& context, Search& search);
/// Neighbouring kernels of few ops become the fastest of all partitions of those.
bool search_locally(Context& context, Search& search);
/// Values that are stored are computed where they are read instead, where that pays.
bool rematerialize_values(Context& context, Search& search);
/// The same whether it pays or not.
bool rematerialize_all_values(Context& context, Search& search);
/// Each kernel reads what together has the fewest bytes, and computes the rest.
bool rematerialize_by_min_cut(Context& context, Search& search);

/// What is left to store must fit the buffers of the device.
Result<void> check_sizes(const Context& context, const Clusters& clusters);
CostedPartition finish(const Context& context, const Search& search);

// What several of them ask.
/// Positions that the loops of a cluster run over: those of its largest member or of what that reduces.
std::int64_t positions_of(const GraphAnalysis& analysis, const Cluster& cluster);
/// Whether a launch is so large a part of this time that saving one is worth a try.
bool is_launch_bound(const Target& target, double microseconds);
/// Whether a cluster may gain from sharing a launch.
bool is_launch_bound(const Target& target, const Cluster& cluster);
/// What a kernel may take longer by the model: times are modelled to some tenth, from constants of the device's type
/// more roughly than from measured ones; bytes are known. That a value need not exist is worth it.
double slack(const Target& target, std::int64_t bytes, std::int64_t before);

}  // namespace vkfuse::partition

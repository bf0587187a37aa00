// Groups of nodes, each a kernel, and the moves that change them. partition.cpp says in which order they are tried.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "partition/kernel_cost.hpp"
#include "partition/partition.hpp"

namespace vkfuse::partition {

using ClusterId = std::uint32_t;
inline constexpr ClusterId kNoCluster = ~ClusterId{0};

inline void sort_unique(std::vector<ir::NodeId>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

inline bool contains(const std::vector<ir::NodeId>& sorted, ir::NodeId id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

inline bool is_among(std::span<const ClusterId> clusters, ClusterId cluster) {
  return std::find(clusters.begin(), clusters.end(), cluster) != clusters.end();
}

struct Cluster {
  std::vector<ir::NodeId> members;  ///< sorted; empty where the group is no more
  KernelCost kernel_cost;
  int version = 0;      ///< of its members
  bool frozen = false;  ///< by the search that this one began with, unless something beside it changes
};

class Search {
 public:
  Search(const GraphAnalysis& analysis, const Target& target, const Options& options, CostCache& cost_cache)
      : analysis_(analysis),
        target_(target),
        options_(options),
        cost_model_(analysis, target, options.has(PlannerPass::memo), options.alone, cost_cache),
        assignment_(analysis.graph.size(), 0),
        assigned_(analysis.graph.size()),
        computed_(analysis.graph.size()),
        read_(analysis.graph.size()),
        changed_(analysis.graph.size()) {}

  /// One kernel for each node that is computed.
  Result<void> start();
  /// After a start that failed: a view in front of the op that no kernel can compute, which a kernel can, and which the
  /// op would read instead of more than one value.
  [[nodiscard]] std::vector<ir::NodeId> views_to_materialize();

  /// After a start: of ops that are over the budget with the views in front of them, the last of these that chooses.
  /// Stored, it is a kernel within the budget, and the op reads it.
  [[nodiscard]] std::vector<ir::NodeId> views_over_budget();

  /// After a start: kernels of another form's partition, as far as their nodes are here. They are settled.
  void warm_start_from(const WarmStart& warm_start);

  // Each says whether anything changed.
  bool fuse_vertically();
  bool fuse_siblings();
  bool fuse_horizontally();
  /// Parts of kernels go to others that they share values with, or become kernels.
  bool move_parts();
  /// The fastest of all partitions of a few ops, where that is clearly faster.
  bool search_exhaustively();
  /// Neighbouring kernels of few ops become the fastest of all partitions of those.
  bool search_locally();
  /// Values that are stored are computed where they are read instead, where that pays; in any case if `always`.
  bool rematerialize_values(bool always);
  /// Each kernel reads what together has the fewest bytes, and computes the rest.
  bool rematerialize_by_min_cut();

  [[nodiscard]] Result<void> check_sizes() const;
  [[nodiscard]] CostedPartition finish() const;

 private:
  static constexpr double kLaunchBound =
      0.05;  ///< of the time of kernels that a launch takes, where saving one is worth a try
  /// What groups become: some are replaced by as many others, of which some may be empty.
  struct Change {
    std::vector<ClusterId> clusters;
    std::vector<Cluster> made;
    std::int64_t bytes = 0, bytes_before = 0;
    double microseconds = 0, microseconds_before = 0;
  };
  [[nodiscard]] std::optional<ir::NodeId> view_to_materialize(ir::NodeId id);
  [[nodiscard]] std::optional<ir::NodeId> last_choice_before(ir::NodeId id);
  using Visit = std::function<Result<void>(Cluster&, const std::function<bool(ir::NodeId)>& stored)>;
  Result<void> each_made(Change& change, const Visit& visit);
  void note_assignment_and_reads(const Change& change);
  Change begun(std::vector<ClusterId> clusters, std::vector<std::vector<ir::NodeId>> members);
  Result<Change> costed(std::vector<ClusterId> clusters, std::vector<std::vector<ir::NodeId>> members);
  [[nodiscard]] bool are_frozen(std::span<const ClusterId> clusters) const;
  [[nodiscard]] bool is_acyclic(const Change& change) const;
  [[nodiscard]] bool leads_back_below(ir::NodeId last) const;
  void note_backwards(ClusterId cluster);
  bool try_move(ClusterId from, ClusterId to, const std::vector<ir::NodeId>& part);
  [[nodiscard]] std::vector<ClusterId> neighbours_of(const Cluster& cluster, ClusterId own) const;
  [[nodiscard]] std::vector<std::vector<ir::NodeId>> parts_of(const Cluster& cluster) const;
  [[nodiscard]] bool shares(const std::vector<ir::NodeId>& part, ClusterId to) const;
  bool move_parts_of(ClusterId from);
  void apply(Change change);
  [[nodiscard]] double slack(std::int64_t bytes, std::int64_t before) const;

  /// Nodes as kernels, and what those move and take.
  struct Repartitioned {
    std::vector<std::vector<ir::NodeId>> kernels;
    double microseconds = 0;
    std::int64_t bytes = 0;
  };
  Repartitioned best_of_all(const std::vector<ir::NodeId>& nodes, double limit);
  bool repartition(std::vector<ClusterId> clusters, std::vector<std::vector<ir::NodeId>> kernels);
  using HorizontalCandidates = std::map<std::int64_t, std::vector<ClusterId>>;
  [[nodiscard]] HorizontalCandidates launch_bound() const;
  [[nodiscard]] std::vector<ClusterId> window_around(ClusterId first, ClusterId second,
                                                     const HorizontalCandidates& horizontal_candidates) const;
  bool repartition_window(const std::vector<ClusterId>& window);

  [[nodiscard]] bool has_no_way_in(std::span<const ClusterId> clusters) const;
  [[nodiscard]] bool connected_outside(std::span<const ClusterId> clusters);
  Result<void> try_fusion(std::vector<ClusterId> clusters);
  Result<void> try_with_producer(ClusterId from, ClusterId to);
  bool fuse_producer(ir::NodeId value, ClusterId to);
  Result<void> try_rematerialization(ir::NodeId value, bool always);
  [[nodiscard]] std::vector<ir::NodeId> fixed_members(const Cluster& cluster) const;
  [[nodiscard]] std::optional<std::vector<ir::NodeId>> cheapest_reads(ClusterId cluster) const;
  [[nodiscard]] std::int64_t cost_of_reading(ir::NodeId id, ClusterId reader) const;
  Result<void> try_min_cut(ClusterId cluster);
  [[nodiscard]] Result<std::vector<ir::NodeId>> backward_slice_of(ir::NodeId value, const Cluster& cluster) const;
  [[nodiscard]] std::vector<ir::NodeId> closure_of(std::vector<ir::NodeId> roots,
                                                   const std::vector<ir::NodeId>& members) const;
  [[nodiscard]] std::int64_t positions_of(const Cluster& cluster) const;
  enum class Emitted : std::uint8_t { no, waiting, yes };  ///< waiting: for what it reads
  void emit(ClusterId root, std::vector<Emitted>& emitted, Partition& result) const;
  [[nodiscard]] std::string reason_of(ir::NodeId value) const;

  const GraphAnalysis& analysis_;
  const Target& target_;
  const Options& options_;
  KernelCostModel cost_model_;
  std::vector<Cluster> clusters_;
  // Of a change that is looked at, by node.
  std::vector<std::size_t>
      assignment_;  ///< which of the kernels that are made it belongs to, where it is in `assigned_`
  VisitedSet assigned_, computed_, read_;
  VisitedSet changed_;                             ///< of groups
  std::vector<ClusterId> owner_;                   ///< of each node: the group that stores it if any does
  std::vector<std::vector<ClusterId>> computing_;  ///< the groups that have it as a member
  std::vector<std::vector<ClusterId>> readers_;    ///< of each value, the groups that load it
  std::map<ir::NodeId, std::string> reasons_;      ///< why a value is not computed in the kernel that reads it
  std::map<ir::NodeId, std::string> rematerialization_reasons_;
  std::map<std::pair<ClusterId, ClusterId>, std::pair<int, int>> refused_;  ///< at these versions
  std::map<ir::NodeId, std::vector<int>> refused_rematerialization_;  ///< at these versions of producer and readers
  /// Groups that store a value of a lower number than one they read: they compute several things. The lowest that is
  /// stored and the highest that is read.
  std::map<ClusterId, std::pair<ir::NodeId, ir::NodeId>> backwards_;
  std::vector<int> seen_;  ///< of each group, the last walk of connected_outside that came to it
  int walks_ = 0;
  std::map<ClusterId, int> min_cuts_tried_;  ///< at this version of it and of who stores what it reads
  std::map<ClusterId, int> moves_tried_;     ///< at this version of it and its neighbours
  std::set<std::pair<std::vector<ClusterId>, std::vector<int>>> windows_tried_;  ///< at these versions
  int windows_costed_ = 0;
  int min_cuts_costed_ = 0;
  int moves_estimated_ = 0;
  int moves_costed_ = 0;
  int version_ = 0;
  std::vector<ir::NodeId> impossible_;   ///< ops at which the start failed
  std::vector<ir::NodeId> over_budget_;  ///< ops that are over the target's budget with the views in front of them
  bool looked_at_all_ = false;
  bool outside_ = false;  ///< the last refusal was for a kernel between the two
};

}  // namespace vkfuse::partition

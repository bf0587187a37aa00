// Groups of nodes, each a kernel, and the moves that change them. partition.cpp says in which order they are tried.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "partition/partition.hpp"
#include "partition/price.hpp"

namespace vkfuse::partition {

using GroupId = std::uint32_t;
inline constexpr GroupId kNoGroup = ~GroupId{0};

inline void sort_unique(std::vector<ir::NodeId>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

inline bool contains(const std::vector<ir::NodeId>& sorted, ir::NodeId id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

inline bool is_among(std::span<const GroupId> groups, GroupId group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

struct Group {
  std::vector<ir::NodeId> members;  ///< sorted; empty where the group is no more
  Price price;
  int version = 0;       ///< of its members
  bool settled = false;  ///< by the search that this one began with, unless something beside it changes
};

class Search {
 public:
  Search(const Facts& facts, const Target& target, const Options& options, Prices& prices)
      : facts_(facts),
        target_(target),
        options_(options),
        pricer_(facts, target, options.has(Mechanism::memo), options.alone, prices),
        homes_(facts.graph.size(), 0),
        homed_(facts.graph.size()),
        computed_(facts.graph.size()),
        read_(facts.graph.size()),
        changed_(facts.graph.size()) {}

  /// One kernel for each node that is computed.
  Result<void> start();
  /// After a start that failed: a view in front of the op that no kernel can compute, which a kernel can, and which the
  /// op would read instead of more than one value.
  [[nodiscard]] std::vector<ir::NodeId> views_to_keep();

  /// After a start: of ops that are over the budget with the views in front of them, the last of these that chooses.
  /// Stored, it is a kernel within the budget, and the op reads it.
  [[nodiscard]] std::vector<ir::NodeId> views_over_budget();

  /// After a start: kernels of another form's partition, as far as their nodes are here. They are settled.
  void begin_with(const Seed& seed);

  // Each says whether anything changed.
  bool merge_producers();
  bool merge_siblings();
  bool merge_unrelated();
  /// Parts of kernels go to others that they share values with, or become kernels.
  bool move_parts();
  /// The fastest of all partitions of a few ops, where that is clearly faster.
  bool search_all();
  /// Neighbouring kernels of few ops become the fastest of all partitions of those.
  bool redivide_windows();
  /// Values that are stored are computed where they are read instead, where that pays; in any case if `always`.
  bool recompute_values(bool always);
  /// Each kernel reads what together has the fewest bytes, and computes the rest.
  bool cut_reads();

  [[nodiscard]] Result<void> check_sizes() const;
  [[nodiscard]] Priced finish() const;

 private:
  static constexpr double kLaunchBound =
      0.05;  ///< of the time of kernels that a launch takes, where saving one is worth a try
  /// What groups become: some are replaced by as many others, of which some may be empty.
  struct Change {
    std::vector<GroupId> groups;
    std::vector<Group> made;
    std::int64_t bytes = 0, bytes_before = 0;
    double microseconds = 0, microseconds_before = 0;
  };
  [[nodiscard]] std::optional<ir::NodeId> view_to_keep(ir::NodeId id);
  [[nodiscard]] std::optional<ir::NodeId> last_choice_before(ir::NodeId id);
  using Visit = std::function<Result<void>(Group&, const std::function<bool(ir::NodeId)>& stored)>;
  Result<void> each_made(Change& change, const Visit& visit);
  void note_homes_and_reads(const Change& change);
  Change begun(std::vector<GroupId> groups, std::vector<std::vector<ir::NodeId>> members);
  Result<Change> priced(std::vector<GroupId> groups, std::vector<std::vector<ir::NodeId>> members);
  [[nodiscard]] bool are_settled(std::span<const GroupId> groups) const;
  [[nodiscard]] bool is_acyclic(const Change& change) const;
  [[nodiscard]] bool leads_back_below(ir::NodeId last) const;
  void note_backwards(GroupId group);
  bool try_move(GroupId from, GroupId to, const std::vector<ir::NodeId>& part);
  [[nodiscard]] std::vector<GroupId> neighbours_of(const Group& group, GroupId own) const;
  [[nodiscard]] std::vector<std::vector<ir::NodeId>> parts_of(const Group& group) const;
  [[nodiscard]] bool shares(const std::vector<ir::NodeId>& part, GroupId to) const;
  bool move_parts_of(GroupId from);
  void apply(Change change);
  [[nodiscard]] double slack(std::int64_t bytes, std::int64_t before) const;

  /// Nodes as kernels, and what those move and take.
  struct Redivided {
    std::vector<std::vector<ir::NodeId>> kernels;
    double microseconds = 0;
    std::int64_t bytes = 0;
  };
  Redivided best_of_all(const std::vector<ir::NodeId>& nodes, double limit);
  bool redivide(std::vector<GroupId> groups, std::vector<std::vector<ir::NodeId>> kernels);
  using Unrelated = std::map<std::int64_t, std::vector<GroupId>>;
  [[nodiscard]] Unrelated launch_bound() const;
  [[nodiscard]] std::vector<GroupId> window_around(GroupId first, GroupId second, const Unrelated& unrelated) const;
  bool redivide_window(const std::vector<GroupId>& window);

  [[nodiscard]] bool has_no_way_in(std::span<const GroupId> groups) const;
  [[nodiscard]] bool connected_outside(std::span<const GroupId> groups);
  Result<void> try_merge(std::vector<GroupId> groups);
  Result<void> try_with_producer(GroupId from, GroupId to);
  bool merge_producer(ir::NodeId value, GroupId to);
  Result<void> try_recompute(ir::NodeId value, bool always);
  [[nodiscard]] std::vector<ir::NodeId> fixed_members(const Group& group) const;
  [[nodiscard]] std::optional<std::vector<ir::NodeId>> cheapest_reads(GroupId group) const;
  [[nodiscard]] std::int64_t cost_of_reading(ir::NodeId id, GroupId reader) const;
  Result<void> try_cut(GroupId group);
  [[nodiscard]] Result<std::vector<ir::NodeId>> cone_of(ir::NodeId value, const Group& group) const;
  [[nodiscard]] std::vector<ir::NodeId> closure_of(std::vector<ir::NodeId> roots,
                                                   const std::vector<ir::NodeId>& members) const;
  [[nodiscard]] std::int64_t positions_of(const Group& group) const;
  enum class Emitted : std::uint8_t { no, waiting, yes };  ///< waiting: for what it reads
  void emit(GroupId root, std::vector<Emitted>& emitted, Partition& result) const;
  [[nodiscard]] std::string reason_of(ir::NodeId value) const;

  const Facts& facts_;
  const Target& target_;
  const Options& options_;
  Pricer pricer_;
  std::vector<Group> groups_;
  // Of a change that is looked at, by node.
  std::vector<std::size_t> homes_;  ///< which of the kernels that are made it belongs to, where it is in `homed_`
  Marks homed_, computed_, read_;
  Marks changed_;                                ///< of groups
  std::vector<GroupId> owner_;                   ///< of each node: the group that stores it if any does
  std::vector<std::vector<GroupId>> computing_;  ///< the groups that have it as a member
  std::vector<std::vector<GroupId>> readers_;    ///< of each value, the groups that load it
  std::map<ir::NodeId, std::string> reasons_;    ///< why a value is not computed in the kernel that reads it
  std::map<ir::NodeId, std::string> recompute_reasons_;
  std::map<std::pair<GroupId, GroupId>, std::pair<int, int>> refused_;  ///< at these versions
  std::map<ir::NodeId, std::vector<int>> refused_recompute_;            ///< at these versions of producer and readers
  /// Groups that store a value of a lower number than one they read: they compute several things. The lowest that is
  /// stored and the highest that is read.
  std::map<GroupId, std::pair<ir::NodeId, ir::NodeId>> backwards_;
  std::vector<int> seen_;  ///< of each group, the last walk of connected_outside that came to it
  int walks_ = 0;
  std::map<GroupId, int> cuts_tried_;   ///< at this version of it and of who stores what it reads
  std::map<GroupId, int> moves_tried_;  ///< at this version of it and its neighbours
  std::set<std::pair<std::vector<GroupId>, std::vector<int>>> windows_tried_;  ///< at these versions
  int windows_priced_ = 0;
  int cuts_priced_ = 0;
  int moves_estimated_ = 0;
  int moves_priced_ = 0;
  int version_ = 0;
  std::vector<ir::NodeId> impossible_;   ///< ops at which the start failed
  std::vector<ir::NodeId> over_budget_;  ///< ops that are over the target's budget with the views in front of them
  bool looked_at_all_ = false;
  bool outside_ = false;  ///< the last refusal was for a kernel between the two
};

}  // namespace vkfuse::partition

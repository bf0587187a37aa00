// Parts of kernels go to other kernels, or become kernels.
#include <algorithm>
#include <set>

#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

using Part = std::vector<NodeId>;  // of a cluster's members; sorted

/// What of the cluster is computed from a member, which is included.
Part computed_from(const GraphAnalysis& analysis, const Cluster& cluster, NodeId root) {
  Part part{root};
  for (NodeId id : cluster.members) {
    const auto& operands = analysis.operands[id];
    const auto is_in_part = [&](NodeId operand) { return contains(part, operand); };
    if (id > root && std::any_of(operands.begin(), operands.end(), is_in_part)) part.push_back(id);
  }
  return part;
}

/// The part with what is computed for it alone, but for what is in `below`.
Part with_exclusive_producers(const GraphAnalysis& analysis, const Cluster& cluster, Part part, const Part& below) {
  for (auto id = cluster.members.rbegin(); id != cluster.members.rend(); ++id) {
    const auto& users = analysis.users[*id];
    const auto is_in_part = [&](NodeId user) { return contains(part, user); };
    if (contains(part, *id) || contains(below, *id) || contains(cluster.kernel_cost.segment.stores, *id) ||
        !std::all_of(users.begin(), users.end(), is_in_part))
      continue;
    part.insert(std::upper_bound(part.begin(), part.end(), *id), *id);
  }
  return part;
}

/// For each member, what of the cluster is computed from it, the same with what is computed for that alone, and what it
/// is computed from; itself included.
std::vector<Part> parts_of(const GraphAnalysis& analysis, const Cluster& cluster) {
  constexpr std::size_t kMost = 40;  // members of a cluster that is taken apart: two products of weights of four bits
  std::set<Part> parts;
  if (cluster.members.size() > kMost) return {};
  for (NodeId root : cluster.members) {
    Part above = computed_from(analysis, cluster, root);
    Part below = analysis.closure_of({root}, cluster.members);
    sort_unique(below);
    parts.insert(with_exclusive_producers(analysis, cluster, above, below));
    if (above.size() < cluster.members.size()) parts.insert(std::move(above));
    if (below.size() < cluster.members.size()) parts.insert(std::move(below));
    parts.insert({root});
  }
  parts.erase(cluster.members);
  return {parts.begin(), parts.end()};
}

/// Whether the change is faster, or moves fewer bytes in as much time as times are modelled exactly. A few more bytes
/// are moved where that is much faster: two matrices times one vector, which matrix units take one at a time.
bool pays(const Target& target, const Change& change) {
  constexpr double kFaster = 0.999, kAsFast = 1.001, kFewMore = 1.01;
  // By more than what a fusion may be slower by where costs are not measured: it would be taken back.
  const double much_faster = target.costs ? 0.9 : 0.85;
  if (change.bytes > change.bytes_before)
    return change.microseconds < change.microseconds_before * much_faster &&
           static_cast<double>(change.bytes) <= static_cast<double>(change.bytes_before) * kFewMore;
  return change.microseconds < change.microseconds_before * kFaster ||
         (change.bytes < change.bytes_before && change.microseconds <= change.microseconds_before * kAsFast);
}

/// The members of a part that every kernel may have its own of: what is made of positions alone, as the shifts of
/// numbers of few bits, and, where more than elementwise work of the part is read, what is elementwise.
std::vector<NodeId> may_be_twice(const GraphAnalysis& analysis, const Part& part, const std::vector<NodeId>& left) {
  std::vector<NodeId> twice;
  const auto is_read = [&](NodeId id) {
    const auto& users = analysis.users[id];
    return std::any_of(users.begin(), users.end(), [&](NodeId user) { return contains(left, user); });
  };
  const bool reads_more =
      std::any_of(part.begin(), part.end(), [&](NodeId id) { return !analysis.is_pointwise(id) && is_read(id); });
  for (NodeId id : part) {
    const auto is_known = [&](NodeId operand) {
      return contains(twice, operand) || segment::is_literal(analysis.graph, operand);
    };
    const auto& operands = analysis.operands[id];
    if (analysis.is_pointwise(id) && (reads_more || std::all_of(operands.begin(), operands.end(), is_known)))
      twice.push_back(id);
  }
  return twice;
}

/// The members without the part; if that becomes a kernel (`splits`), with what of it they are made of and every kernel
/// may have.
std::vector<NodeId> members_left(const GraphAnalysis& analysis, const Cluster& cluster, const Part& part, bool splits) {
  std::vector<NodeId> left;
  std::set_difference(cluster.members.begin(), cluster.members.end(), part.begin(), part.end(),
                      std::back_inserter(left));
  const std::vector<NodeId> twice = splits ? may_be_twice(analysis, part, left) : std::vector<NodeId>();
  for (auto id = twice.rbegin(); id != twice.rend(); ++id) {
    const auto& users = analysis.users[*id];
    if (std::any_of(users.begin(), users.end(), [&](NodeId user) { return contains(left, user); }))
      left.insert(std::upper_bound(left.begin(), left.end(), *id), *id);
  }
  return left;
}

bool try_move(Context& context, Search& search, ClusterId from, ClusterId to, const Part& part) {
  Clusters& clusters = search.clusters;
  const bool splits = clusters[to].members.empty();
  std::vector<NodeId> left = members_left(context.analysis, clusters[from], part, splits);
  if (left == clusters[from].members) return false;
  std::vector<NodeId> larger = clusters[to].members;
  larger.insert(larger.end(), part.begin(), part.end());
  Change change = begin_change(context, clusters, {from, to}, {std::move(left), std::move(larger)});
  // Most change nothing for the better, which is seen without loops and schedules.
  const std::int64_t after = estimated_bytes(context, clusters, change);
  ++search.tried.moves_estimated;
  if (!splits && after > change.bytes_before) return false;
  const int known = context.cost_model.costed();
  auto outcome = cost_change(context, clusters, {from, to},
                             {std::move(change.made[0].members), std::move(change.made[1].members)});
  search.tried.moves_costed += context.cost_model.costed() - known;
  if (!outcome.ok() || (!splits && outcome->bytes > outcome->bytes_before)) return false;
  if (!pays(context.target, *outcome) || !is_acyclic(clusters, *outcome)) return false;
  apply(context.scratch, clusters, *std::move(outcome));
  return true;
}

/// Whether a kernel reads, stores or computes what the part reads, or reads what the part computes.
bool shares_values(const GraphAnalysis& analysis, const Part& part, const Cluster& cluster) {
  const std::vector<NodeId>& reads = cluster.kernel_cost.segment.reads;
  const auto is_known = [&](NodeId id) {
    return contains(cluster.members, id) || std::find(reads.begin(), reads.end(), id) != reads.end();
  };
  return std::any_of(part.begin(), part.end(), [&](NodeId id) {
    const auto& operands = analysis.operands[id];
    return is_known(id) || std::any_of(operands.begin(), operands.end(), is_known);
  });
}

/// Whether a kernel takes so much longer than its bytes do that it may be two.
bool may_be_two(const Context& context, const KernelCost& kernel_cost) {
  const auto costs = schedule::costs_of(context.target);
  const double copied = static_cast<double>(kernel_cost.bytes) / (costs.copy_gb_per_s * 1e3);
  return kernel_cost.microseconds >= 2 * costs.launch_us + copied;
}

bool try_own_kernel(Context& context, Search& search, ClusterId from, const Part& part) {
  const ClusterId to = search.clusters.add();
  if (try_move(context, search, from, to, part)) return true;
  search.clusters.all.pop_back();
  return false;
}

bool move_part_of(Context& context, Search& search, ClusterId from) {
  const Clusters& clusters = search.clusters;
  const std::vector<ClusterId> neighbours = clusters.neighbours_of(from);
  // Nothing has changed since the last time.
  int newest = clusters[from].version;
  for (ClusterId cluster : neighbours) newest = std::max(newest, clusters[cluster].version);
  const auto known = search.tried.moves.find(from);
  if (known != search.tried.moves.end() && known->second >= newest) return false;
  if (clusters[from].frozen && clusters.are_frozen(neighbours)) return false;
  for (const Part& part : parts_of(context.analysis, clusters[from])) {
    for (ClusterId to : neighbours) {
      if (shares_values(context.analysis, part, clusters[to]) && try_move(context, search, from, to, part)) return true;
    }
    if (may_be_two(context, clusters[from].kernel_cost) && try_own_kernel(context, search, from, part)) return true;
  }
  search.tried.moves[from] = newest;
  return false;
}

}  // namespace

bool move_parts(Context& context, Search& search) {
  constexpr int kMostCosted = 300;
  constexpr int kMostEstimated = 2500, kEstimatedOfNode = 16;  // first layers would use up a number for all
  constexpr int kMostMoves = 8;                                // of parts of one cluster
  const int most_estimated =
      std::max(kMostEstimated, kEstimatedOfNode * static_cast<int>(context.analysis.graph.size()));
  const auto is_enough = [&] {
    return search.tried.moves_costed > kMostCosted || search.tried.moves_estimated > most_estimated;
  };
  bool changed = false;
  for (ClusterId cluster = 0; cluster < search.clusters.size(); ++cluster) {
    const auto may_go_on = [&] { return search.clusters[cluster].members.size() > 1 && !is_enough(); };
    for (int moves = 0; moves < kMostMoves && may_go_on() && move_part_of(context, search, cluster); ++moves)
      changed = true;
  }
  return changed;
}

}  // namespace vkfuse::partition

// A partition is put together kernel by kernel, producers first: what is done is closed under operands, and so is what
// is done with one more kernel.
#include "partition/optimal_partition.hpp"

#include <algorithm>
#include <limits>

#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Set = std::uint32_t;  // of nodes, one bit each

/// A few nodes and what they need of each other, as sets.
class Subgraph {
 public:
  Subgraph(const GraphAnalysis& analysis, const std::vector<NodeId>& nodes)
      : nodes_(nodes), operands_(nodes.size(), 0), users_(nodes.size(), 0), leaves_(nodes.size(), false) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      leaves_[i] = analysis.is_output[nodes[i]];
      for (NodeId operand : analysis.operands[nodes[i]]) operands_[i] |= bit_of(operand);
      for (NodeId user : analysis.users[nodes[i]]) {
        users_[i] |= bit_of(user);
        leaves_[i] = leaves_[i] || bit_of(user) == 0;
      }
    }
  }

  [[nodiscard]] Set all() const { return (Set{1} << nodes_.size()) - 1; }
  /// Whether the set has the operands of all that is in it.
  [[nodiscard]] bool is_closed(Set set) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (has(set, i) && (operands_[i] & ~set) != 0) return false;
    }
    return true;
  }
  [[nodiscard]] std::vector<NodeId> members_of(Set set) const {
    std::vector<NodeId> members;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (has(set, i)) members.push_back(nodes_[i]);
    }
    return members;
  }
  /// Whether a kernel of the set, which has the node, stores it.
  [[nodiscard]] bool is_stored_by(Set set, NodeId id) const {
    const auto i = static_cast<std::size_t>(std::lower_bound(nodes_.begin(), nodes_.end(), id) - nodes_.begin());
    return leaves_[i] || (users_[i] & ~set) != 0;
  }

 private:
  static bool has(Set set, std::size_t i) { return ((set >> i) & 1u) != 0; }
  [[nodiscard]] Set bit_of(NodeId id) const {
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), id);
    return at != nodes_.end() && *at == id ? Set{1} << (at - nodes_.begin()) : Set{0};
  }

  const std::vector<NodeId>& nodes_;
  std::vector<Set> operands_, users_;
  std::vector<bool> leaves_;  ///< of each node: a result, or what a node outside reads
};

/// Time and bytes of kernels of sets, each costed once.
class SetCosts {
 public:
  SetCosts(Context& context, const Subgraph& subgraph)
      : context_(context), subgraph_(subgraph), known_(subgraph.all() + 1) {}

  std::pair<double, std::int64_t> operator()(Set set) {
    if (!known_[set]) {
      const auto kernel_cost =
          context_.cost_model(subgraph_.members_of(set), [&](NodeId id) { return subgraph_.is_stored_by(set, id); });
      known_[set] = kernel_cost.ok() ? std::pair(kernel_cost->microseconds, kernel_cost->bytes)
                                     : std::pair(kNever, std::int64_t{0});
    }
    return *known_[set];
  }

 private:
  Context& context_;
  const Subgraph& subgraph_;
  std::vector<std::optional<std::pair<double, std::int64_t>>> known_;
};

/// The best way to what is done.
struct Best {
  double microseconds = kNever;
  std::int64_t bytes = 0;
  Set last = 0;  // the kernel that comes last
};

/// For each set that is closed under operands.
std::vector<Best> best_ways(Context& context, const Subgraph& subgraph, double limit) {
  const double launch = schedule::costs_of(context.target).launch_us;
  const Set all = subgraph.all();
  SetCosts costs(context, subgraph);
  std::vector<Best> best(all + 1);
  best[0].microseconds = 0;
  for (Set done = 0; done < all; ++done) {
    if (best[done].microseconds == kNever) continue;
    const Set left = all & ~done;
    for (Set next = left; next != 0; next = (next - 1) & left) {
      if (!subgraph.is_closed(done | next)) continue;
      // No kernel takes less than its launch, and what is left after it takes another one.
      const double least = best[done].microseconds + launch * (next == left ? 1 : 2);
      Best& other = best[done | next];
      if (least >= limit || least >= other.microseconds) continue;
      const auto [kernel_microseconds, kernel_bytes] = costs(next);
      const double microseconds = best[done].microseconds + kernel_microseconds;
      if (microseconds < other.microseconds && microseconds < limit)
        other = {microseconds, best[done].bytes + kernel_bytes, next};
    }
  }
  return best;
}

}  // namespace

OptimalPartition optimal_partition(Context& context, const std::vector<NodeId>& nodes, double limit) {
  const Subgraph subgraph(context.analysis, nodes);
  const std::vector<Best> best = best_ways(context, subgraph, limit);
  OptimalPartition found;
  const Set all = subgraph.all();
  if (best[all].microseconds == kNever) return found;
  found.microseconds = best[all].microseconds;
  found.bytes = best[all].bytes;
  for (Set set = all; set != 0; set &= ~best[set].last) found.kernels.push_back(subgraph.members_of(best[set].last));
  return found;
}

bool repartition(Context& context, Clusters& clusters, std::vector<ClusterId> replaced,
                 std::vector<std::vector<NodeId>> kernels) {
  const std::size_t before = clusters.size();
  while (replaced.size() < kernels.size()) replaced.push_back(clusters.add());
  kernels.resize(replaced.size());
  // Where kernels computed something twice, one of them owns it now.
  ProvisionalOwners owners(clusters);
  for (const std::vector<NodeId>& kernel : kernels) {
    for (NodeId id : kernel) {
      if (clusters.owner[id] == kNoCluster) owners.set(id, replaced[0]);
    }
  }
  auto change = cost_change(context, clusters, std::move(replaced), std::move(kernels));
  if (change.ok() && is_acyclic(clusters, *change)) {
    apply(context.scratch, clusters, *std::move(change));
    owners.keep();
    return true;
  }
  clusters.all.resize(before);
  return false;
}

}  // namespace vkfuse::partition

// Few ops: the best of all partitions. A partition is put together kernel by kernel, producers first: what is done is
// closed under operands, and so is what is done with one more kernel. Graphs of few ops are searched whole, others
// window by window.
#include <algorithm>
#include <limits>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Set = std::uint32_t;  // of nodes, one bit each

/// The best way to what is done.
struct Best {
  double microseconds = kNever;
  std::int64_t bytes = 0;
  Set last = 0;  // the kernel that comes last
};

}  // namespace

/// The fastest partition of these nodes that takes less than `limit`; no kernels where there is none. What other nodes
/// read of them is stored.
Search::Repartitioned Search::best_of_all(const std::vector<NodeId>& nodes, double limit) {
  const auto bit_of = [&](NodeId id) {
    const auto at = std::lower_bound(nodes.begin(), nodes.end(), id);
    return at != nodes.end() && *at == id ? Set{1} << (at - nodes.begin()) : Set{0};
  };
  std::vector<Set> operands(nodes.size(), 0), users(nodes.size(), 0);
  std::vector<bool> leaves(nodes.size(), false);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    leaves[i] = analysis_.is_output[nodes[i]];
    for (NodeId operand : analysis_.operands[nodes[i]]) operands[i] |= bit_of(operand);
    for (NodeId user : analysis_.users[nodes[i]]) {
      users[i] |= bit_of(user);
      leaves[i] = leaves[i] || bit_of(user) == 0;
    }
  }
  const auto is_closed = [&](Set set) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (((set >> i) & 1u) != 0 && (operands[i] & ~set) != 0) return false;
    }
    return true;
  };
  const auto members_of = [&](Set set) {
    std::vector<NodeId> members;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (((set >> i) & 1u) != 0) members.push_back(nodes[i]);
    }
    return members;
  };
  const auto is_stored_by = [&](Set set) {
    return [&, set](NodeId id) {
      const auto i = static_cast<std::size_t>(std::lower_bound(nodes.begin(), nodes.end(), id) - nodes.begin());
      return leaves[i] || (users[i] & ~set) != 0;
    };
  };
  const double launch = schedule::costs_of(target_).launch_us;
  const Set all = (Set{1} << nodes.size()) - 1;
  std::vector<std::optional<std::pair<double, std::int64_t>>> cost_cache(all + 1);
  std::vector<Best> best(all + 1);
  best[0].microseconds = 0;
  for (Set done = 0; done < all; ++done) {
    if (best[done].microseconds == kNever) continue;
    const Set left = all & ~done;
    for (Set next = left; next != 0; next = (next - 1) & left) {
      if (!is_closed(done | next)) continue;
      // No kernel takes less than its launch, and what is left after it takes another one.
      const double least = best[done].microseconds + launch * (next == left ? 1 : 2);
      Best& other = best[done | next];
      if (least >= limit || least >= other.microseconds) continue;
      if (!cost_cache[next]) {
        const auto kernel_cost = cost_model_(members_of(next), is_stored_by(next));
        cost_cache[next] = kernel_cost.ok() ? std::pair(kernel_cost->microseconds, kernel_cost->bytes)
                                            : std::pair(kNever, std::int64_t{0});
      }
      const double microseconds = best[done].microseconds + cost_cache[next]->first;
      if (microseconds < other.microseconds && microseconds < limit)
        other = {microseconds, best[done].bytes + cost_cache[next]->second, next};
    }
  }
  Repartitioned found;
  if (best[all].microseconds == kNever) return found;
  found.microseconds = best[all].microseconds;
  found.bytes = best[all].bytes;
  for (Set set = all; set != 0; set &= ~best[set].last) found.kernels.push_back(members_of(best[set].last));
  return found;
}

bool Search::search_exhaustively() {
  constexpr std::size_t kMostNodes = 8;           // some milliseconds
  constexpr double kNoMore = 0.97, kMore = 0.87;  // of the time of what was found, for as many bytes, and for more
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < analysis_.graph.size(); ++id) {
    if (analysis_.is_computed[id]) nodes.push_back(id);
  }
  if (nodes.size() < 3 || nodes.size() > kMostNodes) return false;
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (const Cluster& cluster : clusters_) {
    microseconds += cluster.kernel_cost.microseconds;
    bytes += cluster.kernel_cost.bytes;
  }
  Repartitioned best = best_of_all(nodes, kNever);
  const double enough = best.bytes <= bytes ? kNoMore : kMore;
  if (best.kernels.empty() || best.microseconds > microseconds * enough) return false;
  std::vector<ClusterId> clusters;
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) clusters.push_back(cluster);
  if (!repartition(std::move(clusters), std::move(best.kernels))) return false;
  looked_at_all_ = true;
  return true;
}

/// Other kernels in place of these, unless a kernel would wait for itself.
bool Search::repartition(std::vector<ClusterId> clusters, std::vector<std::vector<NodeId>> kernels) {
  const std::size_t before = clusters_.size();
  while (clusters.size() < kernels.size()) {
    clusters.push_back(static_cast<ClusterId>(clusters_.size()));
    clusters_.emplace_back();
  }
  kernels.resize(clusters.size());
  // Where kernels computed something twice, one of them owns it now.
  std::vector<NodeId> owned;
  for (const std::vector<NodeId>& kernel : kernels) {
    std::copy_if(kernel.begin(), kernel.end(), std::back_inserter(owned),
                 [&](NodeId id) { return owner_[id] == kNoCluster; });
  }
  for (NodeId id : owned) owner_[id] = clusters[0];
  auto change = costed(std::move(clusters), std::move(kernels));
  if (change.ok() && is_acyclic(*change)) {
    apply(*std::move(change));
    return true;
  }
  for (NodeId id : owned) owner_[id] = kNoCluster;
  clusters_.resize(before);
  return false;
}

}  // namespace vkfuse::partition

// A search begins with kernels of another form of the graph, and looks again where the two forms differ.
#include <algorithm>
#include <set>

#include "partition/change.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

/// A kernel of the other form, in terms of this one's nodes.
struct Kept {
  std::vector<NodeId> members, reads, stores;  ///< that are computed; sorted
};

/// Of kernels and nodes beside them: those that are in a circle, or between two. Forms differ in what needs what, and
/// what computes several things may then wait for itself.
class Circles {
 public:
  Circles(const GraphAnalysis& analysis, const std::vector<Kept>& kernels, const std::vector<bool>& is_single)
      : analysis_(analysis), kernels_(kernels), in_(kernels.size(), true), unit_of_(analysis.graph.size()) {
    in_.insert(in_.end(), is_single.begin(), is_single.end());
    for (NodeId id = 0; id < analysis.graph.size(); ++id) unit_of_[id] = kernels.size() + id;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      for (NodeId id : kernels[i].stores) unit_of_[id] = i;
    }
    peel(false);
    peel(true);
  }

  [[nodiscard]] bool has(std::size_t kernel) const { return in_[kernel]; }

 private:
  [[nodiscard]] const std::vector<NodeId>& needs(std::size_t unit) const {
    return unit < kernels_.size() ? kernels_[unit].reads : analysis_.operands[unit - kernels_.size()];
  }

  /// What needs nothing that is left, or what nothing that is left needs, is in no circle.
  void peel(bool from_the_end) {
    std::vector<std::vector<std::size_t>> next(in_.size());
    std::vector<int> waiting(in_.size(), 0);
    for (std::size_t unit = 0; unit < in_.size(); ++unit) {
      if (!in_[unit]) continue;
      for (NodeId id : needs(unit)) {
        const std::size_t other = unit_of_[id];
        if (!in_[other] || other == unit) continue;
        next[from_the_end ? unit : other].push_back(from_the_end ? other : unit);
        ++waiting[from_the_end ? other : unit];
      }
    }
    std::vector<std::size_t> open;
    for (std::size_t unit = 0; unit < in_.size(); ++unit) {
      if (in_[unit] && waiting[unit] == 0) open.push_back(unit);
    }
    while (!open.empty()) {
      const std::size_t unit = open.back();
      open.pop_back();
      in_[unit] = false;
      for (std::size_t other : next[unit]) {
        if (--waiting[other] == 0) open.push_back(other);
      }
    }
  }

  const GraphAnalysis& analysis_;
  const std::vector<Kept>& kernels_;
  std::vector<bool> in_;              ///< of kernels, then of nodes: what is left
  std::vector<std::size_t> unit_of_;  ///< of each node
};

/// Of the nodes: those that are kernels of their own beside these, as one of these, another such node or a result needs
/// them, and none of these stores them.
std::vector<bool> single_nodes(const GraphAnalysis& analysis, const std::vector<Kept>& kernels) {
  std::vector<bool> is_stored(analysis.graph.size(), false), is_single(analysis.graph.size(), false);
  std::vector<NodeId> needed;
  for (const Kept& kernel : kernels) {
    for (NodeId id : kernel.stores) is_stored[id] = true;
    needed.insert(needed.end(), kernel.reads.begin(), kernel.reads.end());
  }
  for (NodeId id = 0; id < analysis.graph.size(); ++id) {
    if (analysis.is_output[id]) needed.push_back(id);
  }
  while (!needed.empty()) {
    const NodeId id = needed.back();
    needed.pop_back();
    if (!analysis.is_computed[id] || is_stored[id] || is_single[id]) continue;
    is_single[id] = true;
    needed.insert(needed.end(), analysis.operands[id].begin(), analysis.operands[id].end());
  }
  return is_single;
}

/// Whether each node of the other form is here as it was: the same op on the same operands.
std::vector<bool> same_nodes(const Context& context, const WarmStart& warm_start) {
  const ir::Graph& other = warm_start.graph;
  std::vector<bool> same(other.size(), false);
  for (NodeId id = 0; id < other.size(); ++id) {
    const auto place = warm_start.places[id];
    if (!place || !context.cost_model.is_alike(other, id, *place)) continue;
    const std::vector<NodeId>& there = other.node(id).operands;
    const std::vector<NodeId>& here = context.analysis.graph.node(*place).operands;
    same[id] = std::equal(there.begin(), there.end(), here.begin(), here.end(),
                          [&](NodeId a, NodeId b) { return warm_start.places[a] == b; });
  }
  return same;
}

/// Kernels of the other form whose nodes are here as they were. Views may be stored in one form alone, so that what a
/// kernel stores or reads is nothing of the kind in the other.
std::vector<Kept> kept_kernels(const GraphAnalysis& analysis, const WarmStart& warm_start,
                               const std::vector<bool>& same) {
  const auto is_same = [&](NodeId id) { return same[id]; };
  const auto is_computed = [&](NodeId id) { return analysis.is_computed[*warm_start.places[id]]; };
  const auto is_materialized_view = [&](NodeId id) { return analysis.is_materialized[*warm_start.places[id]]; };
  const auto is_there = [&](NodeId id) { return is_computed(id) || segment::is_resident(warm_start.graph, id); };
  const auto computed_of = [&](const std::vector<NodeId>& nodes) {
    std::vector<NodeId> all;
    for (NodeId id : nodes) {
      if (warm_start.places[id] && is_computed(id)) all.push_back(*warm_start.places[id]);
    }
    sort_unique(all);
    return all;
  };
  std::vector<Kept> kernels;
  for (const auto& [members, reads, stores] : warm_start.partition.segments) {
    const bool has_same_nodes =
        std::all_of(members.begin(), members.end(), is_same) && std::all_of(reads.begin(), reads.end(), is_same);
    const bool stays = has_same_nodes && std::none_of(members.begin(), members.end(), is_materialized_view) &&
                       std::all_of(reads.begin(), reads.end(), is_there) &&
                       std::all_of(stores.begin(), stores.end(), is_computed);
    if (stays) kernels.push_back({computed_of(members), computed_of(reads), computed_of(stores)});
  }
  return kernels;
}

/// Kernels that wait for nobody who waits for them, and the nodes that are kernels beside them.
struct KeptPartition {
  std::vector<Kept> kernels;
  std::vector<bool> is_single;
};

KeptPartition without_circles(const GraphAnalysis& analysis, std::vector<Kept> kernels) {
  for (;;) {
    std::vector<bool> is_single = single_nodes(analysis, kernels);
    const Circles circles(analysis, kernels, is_single);
    std::vector<Kept> others;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (!circles.has(i)) others.push_back(kernels[i]);
    }
    if (others.size() == kernels.size()) return {std::move(kernels), std::move(is_single)};
    kernels = std::move(others);
  }
}

/// The kernels in place of single nodes, frozen. Whether that can be; if not, the search begins with single nodes.
bool apply_kept(Context& context, Clusters& clusters, const KeptPartition& kept) {
  // Of a value that several compute, the one that stores it is the owner.
  const std::vector<ClusterId> singles = clusters.owner;
  ProvisionalOwners owners(clusters);
  std::vector<ClusterId> changed;
  std::vector<std::vector<NodeId>> members;
  for (const Kept& kernel : kept.kernels) {
    changed.push_back(singles[kernel.stores.front()]);
    for (NodeId id : kernel.stores) owners.set(id, changed.back());
    members.push_back(kernel.members);
  }
  const std::vector<ClusterId> made = changed;
  const std::set<ClusterId> known(made.begin(), made.end());
  for (NodeId id = 0; id < context.analysis.graph.size(); ++id) {
    if (context.analysis.is_computed[id] && !kept.is_single[id] && known.count(singles[id]) == 0)
      changed.push_back(singles[id]);
  }
  members.resize(changed.size());
  auto change = cost_change(context, clusters, std::move(changed), std::move(members));
  if (!change) return false;
  apply(context.scratch, clusters, *std::move(change));
  owners.keep();
  for (ClusterId cluster : made) clusters[cluster].frozen = true;
  return true;
}

/// Why values were stored in the other form, as far as that is about nodes that are here as they were.
void keep_reasons(Reasons& reasons, const WarmStart& warm_start, const std::vector<bool>& same) {
  for (const FusionBoundary& fusion_boundary : warm_start.partition.fusion_boundaries) {
    if (!same[fusion_boundary.value]) continue;
    bool holds = true;
    std::vector<Refusal> here;
    for (const Refusal& refusal : fusion_boundary.reasons) {
      here.push_back(renumbered(refusal, [&](NodeId id) {
        holds = holds && id < same.size() && same[id];
        return holds ? *warm_start.places[id] : id;
      }));
    }
    if (holds) reasons.fusion[*warm_start.places[fusion_boundary.value]] = std::move(here);
  }
}

}  // namespace

void warm_start_from(Context& context, Search& search, const WarmStart& warm_start) {
  const std::vector<bool> same = same_nodes(context, warm_start);
  const KeptPartition kept = without_circles(context.analysis, kept_kernels(context.analysis, warm_start, same));
  if (kept.kernels.empty() || !apply_kept(context, search.clusters, kept)) return;
  keep_reasons(search.reasons, warm_start, same);
}

}  // namespace vkfuse::partition

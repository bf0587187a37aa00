// A search begins with kernels of another form of the graph, and looks again where the two forms differ.
#include <algorithm>

#include "partition/search.hpp"

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

}  // namespace

void Search::warm_start_from(const WarmStart& warm_start) {
  const ir::Graph& other = warm_start.graph;
  // Nodes that are as they were: the same op on the same operands.
  std::vector<bool> same(other.size(), false);
  for (NodeId id = 0; id < other.size(); ++id) {
    const auto place = warm_start.places[id];
    if (!place || !cost_model_.is_alike(other, id, *place)) continue;
    const std::vector<NodeId>& there = other.node(id).operands;
    const std::vector<NodeId>& here = analysis_.graph.node(*place).operands;
    same[id] = std::equal(there.begin(), there.end(), here.begin(), here.end(),
                          [&](NodeId a, NodeId b) { return warm_start.places[a] == b; });
  }
  const auto is_same = [&](NodeId id) { return same[id]; };
  const auto computed_of = [&](const std::vector<NodeId>& nodes) {
    std::vector<NodeId> all;
    for (NodeId id : nodes) {
      if (warm_start.places[id] && analysis_.is_computed[*warm_start.places[id]]) all.push_back(*warm_start.places[id]);
    }
    sort_unique(all);
    return all;
  };
  // Views may be stored in one form alone, so that what a kernel stores or reads is nothing of the kind in the other.
  const auto is_computed = [&](NodeId id) { return analysis_.is_computed[*warm_start.places[id]]; };
  const auto is_materialized_view = [&](NodeId id) { return analysis_.is_materialized[*warm_start.places[id]]; };
  const auto is_there = [&](NodeId id) { return is_computed(id) || segment::is_resident(other, id); };
  std::vector<Kept> kernels;
  for (const segment::Segment& segment : warm_start.partition.segments) {
    const bool same_nodes = std::all_of(segment.members.begin(), segment.members.end(), is_same) &&
                            std::all_of(segment.reads.begin(), segment.reads.end(), is_same);
    const bool stays = same_nodes &&
                       std::none_of(segment.members.begin(), segment.members.end(), is_materialized_view) &&
                       std::all_of(segment.reads.begin(), segment.reads.end(), is_there) &&
                       std::all_of(segment.stores.begin(), segment.stores.end(), is_computed);
    if (stays)
      kernels.push_back({computed_of(segment.members), computed_of(segment.reads), computed_of(segment.stores)});
  }
  std::vector<bool> is_single;
  for (;;) {
    is_single = single_nodes(analysis_, kernels);
    const Circles circles(analysis_, kernels, is_single);
    std::vector<Kept> others;  // that wait for nobody who waits for them
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (!circles.has(i)) others.push_back(kernels[i]);
    }
    if (others.size() == kernels.size()) break;
    kernels = std::move(others);
  }
  if (kernels.empty()) return;
  // Of a value that several compute, the one that stores it is the owner.
  const std::vector<ClusterId> singles = owner_;
  std::vector<ClusterId> clusters;
  std::vector<std::vector<NodeId>> members;
  for (const Kept& kernel : kernels) {
    clusters.push_back(singles[kernel.stores.front()]);
    for (NodeId id : kernel.stores) owner_[id] = clusters.back();
    members.push_back(kernel.members);
  }
  const std::set<ClusterId> known(clusters.begin(), clusters.end());
  for (NodeId id = 0; id < analysis_.graph.size(); ++id) {
    if (analysis_.is_computed[id] && !is_single[id] && known.count(singles[id]) == 0) clusters.push_back(singles[id]);
  }
  members.resize(clusters.size());
  auto change = costed(std::move(clusters), std::move(members));
  if (!change) {
    owner_ = singles;  // and the search begins with them
    return;
  }
  const std::vector<ClusterId> made(change->clusters.begin(),
                                    change->clusters.begin() + static_cast<std::ptrdiff_t>(kernels.size()));
  apply(*std::move(change));
  for (ClusterId cluster : made) clusters_[cluster].frozen = true;
  for (const FusionBoundary& fusion_boundary : warm_start.partition.fusion_boundaries) {
    if (!same[fusion_boundary.value]) continue;
    bool holds = true;  // of nodes that are as they were
    std::string reason = with_numbers(fusion_boundary.reason, [&](NodeId id) {
      holds = holds && id < same.size() && same[id];
      return holds ? *warm_start.places[id] : id;
    });
    if (holds) reasons_[*warm_start.places[fusion_boundary.value]] = std::move(reason);
  }
}

}  // namespace vkfuse::partition

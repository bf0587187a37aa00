#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

Result<void> Search::start() {
  const std::size_t size = analysis_.graph.size();
  owner_.assign(size, kNoCluster);
  computing_.resize(size);
  readers_.resize(size);
  ClusterId count = 0;
  std::optional<Error> error;
  for (NodeId id = 0; id < size; ++id) {
    if (!analysis_.is_computed[id]) continue;
    owner_[id] = count++;
    computing_[id] = {owner_[id]};
  }
  for (NodeId id = 0; id < size; ++id) {
    if (!analysis_.is_computed[id]) continue;
    auto kernel_cost =
        cost_model_({id}, [&](NodeId) { return analysis_.is_output[id] || !analysis_.users[id].empty(); });
    if (!kernel_cost) {
      impossible_.push_back(id);
      if (!error)
        error = std::move(kernel_cost)
                    .error()
                    .within(fmt::format("planning %{} = {}", id, analysis_.graph.node(id).op->name));
      clusters_.emplace_back();
      continue;
    }
    if (!kernel_cost->over_budget.empty()) over_budget_.push_back(id);
    for (NodeId value : kernel_cost->segment.reads) readers_[value].push_back(owner_[id]);
    clusters_.push_back({{id}, *std::move(kernel_cost), 0});
  }
  if (error) return *std::move(error);
  return {};
}

bool Search::are_frozen(std::span<const ClusterId> clusters) const {
  return std::all_of(clusters.begin(), clusters.end(), [&](ClusterId cluster) { return clusters_[cluster].frozen; });
}

/// Of few ops one after the other: what is stored for one may serve the next.
std::vector<NodeId> Search::views_to_materialize() {
  constexpr std::size_t kFew = 4;
  std::vector<NodeId> views;
  for (NodeId id : impossible_) {
    const auto view = view_to_materialize(id);
    if (!view) return {};
    views.push_back(*view);
    if (impossible_.size() <= kFew) return views;
  }
  sort_unique(views);
  return views;
}

/// As many buffers as are behind it become one.
std::optional<NodeId> Search::view_to_materialize(NodeId id) {
  const ir::Graph& graph = analysis_.graph;
  std::optional<NodeId> best;
  std::size_t fewest = analysis_.operands[id].size();
  if (fewest <= 1) return last_choice_before(id);
  for (NodeId view : analysis_.between[id]) {
    if (graph.node(view).op->cls != ops::OpClass::view || analysis_.is_output[view]) continue;
    std::vector<bool> kept = analysis_.is_materialized;
    kept[view] = true;
    const std::size_t left = GraphAnalysis(graph, analysis_.symbols, std::move(kept)).operands[id].size();
    if (left >= fewest || !cost_model_({view}, [](NodeId) { return true; })) continue;
    best = view;
    fewest = left;
  }
  return best ? best : last_choice_before(id);
}

/// The last view in front of a node that chooses between values and is a kernel within the budget.
std::optional<NodeId> Search::last_choice_before(NodeId id) {
  std::optional<NodeId> last;
  for (NodeId view : analysis_.between[id]) {
    const bool chooses = segment::is_choice(analysis_.graph.node(view));
    if (!chooses || analysis_.is_output[view] || analysis_.is_materialized[view] || (last && *last > view)) continue;
    const auto kernel_cost = cost_model_({view}, [](NodeId) { return true; });
    if (kernel_cost && kernel_cost->over_budget.empty()) last = view;
  }
  return last;
}

std::vector<NodeId> Search::views_over_budget() {
  std::vector<NodeId> views;
  for (NodeId id : over_budget_) {
    if (const auto view = last_choice_before(id)) views.push_back(*view);
  }
  sort_unique(views);
  return views;
}

/// What is left to store must fit the buffers of the device.
Result<void> Search::check_sizes() const {
  for (const Cluster& cluster : clusters_) {
    if (cluster.members.empty()) continue;
    auto checked = cost_model_.check_size(cluster.kernel_cost.segment);
    if (!checked)
      return std::move(checked).error().within(fmt::format("planning %{} = {}", cluster.members.back(),
                                                           analysis_.graph.node(cluster.members.back()).op->name));
  }
  return {};
}

Search::Change Search::begun(std::vector<ClusterId> clusters, std::vector<std::vector<NodeId>> members) {
  check(std::set<ClusterId>(clusters.begin(), clusters.end()).size() == clusters.size(),
        "the kernels of a change are told apart");
  Change change;
  for (ClusterId cluster : clusters) {
    change.bytes_before += clusters_[cluster].kernel_cost.bytes;
    change.microseconds_before += clusters_[cluster].kernel_cost.microseconds;
  }
  for (std::vector<NodeId>& own : members) {
    sort_unique(own);
    change.made.push_back({std::move(own), {}, 0});
  }
  change.clusters = std::move(clusters);
  // A copy that nothing in its kernel needs any more goes.
  const auto kernels =
      std::count_if(change.made.begin(), change.made.end(), [](const Cluster& made) { return !made.members.empty(); });
  for (bool again = kernels > 1; again;) {
    again = false;
    static_cast<void>(each_made(change, [&](Cluster& cluster, const auto& stored) -> Result<void> {
      std::vector<NodeId> roots;
      std::copy_if(cluster.members.begin(), cluster.members.end(), std::back_inserter(roots), stored);
      std::vector<NodeId> needed = closure_of(std::move(roots), cluster.members);
      sort_unique(needed);
      again = again || needed.size() < cluster.members.size();
      cluster.members = std::move(needed);
      return {};
    }));
  }
  return change;
}

/// Visits what is made with what of it is stored. A value that some other kernel reads is stored by one of those that
/// have it: by its owner, or by the first of them.
Result<void> Search::each_made(Change& change, const Visit& visit) {
  bool known = false;
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    Cluster& made = change.made[i];
    if (made.members.empty()) continue;
    if (!known) note_assignment_and_reads(change);
    const auto stored = [&](NodeId id) {
      if (assignment_[id] != i || owner_[id] == kNoCluster || !changed_.contains(owner_[id])) return false;
      const auto outside = [&](ClusterId reader) { return !changed_.contains(reader); };
      return analysis_.is_output[id] || read_.contains(id) ||
             std::any_of(readers_[id].begin(), readers_[id].end(), outside);
    };
    const std::size_t before = made.members.size();
    VKF_CHECK_OK(visit(made, stored));
    known = made.members.size() == before;
  }
  return {};
}

/// Of what is made: which kernel each value belongs to, and which values one of them reads.
void Search::note_assignment_and_reads(const Change& change) {
  changed_.resize(clusters_.size());
  changed_.clear();
  for (ClusterId cluster : change.clusters) changed_.insert(cluster);
  assigned_.clear();
  read_.clear();
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const std::vector<NodeId>& members = change.made[i].members;
    computed_.clear();
    for (NodeId id : members) {
      computed_.insert(id);
      if (assigned_.insert(id) || change.clusters[i] == owner_[id]) assignment_[id] = i;
    }
    for (NodeId id : members) {
      for (NodeId operand : analysis_.operands[id]) {
        if (!computed_.contains(operand)) read_.insert(operand);
      }
    }
  }
}

Result<Search::Change> Search::costed(std::vector<ClusterId> clusters, std::vector<std::vector<NodeId>> members) {
  Change change = begun(std::move(clusters), std::move(members));
  VKF_CHECK_OK(each_made(change, [&](Cluster& cluster, const auto& stored) -> Result<void> {
    VKF_TRY(kernel_cost, cost_model_(cluster.members, stored));
    cluster.kernel_cost = std::move(kernel_cost);
    change.bytes += cluster.kernel_cost.bytes;
    change.microseconds += cluster.kernel_cost.microseconds;
    return {};
  }));
  // A copy that went leaves nobody to read from.
  computed_.clear();
  for (const Cluster& cluster : change.made) {
    for (NodeId value : cluster.kernel_cost.segment.stores) computed_.insert(value);
  }
  const auto is_stored = [&](NodeId value) {
    if (computed_.contains(value)) return true;
    const ClusterId owner = owner_[value];
    return owner != kNoCluster && !changed_.contains(owner) &&
           contains(clusters_[owner].kernel_cost.segment.stores, value);
  };
  for (const Cluster& cluster : change.made) {
    for (NodeId value : cluster.kernel_cost.segment.reads) {
      if (analysis_.is_computed[value] && !is_stored(value)) return unsupported("%{} is stored by no kernel.", value);
    }
  }
  return change;
}

void Search::apply(Change change) {
  changed_.resize(clusters_.size());
  changed_.clear();
  for (ClusterId cluster : change.clusters) changed_.insert(cluster);
  // Of each value once: it may have as many readers as there are groups.
  const auto goes = [&](ClusterId cluster) { return changed_.contains(cluster); };
  computed_.clear();
  read_.clear();
  for (ClusterId cluster : change.clusters) {
    for (NodeId id : clusters_[cluster].members) {
      if (!computed_.insert(id)) continue;
      std::erase_if(computing_[id], goes);
      if (owner_[id] != kNoCluster && goes(owner_[id])) owner_[id] = kNoCluster;
    }
    for (NodeId value : clusters_[cluster].kernel_cost.segment.reads) {
      if (read_.insert(value)) std::erase_if(readers_[value], goes);
    }
    clusters_[cluster] = {};
  }
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const ClusterId cluster = change.clusters[i];
    clusters_[cluster] = std::move(change.made[i]);
    clusters_[cluster].version = ++version_;
    for (NodeId id : clusters_[cluster].members) {
      computing_[id].push_back(cluster);
      if (owner_[id] == kNoCluster) owner_[id] = cluster;
    }
    for (NodeId value : clusters_[cluster].kernel_cost.segment.reads) readers_[value].push_back(cluster);
  }
  // Whoever stores a value owns it.
  for (ClusterId cluster : change.clusters) {
    for (NodeId id : clusters_[cluster].kernel_cost.segment.stores) owner_[id] = cluster;
  }
  for (ClusterId cluster : change.clusters) note_backwards(cluster);
}

void Search::note_backwards(ClusterId cluster) {
  const segment::Segment& segment = clusters_[cluster].kernel_cost.segment;
  backwards_.erase(cluster);
  if (segment.stores.empty()) return;
  NodeId highest = 0;
  for (NodeId id : segment.reads) highest = std::max(highest, owner_[id] == kNoCluster ? 0 : id);
  if (segment.stores.front() < highest) backwards_[cluster] = {segment.stores.front(), highest};
}

/// Numbers of values grow along a path through kernels, so that one can stop where all that matter are passed; but for
/// kernels that lead back.
bool Search::leads_back_below(NodeId last) const {
  return std::any_of(backwards_.begin(), backwards_.end(),
                     [&](const auto& cluster) { return cluster.second.first < last && cluster.second.second >= last; });
}

/// Whether no kernel waits for itself after a change: no path leads from one that is made back to it.
bool Search::is_acyclic(const Change& change) const {
  const std::size_t made = change.made.size();
  NodeId last = 0;
  for (const Cluster& cluster : change.made)
    last = std::max(last, cluster.members.empty() ? 0 : cluster.members.back());
  const bool ends = !leads_back_below(last);
  // Kernels that are made come first, then the others by their number.
  const auto push_readers = [&](std::size_t at, std::vector<std::size_t>& stack) {
    for (NodeId id : (at < made ? change.made[at] : clusters_[at - made]).kernel_cost.segment.stores) {
      for (std::size_t i = 0; i < made; ++i) {
        const std::vector<NodeId>& reads = change.made[i].kernel_cost.segment.reads;
        if (std::find(reads.begin(), reads.end(), id) != reads.end()) stack.push_back(i);
      }
      if (ends && id >= last) continue;
      for (ClusterId reader : readers_[id]) {
        if (!is_among(change.clusters, reader)) stack.push_back(made + reader);
      }
    }
  };
  for (std::size_t root = 0; root < made; ++root) {
    std::vector<std::size_t> stack;
    std::set<std::size_t> seen;
    push_readers(root, stack);
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      if (at == root) return false;
      if (seen.insert(at).second) push_readers(at, stack);
    }
  }
  return true;
}

std::string Search::reason_of(NodeId value) const {
  if (!options_.fusion) return "Fusion is switched off.";
  if (looked_at_all_) return "Of all partitions of these few ops this one is modelled fastest.";
  const auto merging = reasons_.find(value);
  const auto again = rematerialization_reasons_.find(value);
  std::string text =
      merging == reasons_.end() ? "It is read by a kernel that was not merged with its producer." : merging->second;
  if (again != rematerialization_reasons_.end() && analysis_.is_pointwise(value) && again->second != text)
    text += " " + again->second;
  return text;
}

CostedPartition Search::finish() const {
  CostedPartition costed;
  Partition& result = costed.partition;
  for (const Cluster& cluster : clusters_) {
    if (cluster.kernel_cost.segment.stores.empty()) continue;
    costed.bytes += cluster.kernel_cost.bytes;
    costed.microseconds += cluster.kernel_cost.microseconds;
  }
  std::vector<Emitted> emitted(clusters_.size(), Emitted::no);
  for (ClusterId cluster = 0; cluster < clusters_.size(); ++cluster) emit(cluster, emitted, result);
  std::set<NodeId> stored;
  for (const segment::Segment& segment : result.segments) stored.insert(segment.stores.begin(), segment.stores.end());
  const auto is_there = [&](NodeId id) { return !analysis_.is_computed[id] || stored.count(id) != 0; };
  for (NodeId id = 0; id < analysis_.graph.size(); ++id)
    check(!analysis_.is_output[id] || is_there(id), "some kernel stores every result");
  for (const segment::Segment& segment : result.segments) {
    check(std::all_of(segment.reads.begin(), segment.reads.end(), is_there), "some kernel stores what another reads");
  }
  std::set<NodeId> known;
  for (const segment::Segment& segment : result.segments) {
    if (segment.stores.size() == 1 && analysis_.is_alias[segment.stores[0]]) continue;  // no kernel
    for (NodeId value : segment.reads) {
      if (segment::is_resident(analysis_.graph, value) || !known.insert(value).second) continue;
      result.fusion_boundaries.push_back({value, reason_of(value)});
    }
  }
  return costed;
}

/// Producers first: a depth-first walk with an explicit stack, so that depth is no limit.
void Search::emit(ClusterId root, std::vector<Emitted>& emitted, Partition& result) const {
  std::vector<std::pair<ClusterId, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const std::pair<ClusterId, bool> top = stack.back();
    stack.pop_back();
    Emitted& state = emitted[top.first];
    if (state == Emitted::yes || clusters_[top.first].members.empty()) continue;
    if (top.second) {
      state = Emitted::yes;
      result.segments.push_back(clusters_[top.first].kernel_cost.segment);
      continue;
    }
    check(state == Emitted::no, "no kernel waits for itself");
    state = Emitted::waiting;
    stack.emplace_back(top.first, true);
    for (NodeId value : clusters_[top.first].kernel_cost.segment.reads) {
      if (owner_[value] != kNoCluster && emitted[owner_[value]] != Emitted::yes)
        stack.emplace_back(owner_[value], false);
    }
  }
}

}  // namespace vkfuse::partition

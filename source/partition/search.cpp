#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

Result<void> Search::start() {
  const std::size_t size = facts_.graph.size();
  owner_.assign(size, kNoGroup);
  computing_.resize(size);
  readers_.resize(size);
  GroupId count = 0;
  std::optional<Error> error;
  for (NodeId id = 0; id < size; ++id) {
    if (!facts_.is_computed[id]) continue;
    owner_[id] = count++;
    computing_[id] = {owner_[id]};
  }
  for (NodeId id = 0; id < size; ++id) {
    if (!facts_.is_computed[id]) continue;
    auto price = pricer_({id}, [&](NodeId) { return facts_.is_output[id] || !facts_.users[id].empty(); });
    if (!price) {
      impossible_.push_back(id);
      if (!error)
        error = std::move(price).error().within(fmt::format("planning %{} = {}", id, facts_.graph.node(id).op->name));
      groups_.emplace_back();
      continue;
    }
    if (!price->over_budget.empty()) over_budget_.push_back(id);
    for (NodeId value : price->segment.reads) readers_[value].push_back(owner_[id]);
    groups_.push_back({{id}, *std::move(price), 0});
  }
  if (error) return *std::move(error);
  return {};
}

bool Search::are_settled(std::span<const GroupId> groups) const {
  return std::all_of(groups.begin(), groups.end(), [&](GroupId group) { return groups_[group].settled; });
}

/// Of few ops one after the other: what is stored for one may serve the next.
std::vector<NodeId> Search::views_to_keep() {
  constexpr std::size_t kFew = 4;
  std::vector<NodeId> views;
  for (NodeId id : impossible_) {
    const auto view = view_to_keep(id);
    if (!view) return {};
    views.push_back(*view);
    if (impossible_.size() <= kFew) return views;
  }
  sort_unique(views);
  return views;
}

/// As many buffers as are behind it become one.
std::optional<NodeId> Search::view_to_keep(NodeId id) {
  const ir::Graph& graph = facts_.graph;
  std::optional<NodeId> best;
  std::size_t fewest = facts_.operands[id].size();
  if (fewest <= 1) return last_choice_before(id);
  for (NodeId view : facts_.between[id]) {
    if (graph.node(view).op->cls != ops::OpClass::view || facts_.is_output[view]) continue;
    std::vector<bool> kept = facts_.is_kept;
    kept[view] = true;
    const std::size_t left = Facts(graph, facts_.symbols, std::move(kept)).operands[id].size();
    if (left >= fewest || !pricer_({view}, [](NodeId) { return true; })) continue;
    best = view;
    fewest = left;
  }
  return best ? best : last_choice_before(id);
}

/// The last view in front of a node that chooses between values and is a kernel within the budget.
std::optional<NodeId> Search::last_choice_before(NodeId id) {
  std::optional<NodeId> last;
  for (NodeId view : facts_.between[id]) {
    const bool chooses = segment::is_choice(facts_.graph.node(view));
    if (!chooses || facts_.is_output[view] || facts_.is_kept[view] || (last && *last > view)) continue;
    const auto price = pricer_({view}, [](NodeId) { return true; });
    if (price && price->over_budget.empty()) last = view;
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
  for (const Group& group : groups_) {
    if (group.members.empty()) continue;
    auto checked = pricer_.check_size(group.price.segment);
    if (!checked)
      return std::move(checked).error().within(
          fmt::format("planning %{} = {}", group.members.back(), facts_.graph.node(group.members.back()).op->name));
  }
  return {};
}

Search::Change Search::begun(std::vector<GroupId> groups, std::vector<std::vector<NodeId>> members) {
  check(std::set<GroupId>(groups.begin(), groups.end()).size() == groups.size(),
        "the kernels of a change are told apart");
  Change change;
  for (GroupId group : groups) {
    change.bytes_before += groups_[group].price.bytes;
    change.microseconds_before += groups_[group].price.microseconds;
  }
  for (std::vector<NodeId>& own : members) {
    sort_unique(own);
    change.made.push_back({std::move(own), {}, 0});
  }
  change.groups = std::move(groups);
  // A copy that nothing in its kernel needs any more goes.
  const auto kernels =
      std::count_if(change.made.begin(), change.made.end(), [](const Group& made) { return !made.members.empty(); });
  for (bool again = kernels > 1; again;) {
    again = false;
    static_cast<void>(each_made(change, [&](Group& group, const auto& stored) -> Result<void> {
      std::vector<NodeId> roots;
      std::copy_if(group.members.begin(), group.members.end(), std::back_inserter(roots), stored);
      std::vector<NodeId> needed = closure_of(std::move(roots), group.members);
      sort_unique(needed);
      again = again || needed.size() < group.members.size();
      group.members = std::move(needed);
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
    Group& made = change.made[i];
    if (made.members.empty()) continue;
    if (!known) note_homes_and_reads(change);
    const auto stored = [&](NodeId id) {
      if (homes_[id] != i || owner_[id] == kNoGroup || !changed_.contains(owner_[id])) return false;
      const auto outside = [&](GroupId reader) { return !changed_.contains(reader); };
      return facts_.is_output[id] || read_.contains(id) ||
             std::any_of(readers_[id].begin(), readers_[id].end(), outside);
    };
    const std::size_t before = made.members.size();
    VKF_CHECK_OK(visit(made, stored));
    known = made.members.size() == before;
  }
  return {};
}

/// Of what is made: which kernel each value belongs to, and which values one of them reads.
void Search::note_homes_and_reads(const Change& change) {
  changed_.resize(groups_.size());
  changed_.clear();
  for (GroupId group : change.groups) changed_.insert(group);
  homed_.clear();
  read_.clear();
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const std::vector<NodeId>& members = change.made[i].members;
    computed_.clear();
    for (NodeId id : members) {
      computed_.insert(id);
      if (homed_.insert(id) || change.groups[i] == owner_[id]) homes_[id] = i;
    }
    for (NodeId id : members) {
      for (NodeId operand : facts_.operands[id]) {
        if (!computed_.contains(operand)) read_.insert(operand);
      }
    }
  }
}

Result<Search::Change> Search::priced(std::vector<GroupId> groups, std::vector<std::vector<NodeId>> members) {
  Change change = begun(std::move(groups), std::move(members));
  VKF_CHECK_OK(each_made(change, [&](Group& group, const auto& stored) -> Result<void> {
    VKF_TRY(price, pricer_(group.members, stored));
    group.price = std::move(price);
    change.bytes += group.price.bytes;
    change.microseconds += group.price.microseconds;
    return {};
  }));
  // A copy that went leaves nobody to read from.
  computed_.clear();
  for (const Group& group : change.made) {
    for (NodeId value : group.price.segment.stores) computed_.insert(value);
  }
  const auto is_stored = [&](NodeId value) {
    if (computed_.contains(value)) return true;
    const GroupId owner = owner_[value];
    return owner != kNoGroup && !changed_.contains(owner) && contains(groups_[owner].price.segment.stores, value);
  };
  for (const Group& group : change.made) {
    for (NodeId value : group.price.segment.reads) {
      if (facts_.is_computed[value] && !is_stored(value)) return unsupported("%{} is stored by no kernel.", value);
    }
  }
  return change;
}

void Search::apply(Change change) {
  changed_.resize(groups_.size());
  changed_.clear();
  for (GroupId group : change.groups) changed_.insert(group);
  // Of each value once: it may have as many readers as there are groups.
  const auto goes = [&](GroupId group) { return changed_.contains(group); };
  computed_.clear();
  read_.clear();
  for (GroupId group : change.groups) {
    for (NodeId id : groups_[group].members) {
      if (!computed_.insert(id)) continue;
      std::erase_if(computing_[id], goes);
      if (owner_[id] != kNoGroup && goes(owner_[id])) owner_[id] = kNoGroup;
    }
    for (NodeId value : groups_[group].price.segment.reads) {
      if (read_.insert(value)) std::erase_if(readers_[value], goes);
    }
    groups_[group] = {};
  }
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    const GroupId group = change.groups[i];
    groups_[group] = std::move(change.made[i]);
    groups_[group].version = ++version_;
    for (NodeId id : groups_[group].members) {
      computing_[id].push_back(group);
      if (owner_[id] == kNoGroup) owner_[id] = group;
    }
    for (NodeId value : groups_[group].price.segment.reads) readers_[value].push_back(group);
  }
  // Whoever stores a value owns it.
  for (GroupId group : change.groups) {
    for (NodeId id : groups_[group].price.segment.stores) owner_[id] = group;
  }
  for (GroupId group : change.groups) note_backwards(group);
}

void Search::note_backwards(GroupId group) {
  const segment::Segment& segment = groups_[group].price.segment;
  backwards_.erase(group);
  if (segment.stores.empty()) return;
  NodeId highest = 0;
  for (NodeId id : segment.reads) highest = std::max(highest, owner_[id] == kNoGroup ? 0 : id);
  if (segment.stores.front() < highest) backwards_[group] = {segment.stores.front(), highest};
}

/// Numbers of values grow along a path through kernels, so that one can stop where all that matter are passed; but for
/// kernels that lead back.
bool Search::leads_back_below(NodeId last) const {
  return std::any_of(backwards_.begin(), backwards_.end(),
                     [&](const auto& group) { return group.second.first < last && group.second.second >= last; });
}

/// Whether no kernel waits for itself after a change: no path leads from one that is made back to it.
bool Search::is_acyclic(const Change& change) const {
  const std::size_t made = change.made.size();
  NodeId last = 0;
  for (const Group& group : change.made) last = std::max(last, group.members.empty() ? 0 : group.members.back());
  const bool ends = !leads_back_below(last);
  // Kernels that are made come first, then the others by their number.
  const auto push_readers = [&](std::size_t at, std::vector<std::size_t>& stack) {
    for (NodeId id : (at < made ? change.made[at] : groups_[at - made]).price.segment.stores) {
      for (std::size_t i = 0; i < made; ++i) {
        const std::vector<NodeId>& reads = change.made[i].price.segment.reads;
        if (std::find(reads.begin(), reads.end(), id) != reads.end()) stack.push_back(i);
      }
      if (ends && id >= last) continue;
      for (GroupId reader : readers_[id]) {
        if (!is_among(change.groups, reader)) stack.push_back(made + reader);
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
  const auto again = recompute_reasons_.find(value);
  std::string text =
      merging == reasons_.end() ? "It is read by a kernel that was not merged with its producer." : merging->second;
  if (again != recompute_reasons_.end() && facts_.is_pointwise(value) && again->second != text)
    text += " " + again->second;
  return text;
}

Priced Search::finish() const {
  Priced priced;
  Partition& result = priced.partition;
  for (const Group& group : groups_) {
    if (group.price.segment.stores.empty()) continue;
    priced.bytes += group.price.bytes;
    priced.microseconds += group.price.microseconds;
  }
  std::vector<Emitted> emitted(groups_.size(), Emitted::no);
  for (GroupId group = 0; group < groups_.size(); ++group) emit(group, emitted, result);
  std::set<NodeId> stored;
  for (const segment::Segment& segment : result.segments) stored.insert(segment.stores.begin(), segment.stores.end());
  const auto is_there = [&](NodeId id) { return !facts_.is_computed[id] || stored.count(id) != 0; };
  for (NodeId id = 0; id < facts_.graph.size(); ++id)
    check(!facts_.is_output[id] || is_there(id), "some kernel stores every result");
  for (const segment::Segment& segment : result.segments) {
    check(std::all_of(segment.reads.begin(), segment.reads.end(), is_there), "some kernel stores what another reads");
  }
  std::set<NodeId> known;
  for (const segment::Segment& segment : result.segments) {
    if (segment.stores.size() == 1 && facts_.is_alias[segment.stores[0]]) continue;  // no kernel
    for (NodeId value : segment.reads) {
      if (segment::is_resident(facts_.graph, value) || !known.insert(value).second) continue;
      result.boundaries.push_back({value, reason_of(value)});
    }
  }
  return priced;
}

/// Producers first: a depth-first walk with an explicit stack, so that depth is no limit.
void Search::emit(GroupId root, std::vector<Emitted>& emitted, Partition& result) const {
  std::vector<std::pair<GroupId, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const std::pair<GroupId, bool> top = stack.back();
    stack.pop_back();
    Emitted& state = emitted[top.first];
    if (state == Emitted::yes || groups_[top.first].members.empty()) continue;
    if (top.second) {
      state = Emitted::yes;
      result.segments.push_back(groups_[top.first].price.segment);
      continue;
    }
    check(state == Emitted::no, "no kernel waits for itself");
    state = Emitted::waiting;
    stack.emplace_back(top.first, true);
    for (NodeId value : groups_[top.first].price.segment.reads) {
      if (owner_[value] != kNoGroup && emitted[owner_[value]] != Emitted::yes) stack.emplace_back(owner_[value], false);
    }
  }
}

}  // namespace vkfuse::partition

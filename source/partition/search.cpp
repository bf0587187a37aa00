#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

namespace {

void sort_unique(std::vector<NodeId>& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

bool contains(const std::vector<NodeId>& sorted, NodeId id) { return std::binary_search(sorted.begin(), sorted.end(), id); }

bool is_among(std::span<const GroupId> groups, GroupId group) { return std::find(groups.begin(), groups.end(), group) != groups.end(); }

}  // namespace

Result<void> Search::start() {
  const std::size_t size = facts_.graph.size();
  owner_.assign(size, kNoGroup);
  computing_.resize(size);
  readers_.resize(size);
  GroupId count = 0;
  for (NodeId id = 0; id < size; ++id) {
    if (!facts_.is_computed[id]) continue;
    owner_[id] = count++;
    computing_[id] = {owner_[id]};
  }
  for (NodeId id = 0; id < size; ++id) {
    if (!facts_.is_computed[id]) continue;
    auto price = pricer_({id}, [&](NodeId) { return facts_.is_output[id] || !facts_.users[id].empty(); });
    if (!price) return std::move(price).error().within(fmt::format("planning %{} = {}", id, facts_.graph.node(id).op->name));
    for (NodeId value : price->segment.reads) readers_[value].push_back(owner_[id]);
    groups_.push_back({{id}, *std::move(price), 0});
  }
  return {};
}

/// What is left to store must fit the buffers of the device.
Result<void> Search::check_sizes() const {
  for (const Group& group : groups_) {
    if (group.members.empty()) continue;
    auto checked = pricer_.check_size(group.price.segment);
    if (!checked) return std::move(checked).error().within(fmt::format("planning %{} = {}", group.members.back(), facts_.graph.node(group.members.back()).op->name));
  }
  return {};
}

bool Search::reads(const Group& group, NodeId value) const {
  return std::any_of(group.members.begin(), group.members.end(), [&](NodeId id) {
    const std::vector<NodeId>& operands = facts_.operands[id];
    return std::find(operands.begin(), operands.end(), value) != operands.end();
  }) && !contains(group.members, value);
}

Search::Change Search::begun(std::vector<GroupId> groups, std::vector<std::vector<NodeId>> members) {
  check(std::set<GroupId>(groups.begin(), groups.end()).size() == groups.size(), "the kernels of a change are told apart");
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
  const auto kernels = std::count_if(change.made.begin(), change.made.end(), [](const Group& made) { return !made.members.empty(); });
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
  const auto home_of = [&](NodeId id) {
    std::optional<std::size_t> home;
    for (std::size_t i = 0; i < change.made.size(); ++i) {
      if (!contains(change.made[i].members, id)) continue;
      if (!home || change.groups[i] == owner_[id]) home = i;
    }
    return home;
  };
  const auto is_read = [&](NodeId id) {
    const auto outside = [&](GroupId reader) { return !is_among(change.groups, reader); };
    return std::any_of(readers_[id].begin(), readers_[id].end(), outside) ||
           std::any_of(change.made.begin(), change.made.end(), [&](const Group& made) { return reads(made, id); });
  };
  for (std::size_t i = 0; i < change.made.size(); ++i) {
    if (change.made[i].members.empty()) continue;
    VKF_CHECK_OK(visit(change.made[i], [&](NodeId id) { return is_among(change.groups, owner_[id]) && home_of(id) == i && (facts_.is_output[id] || is_read(id)); }));
  }
  return {};
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
  for (const Group& group : change.made) {
    for (NodeId value : group.price.segment.reads) {
      if (facts_.is_computed[value] && !is_stored(value, change)) return unsupported("%{} is stored by no kernel.", value);
    }
  }
  return change;
}

bool Search::is_stored(NodeId value, const Change& change) const {
  const auto stores = [&](const Group& group) { return contains(group.price.segment.stores, value); };
  if (std::any_of(change.made.begin(), change.made.end(), stores)) return true;
  return owner_[value] != kNoGroup && !is_among(change.groups, owner_[value]) && stores(groups_[owner_[value]]);
}

void Search::apply(Change change) {
  for (GroupId group : change.groups) {
    for (NodeId id : groups_[group].members) {
      std::erase(computing_[id], group);
      if (owner_[id] == group) owner_[id] = kNoGroup;
    }
    for (NodeId value : groups_[group].price.segment.reads) std::erase(readers_[value], group);
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
  return std::any_of(backwards_.begin(), backwards_.end(), [&](const auto& group) { return group.second.first < last && group.second.second >= last; });
}

/// Whether a path leads from one of the groups to another through a third: merging them would then make a kernel
/// that waits for itself.
bool Search::connected_outside(std::span<const GroupId> groups) {
  NodeId last = 0;
  for (GroupId group : groups) last = std::max(last, groups_[group].members.back());
  const bool ends = !leads_back_below(last);
  std::vector<GroupId> stack;
  seen_.resize(groups_.size(), 0);
  const int walk = ++walks_;
  bool back = false;
  const auto push_readers = [&](GroupId group) {
    for (NodeId id : groups_[group].price.segment.stores) {
      if (ends && id >= last) break;
      for (GroupId next : readers_[id]) {
        if (next == group) continue;
        if (is_among(groups, next)) {
          back = back || !is_among(groups, group);
        } else if (seen_[next] != walk) {
          seen_[next] = walk;
          stack.push_back(next);
        }
      }
    }
  };
  for (GroupId group : groups) push_readers(group);
  while (!stack.empty() && !back) {
    const GroupId group = stack.back();
    stack.pop_back();
    push_readers(group);
  }
  return back;
}

/// What a kernel may take longer by the model: times are modelled to some tenth, from constants of the device's type
/// more roughly than from measured ones; bytes are known. That a value need not exist is worth it.
double Search::slack(std::int64_t bytes, std::int64_t before) const {
  constexpr double kRounding = 1.001, kMeasured = 1.05, kTenth = 1.15;
  if (target_.costs) return bytes * 2 <= before ? kMeasured : kRounding;
  return bytes < before ? kTenth : kRounding;
}

/// Merges the groups into the first if that is possible and pays; otherwise says why not.
Result<void> Search::try_merge(std::vector<GroupId> groups) {
  outside_ = connected_outside(groups);
  if (outside_) return unsupported("Another kernel must run between the two.");
  const std::size_t count = groups.size();
  std::vector<std::vector<NodeId>> members(count);
  for (GroupId group : groups) members[0].insert(members[0].end(), groups_[group].members.begin(), groups_[group].members.end());
  VKF_TRY(change, priced(std::move(groups), std::move(members)));
  if (change.bytes > change.bytes_before) return unsupported("One kernel would move {} bytes instead of {}.", change.bytes, change.bytes_before);
  const bool slow = change.microseconds > change.microseconds_before * slack(change.bytes, change.bytes_before);
  if (slow && options_.policy != Policy::greedy_io) {
    return unsupported("One kernel is modelled at {:.1f} us and the {} at {:.1f} us.", change.microseconds, count == 2 ? "two" : "three", change.microseconds_before);
  }
  apply(std::move(change));
  return {};
}

/// Where two groups do not pay as one, they may together with one that computes what the first reads: a softmax
/// before a product gains only if its scores need not be stored.
Result<void> Search::try_with_producer(GroupId from, GroupId to) {
  Result<void> outcome = try_merge({from, to});
  if (outcome.ok() || outside_ || !options_.has(Mechanism::triples) || options_.policy == Policy::greedy_io) return outcome;
  std::set<GroupId> producers;
  for (NodeId value : groups_[from].price.segment.reads) {
    if (owner_[value] != kNoGroup && owner_[value] != to) producers.insert(owner_[value]);
  }
  for (GroupId producer : producers) {
    if (try_merge({producer, from, to}).ok()) {
      outside_ = false;
      return {};
    }
  }
  outside_ = false;
  return outcome;
}

bool Search::merge_producer(NodeId value, GroupId to) {
  const GroupId from = owner_[value];
  if (from == kNoGroup || from == to) return false;
  if (options_.policy == Policy::store_all && facts_.users[value].size() > 1) {
    reasons_[value] = "Several ops read it.";
    return false;
  }
  // Nothing has changed since the last refusal.
  const auto refused = refused_.find({from, to});
  if (refused != refused_.end() && refused->second == std::pair(groups_[from].version, groups_[to].version)) return false;
  const Result<void> outcome = try_with_producer(from, to);
  if (outcome.ok()) {
    reasons_.erase(value);
    return true;
  }
  if (!outside_) refused_[{from, to}] = {groups_[from].version, groups_[to].version};
  reasons_[value] = outcome.error().message;
  return false;
}

/// Again and again: a merge refused because a third kernel stands between may be possible once that one is merged as
/// well.
bool Search::merge_producers() {
  constexpr int kMostRounds = 8;
  bool any = false;
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (NodeId id = 0; id < facts_.graph.size(); ++id) {
      for (std::size_t i = 0; i < computing_[id].size(); ++i) {
        for (NodeId operand : facts_.operands[id]) {
          if (i >= computing_[id].size()) break;
          const GroupId to = computing_[id][i];
          if (!contains(groups_[to].members, operand)) changed = merge_producer(operand, to) || changed;
        }
      }
    }
    any = any || changed;
    if (!changed) return any;
  }
  return any;
}

/// Kernels that read the same value read it once when they are one.
bool Search::merge_siblings() {
  constexpr std::size_t kMostTogether = 6;
  bool changed = false;
  for (NodeId id = 0; id < facts_.graph.size(); ++id) {
    if (segment::is_literal(facts_.graph, id)) continue;
    std::vector<GroupId> kernels;  // an alias reads nothing
    for (NodeId user : facts_.users[id]) {
      if (facts_.is_alias[user]) continue;
      for (GroupId group : computing_[user]) {
        if (!is_among(kernels, group)) kernels.push_back(group);
      }
    }
    for (std::size_t i = 1; i < kernels.size(); ++i) {
      const GroupId a = std::min(kernels[0], kernels[i]);
      const GroupId b = std::max(kernels[0], kernels[i]);
      if (groups_[a].members.empty() || groups_[b].members.empty()) continue;
      if (!try_merge({a, b}).ok()) continue;
      changed = true;
      kernels[0] = a;
      kernels[i] = b;  // which is empty now
    }
    // Two may not pay where all of them do.
    std::erase_if(kernels, [&](GroupId group) { return groups_[group].members.empty(); });
    if (kernels.size() > 2 && kernels.size() <= kMostTogether) changed = try_merge(kernels).ok() || changed;
  }
  return changed;
}

/// Positions that the loops of a group run over: those of its largest member or of what that folds.
std::int64_t Search::positions_of(const Group& group) const {
  std::int64_t most = 0;
  const auto count = [&](NodeId id) {
    const auto sizes = resolve(facts_.graph.node(id).type.shape, facts_.symbols);
    const auto elements = sizes ? element_count(*sizes) : Result<std::int64_t>(0);
    return elements ? *elements : 0;
  };
  for (NodeId id : group.members) {
    const ir::Node& node = facts_.graph.node(id);
    most = std::max(most, count(id));
    if (node.op->cls == ops::OpClass::reduce || node.op->cls == ops::OpClass::scan) most = std::max(most, count(node.operands[0]));
    if (node.op->cls != ops::OpClass::contraction) continue;
    std::int64_t contracted = 1;
    for (int axis : std::get<ir::DotPayload>(node.payload).contract_a) {
      const auto sizes = resolve(facts_.graph.node(node.operands[0]).type.shape, facts_.symbols);
      contracted *= sizes ? (*sizes)[static_cast<std::size_t>(axis)] : 1;
    }
    most = std::max(most, count(id) * contracted);
  }
  return most;
}

/// Kernels that run over as many positions, one of which may be the other's as well, are launched once.
bool Search::merge_unrelated() {
  constexpr double kLaunchBound = 0.1;   // of the time of two kernels that one launch takes
  constexpr std::size_t kMostTried = 4;  // of as many positions
  const double launch = schedule::costs_of(target_).launch_us;
  bool changed = false;
  std::map<std::int64_t, std::vector<GroupId>> tried;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    if (groups_[group].members.empty() || groups_[group].price.microseconds == 0 || groups_[group].price.microseconds * kLaunchBound > launch) continue;
    std::vector<GroupId>& others = tried[positions_of(groups_[group])];
    bool merged = false;
    for (std::size_t i = 0; i < others.size() && !merged; ++i) {
      const double both = groups_[others[i]].price.microseconds + groups_[group].price.microseconds;
      merged = launch >= kLaunchBound * both && try_merge({others[i], group}).ok();
    }
    changed = changed || merged;
    if (!merged && others.size() < kMostTried) others.push_back(group);
  }
  return changed;
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

/// Groups that store what this one reads, read what it stores, or read the same.
std::vector<GroupId> Search::neighbours_of(const Group& group, GroupId own) const {
  constexpr std::size_t kMost = 8;
  std::vector<GroupId> all;
  const auto add = [&](GroupId other) {
    if (other != kNoGroup && other != own && all.size() < kMost && !is_among(all, other)) all.push_back(other);
  };
  for (NodeId id : group.price.segment.reads) add(owner_[id]);
  for (NodeId id : group.price.segment.stores) {
    for (GroupId reader : readers_[id]) add(reader);
  }
  for (NodeId id : group.price.segment.reads) {
    for (GroupId reader : readers_[id]) add(reader);
  }
  return all;
}

/// For each member, what of the group is computed from it, the same with what is computed for that alone, and what it is
/// computed from; itself included.
std::vector<std::vector<NodeId>> Search::parts_of(const Group& group) const {
  constexpr std::size_t kMost = 24;  // members of a group that is taken apart
  std::set<std::vector<NodeId>> parts;
  if (group.members.size() > kMost) return {};
  for (NodeId root : group.members) {
    std::vector<NodeId> above{root};
    for (NodeId id : group.members) {
      const auto& operands = facts_.operands[id];
      if (id > root && std::any_of(operands.begin(), operands.end(), [&](NodeId operand) { return contains(above, operand); })) above.push_back(id);
    }
    std::vector<NodeId> below = closure_of({root}, group.members);
    sort_unique(below);
    std::vector<NodeId> whole = above;
    for (auto id = group.members.rbegin(); id != group.members.rend(); ++id) {
      const auto& users = facts_.users[*id];
      const auto inside = [&](NodeId user) { return contains(whole, user); };
      if (contains(whole, *id) || contains(below, *id) || contains(group.price.segment.stores, *id) || !std::all_of(users.begin(), users.end(), inside)) continue;
      whole.insert(std::upper_bound(whole.begin(), whole.end(), *id), *id);
    }
    parts.insert(std::move(whole));
    if (above.size() < group.members.size()) parts.insert(std::move(above));
    if (below.size() < group.members.size()) parts.insert(std::move(below));
    parts.insert({root});
  }
  parts.erase(group.members);
  return {parts.begin(), parts.end()};
}

bool Search::try_move(GroupId from, GroupId to, const std::vector<NodeId>& part) {
  std::vector<NodeId> left;
  std::set_difference(groups_[from].members.begin(), groups_[from].members.end(), part.begin(), part.end(), std::back_inserter(left));
  std::vector<NodeId> larger = groups_[to].members;
  larger.insert(larger.end(), part.begin(), part.end());
  Change change = begun({from, to}, {std::move(left), std::move(larger)});
  // Most change nothing for the better, which is seen without loops and schedules.
  std::int64_t after = 0;
  static_cast<void>(each_made(change, [&](Group& group, const auto& stored) -> Result<void> {
    after += pricer_.estimate(group.members, stored);
    return {};
  }));
  ++moves_estimated_;
  const std::int64_t before = groups_[from].price.bytes + groups_[to].price.bytes;
  const bool splits = groups_[to].members.empty();
  if (!splits && after > before) return false;
  const int known = pricer_.priced();
  auto outcome = priced({from, to}, {std::move(change.made[0].members), std::move(change.made[1].members)});
  moves_priced_ += pricer_.priced() - known;
  if (!outcome.ok() || outcome->bytes > before) return false;
  const bool faster = outcome->microseconds < outcome->microseconds_before * 0.999;
  const bool less = outcome->bytes < before && outcome->microseconds <= outcome->microseconds_before * 1.001;
  if (!(faster || less) || !is_acyclic(*outcome)) return false;
  apply(*std::move(outcome));
  return true;
}

/// Whether a kernel reads, stores or computes what the part reads, or reads what the part computes.
bool Search::shares(const std::vector<NodeId>& part, GroupId to) const {
  const segment::Segment& segment = groups_[to].price.segment;
  const auto known = [&](NodeId id) { return contains(groups_[to].members, id) || std::find(segment.reads.begin(), segment.reads.end(), id) != segment.reads.end(); };
  return std::any_of(part.begin(), part.end(), [&](NodeId id) {
    const auto& operands = facts_.operands[id];
    return known(id) || std::any_of(operands.begin(), operands.end(), known);
  });
}

bool Search::move_parts_of(GroupId from) {
  const std::vector<GroupId> neighbours = neighbours_of(groups_[from], from);
  // Nothing has changed since the last time.
  int newest = groups_[from].version;
  for (GroupId group : neighbours) newest = std::max(newest, groups_[group].version);
  const auto known = moves_tried_.find(from);
  if (known != moves_tried_.end() && known->second >= newest) return false;
  for (const std::vector<NodeId>& part : parts_of(groups_[from])) {
    for (GroupId to : neighbours) {
      if (shares(part, to) && try_move(from, to, part)) return true;
    }
    // A kernel that takes longer than its bytes do may be two.
    const double launch = schedule::costs_of(target_).launch_us;
    const double copied = static_cast<double>(groups_[from].price.bytes) / (schedule::costs_of(target_).copy_gb_per_s * 1e3);
    if (groups_[from].price.microseconds < 2 * launch + copied) continue;
    groups_.emplace_back();
    if (try_move(from, static_cast<GroupId>(groups_.size() - 1), part)) return true;
    groups_.pop_back();
  }
  moves_tried_[from] = newest;
  return false;
}

bool Search::move_parts() {
  // So that large graphs are not searched for long.
  constexpr int kMostPriced = 300;
  constexpr int kMostEstimated = 2500;
  const auto enough = [&] { return moves_priced_ > kMostPriced || moves_estimated_ > kMostEstimated; };
  bool changed = false;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    if (groups_[group].members.size() < 2) continue;
    for (int moves = 0; moves < 8 && groups_[group].members.size() > 1 && !enough() && move_parts_of(group); ++moves) changed = true;
  }
  return changed;
}

/// What of a group has to be computed again for one of its members: up to what it stores anyway.
Result<std::vector<NodeId>> Search::cone_of(NodeId value, const Group& group) const {
  std::vector<NodeId> cone{value};
  for (std::size_t i = 0; i < cone.size(); ++i) {
    if (!facts_.is_pointwise(cone[i])) return unsupported("It is a result of '{}', which is never computed twice.", facts_.graph.node(cone[i]).op->name);
    for (NodeId operand : facts_.operands[cone[i]]) {
      const bool computed = contains(group.members, operand) && !contains(group.price.segment.stores, operand);
      if (computed && std::find(cone.begin(), cone.end(), operand) == cone.end()) cone.push_back(operand);
    }
  }
  return cone;
}

/// The members that the roots are computed from, themselves included.
std::vector<NodeId> Search::closure_of(std::vector<NodeId> roots, const std::vector<NodeId>& members) const {
  for (std::size_t i = 0; i < roots.size(); ++i) {
    for (NodeId operand : facts_.operands[roots[i]]) {
      if (contains(members, operand) && std::find(roots.begin(), roots.end(), operand) == roots.end()) roots.push_back(operand);
    }
  }
  return roots;
}

Result<void> Search::try_recompute(NodeId value, bool always) {
  std::vector<GroupId> groups{owner_[value]};
  groups.insert(groups.end(), readers_[value].begin(), readers_[value].end());
  const Group& producer = groups_[groups[0]];
  std::vector<NodeId> kept = producer.price.segment.stores;
  std::erase(kept, value);
  std::vector<NodeId> left = closure_of(std::move(kept), producer.members);
  std::vector<NodeId> moved{value};
  auto cone = cone_of(value, producer);
  if (cone) {
    moved = *std::move(cone);
  } else {
    // What only one other kernel needs may move there, with what is computed for it alone.
    sort_unique(left);
    if (groups.size() > 2 || contains(left, value)) return std::move(cone).error();
    moved.clear();
    std::set_difference(producer.members.begin(), producer.members.end(), left.begin(), left.end(), std::back_inserter(moved));
  }
  std::vector<std::vector<NodeId>> members{left};
  for (std::size_t i = 1; i < groups.size(); ++i) {
    members.push_back(groups_[groups[i]].members);
    members.back().insert(members.back().end(), moved.begin(), moved.end());
  }
  const std::size_t readers = groups.size() - 1;
  VKF_TRY(change, priced(std::move(groups), std::move(members)));
  if (!always && change.bytes >= change.bytes_before) {
    return unsupported("Computing it again in {} kernel{} would move {} bytes instead of {}.", readers, readers == 1 ? "" : "s", change.bytes, change.bytes_before);
  }
  if (!always && change.microseconds > change.microseconds_before * slack(change.bytes, change.bytes_before)) {
    return unsupported("Computing it again in {} kernel{} is modelled at {:.1f} us instead of {:.1f} us.", readers, readers == 1 ? "" : "s", change.microseconds,
                       change.microseconds_before);
  }
  apply(std::move(change));
  return {};
}

bool Search::recompute_values(bool always) {
  bool changed = false;
  for (NodeId id = static_cast<NodeId>(facts_.graph.size()); id-- > 0;) {
    const GroupId from = owner_[id];
    if (from == kNoGroup || facts_.is_output[id] || readers_[id].empty() || !contains(groups_[from].price.segment.stores, id)) continue;
    std::vector<int> versions{groups_[from].version};
    for (GroupId reader : readers_[id]) versions.push_back(groups_[reader].version);
    std::vector<int>& refused = refused_recompute_[id];
    if (refused == versions) continue;
    const Result<void> outcome = try_recompute(id, always);
    if (outcome.ok()) {
      changed = true;
      recompute_reasons_.erase(id);
    } else {
      refused = std::move(versions);
      recompute_reasons_[id] = outcome.error().message;
    }
  }
  return changed;
}

std::string Search::reason_of(NodeId value) const {
  if (!options_.fusion) return "Fusion is switched off.";
  if (looked_at_all_) return "Of all partitions of these few ops this one is modelled fastest.";
  const auto merging = reasons_.find(value);
  const auto again = recompute_reasons_.find(value);
  std::string text = merging == reasons_.end() ? "It is read by a kernel that was not merged with its producer." : merging->second;
  if (again != recompute_reasons_.end() && facts_.is_pointwise(value) && again->second != text) text += " " + again->second;
  return text;
}

Partition Search::finish() const {
  Partition result;
  std::vector<bool> done(groups_.size(), false);
  for (GroupId group = 0; group < groups_.size(); ++group) emit(group, done, result);
  std::set<NodeId> stored;
  for (const segment::Segment& segment : result.segments) stored.insert(segment.stores.begin(), segment.stores.end());
  const auto is_there = [&](NodeId id) { return !facts_.is_computed[id] || stored.count(id) != 0; };
  for (NodeId id = 0; id < facts_.graph.size(); ++id) check(!facts_.is_output[id] || is_there(id), "some kernel stores every result");
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
  return result;
}

/// Producers first: a depth-first walk with an explicit stack, so that depth is no limit.
void Search::emit(GroupId root, std::vector<bool>& done, Partition& result) const {
  std::vector<std::pair<GroupId, bool>> stack{{root, false}};
  while (!stack.empty()) {
    const std::pair<GroupId, bool> top = stack.back();
    stack.pop_back();
    if (done[top.first] || groups_[top.first].members.empty()) continue;
    if (top.second) {
      done[top.first] = true;
      result.segments.push_back(groups_[top.first].price.segment);
      continue;
    }
    stack.emplace_back(top.first, true);
    for (NodeId value : groups_[top.first].price.segment.reads) {
      if (owner_[value] != kNoGroup && !done[owner_[value]]) stack.emplace_back(owner_[value], false);
    }
  }
}

}  // namespace vkfuse::partition

// Parts of kernels go elsewhere, and values are computed where they are read.
#include "partition/search.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::partition {

using ir::NodeId;

/// Groups that store what this one reads, read what it stores, or read the same.
std::vector<GroupId> Search::neighbours_of(const Group& group, GroupId own) const {
  constexpr std::size_t kMost = 8;
  std::vector<GroupId> all;
  const auto add = [&](GroupId other) {
    if (other != kNoGroup && other != own && all.size() < kMost && !is_among(all, other)) all.push_back(other);
  };
  for (NodeId id : group.price.segment.reads) add(owner_[id]);
  const auto add_readers = [&](const std::vector<NodeId>& values) {
    for (NodeId id : values) {
      for (GroupId reader : readers_[id]) {
        if (all.size() == kMost) return;  // a value may have very many
        add(reader);
      }
    }
  };
  add_readers(group.price.segment.stores);
  add_readers(group.price.segment.reads);
  return all;
}

/// For each member, what of the group is computed from it, the same with what is computed for that alone, and what it
/// is computed from; itself included.
std::vector<std::vector<NodeId>> Search::parts_of(const Group& group) const {
  constexpr std::size_t kMost = 24;  // members of a group that is taken apart
  std::set<std::vector<NodeId>> parts;
  if (group.members.size() > kMost) return {};
  for (NodeId root : group.members) {
    std::vector<NodeId> above{root};
    for (NodeId id : group.members) {
      const auto& operands = facts_.operands[id];
      if (id > root &&
          std::any_of(operands.begin(), operands.end(), [&](NodeId operand) { return contains(above, operand); }))
        above.push_back(id);
    }
    std::vector<NodeId> below = closure_of({root}, group.members);
    sort_unique(below);
    std::vector<NodeId> whole = above;
    for (auto id = group.members.rbegin(); id != group.members.rend(); ++id) {
      const auto& users = facts_.users[*id];
      const auto inside = [&](NodeId user) { return contains(whole, user); };
      if (contains(whole, *id) || contains(below, *id) || contains(group.price.segment.stores, *id) ||
          !std::all_of(users.begin(), users.end(), inside))
        continue;
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
  std::set_difference(groups_[from].members.begin(), groups_[from].members.end(), part.begin(), part.end(),
                      std::back_inserter(left));
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
  const auto known = [&](NodeId id) {
    return contains(groups_[to].members, id) ||
           std::find(segment.reads.begin(), segment.reads.end(), id) != segment.reads.end();
  };
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
  if (groups_[from].settled && are_settled(neighbours)) return false;
  for (const std::vector<NodeId>& part : parts_of(groups_[from])) {
    for (GroupId to : neighbours) {
      if (shares(part, to) && try_move(from, to, part)) return true;
    }
    // A kernel that takes longer than its bytes do may be two.
    const double launch = schedule::costs_of(target_).launch_us;
    const double copied =
        static_cast<double>(groups_[from].price.bytes) / (schedule::costs_of(target_).copy_gb_per_s * 1e3);
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
    for (int moves = 0; moves < 8 && groups_[group].members.size() > 1 && !enough() && move_parts_of(group); ++moves)
      changed = true;
  }
  return changed;
}

/// What of a group has to be computed again for one of its members: up to what it stores anyway.
Result<std::vector<NodeId>> Search::cone_of(NodeId value, const Group& group) const {
  std::vector<NodeId> cone{value};
  for (std::size_t i = 0; i < cone.size(); ++i) {
    if (!facts_.is_pointwise(cone[i]))
      return unsupported("It is a result of '{}', which is never computed twice.", facts_.graph.node(cone[i]).op->name);
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
      if (contains(members, operand) && std::find(roots.begin(), roots.end(), operand) == roots.end())
        roots.push_back(operand);
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
    std::set_difference(producer.members.begin(), producer.members.end(), left.begin(), left.end(),
                        std::back_inserter(moved));
  }
  std::vector<std::vector<NodeId>> members{left};
  for (std::size_t i = 1; i < groups.size(); ++i) {
    members.push_back(groups_[groups[i]].members);
    members.back().insert(members.back().end(), moved.begin(), moved.end());
  }
  const std::size_t readers = groups.size() - 1;
  VKF_TRY(change, priced(std::move(groups), std::move(members)));
  if (!always && change.bytes >= change.bytes_before) {
    return unsupported("Computing it again in {} kernel{} would move {} bytes instead of {}.", readers,
                       readers == 1 ? "" : "s", change.bytes, change.bytes_before);
  }
  if (!always && change.microseconds > change.microseconds_before * slack(change.bytes, change.bytes_before)) {
    return unsupported("Computing it again in {} kernel{} is modelled at {:.1f} us instead of {:.1f} us.", readers,
                       readers == 1 ? "" : "s", change.microseconds, change.microseconds_before);
  }
  apply(std::move(change));
  return {};
}

bool Search::recompute_values(bool always) {
  bool changed = false;
  for (NodeId id = static_cast<NodeId>(facts_.graph.size()); id-- > 0;) {
    const GroupId from = owner_[id];
    if (from == kNoGroup || facts_.is_output[id] || readers_[id].empty() ||
        !contains(groups_[from].price.segment.stores, id))
      continue;
    if (groups_[from].settled && are_settled(readers_[id])) continue;
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

}  // namespace vkfuse::partition

#include "partition/partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace vkfuse::partition {

namespace {

using ir::NodeId;
using GroupId = std::uint32_t;

/// Views and positions cost nothing where they are needed: every kernel that wants one has its own, and
/// none is stored unless it is a result.
bool is_free(const ir::Node& node) { return node.op->cls == ops::OpClass::view || node.op->cls == ops::OpClass::generate; }

/// The same device with buffers of any size.
Target with_large_buffers(Target target) {
  target.caps.storage_buffer_range = std::numeric_limits<decltype(target.caps.storage_buffer_range)>::max();
  return target;
}

struct Group {
  std::vector<NodeId> members;  // sorted; empty once merged into another group
  segment::Segment segment;
  std::int64_t bytes = 0;
  double microseconds = 0;    // modelled
  int version = 0;            // of its members
};

class Search {
 public:
  Search(const ir::Graph& graph, const Target& target)
      : graph_(graph), target_(target), roomy_(with_large_buffers(target)), symbols_(schedule::nominal_symbols(graph)), is_output_(graph.size(), false),
        is_alias_(graph.size(), false), group_of_(graph.size(), kNone) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
    find_users();
  }

  Result<Partition> run(const Options& options) {
    VKF_CHECK_OK(start());
    if (options.fusion) {
      merge_producers();
      for (int round = 0; round < kMostRounds && move_to_readers(); ++round) merge_producers();
      merge_siblings();
    }
    VKF_CHECK_OK(check_sizes());
    return finish(options);
  }

 private:
  static constexpr GroupId kNone = ~GroupId{0};
  static constexpr int kMostRounds = 8;

  [[nodiscard]] bool is_free(ir::NodeId id) const { return partition::is_free(graph_.node(id)) && !is_output_[id]; }
  /// Users read what is behind it. That goes for a result too, where it lies in another buffer already.
  [[nodiscard]] bool is_seen_through(ir::NodeId id) const { return is_free(id) || is_alias_[id]; }

  /// Whether a result is a view whose elements another buffer holds in order: nothing has to run for it.
  [[nodiscard]] bool is_alias(NodeId id) const {
    if (!is_output_[id] || graph_.node(id).op->cls != ops::OpClass::view) return false;
    std::vector<NodeId> members = free_operands_[id];
    members.push_back(id);
    std::vector<bool> escapes(graph_.size(), false);
    escapes[id] = true;
    const auto loops = segment::build_loops(graph_, segment::build_segment(graph_, std::move(members), escapes), symbols_);
    const auto window = loops ? segment::window_of(*loops) : std::nullopt;
    return window && (segment::is_resident(graph_, window->of) || is_output_[window->of]);
  }

  /// What each node is computed from and used by, seen through the free nodes between.
  void find_users() {
    users_.resize(graph_.size());
    operands_.resize(graph_.size());
    free_operands_.resize(graph_.size());
    const auto add = [](std::vector<NodeId>& list, NodeId id) {
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    };
    for (NodeId id = 0; id < graph_.size(); ++id) {
      for (NodeId operand : graph_.node(id).operands) {
        if (!is_seen_through(operand)) {
          add(operands_[id], operand);
          continue;
        }
        add(free_operands_[id], operand);
        for (NodeId through : free_operands_[operand]) add(free_operands_[id], through);
        for (NodeId behind : operands_[operand]) add(operands_[id], behind);
      }
      is_alias_[id] = is_alias(id);
      if (is_free(id)) continue;
      for (NodeId operand : operands_[id]) users_[operand].push_back(id);
    }
  }

  /// One group per node that some output needs and a kernel has to compute.
  Result<void> start() {
    std::vector<bool> live(graph_.size(), false);
    for (const ir::Output& output : graph_.outputs()) live[output.value] = true;
    for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (!live[id]) continue;
      for (NodeId operand : graph_.node(id).operands) live[operand] = true;
    }
    GroupId count = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!live[id] || segment::is_literal(graph_, id) || segment::is_resident(graph_, id) || is_free(id)) continue;
      group_of_[id] = count++;
    }
    // Only now: a price depends on who else is computed.
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (group_of_[id] == kNone) continue;
      auto group = price({id});
      if (!group) return std::move(group).error().within(fmt::format("planning %{} = {}", id, graph_.node(id).op->name));
      groups_.push_back(*std::move(group));
    }
    return {};
  }

  /// What is left to store must fit the buffers of the device.
  Result<void> check_sizes() const {
    for (const Group& group : groups_) {
      if (group.members.empty()) continue;
      auto loops = segment::build_loops(graph_, group.segment, symbols_);
      if (!loops) return std::move(loops).error();
      const auto schedule = schedule::best(graph_, *loops, target_);
      if (!schedule) return Error(schedule.error()).within(fmt::format("planning %{} = {}", group.members.back(), graph_.node(group.members.back()).op->name));
    }
    return {};
  }

  /// Whether anything outside `members` needs each member's value.
  std::vector<bool> escapes(const std::vector<NodeId>& members) const {
    std::vector<bool> flags(graph_.size(), false);
    for (NodeId id : members) {
      const auto outside = [&](NodeId user) {
        return group_of_[user] != kNone && !std::binary_search(members.begin(), members.end(), user);
      };
      flags[id] = is_output_[id] || std::any_of(users_[id].begin(), users_[id].end(), outside);
    }
    return flags;
  }

  /// The kernel of these members, or why there cannot be one.
  Result<Group> price(std::vector<NodeId> members) const {
    std::sort(members.begin(), members.end());
    Group group;
    std::vector<NodeId> all = members;
    for (NodeId id : members) all.insert(all.end(), free_operands_[id].begin(), free_operands_[id].end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    group.segment = segment::build_segment(graph_, std::move(all), escapes(members));
    VKF_TRY(loops, segment::build_loops(graph_, group.segment, symbols_));
    // A value that no buffer can hold may yet be one that is never stored: see check_sizes.
    VKF_TRY(schedule, schedule::best(graph_, loops, roomy_));
    const bool runs = members.size() > 1 || !is_alias_[members[0]];
    group.bytes = runs ? schedule.bytes_read + schedule.bytes_written : 0;
    group.microseconds = runs ? schedule.modelled_us : 0;
    group.members = std::move(members);
    return group;
  }

  /// Whether a path leads from one of the groups to another through a third: merging them would then make a kernel
  /// that waits for itself.
  bool connected_outside(std::span<const GroupId> groups) const {
    const auto among = [&](GroupId group) { return std::find(groups.begin(), groups.end(), group) != groups.end(); };
    std::vector<GroupId> stack;
    std::set<GroupId> seen;
    bool back = false;
    const auto push_users = [&](GroupId group) {
      for (NodeId id : groups_[group].members) {
        for (NodeId user : users_[id]) {
          const GroupId next = group_of_[user];
          if (next == kNone || next == group) continue;
          if (among(next)) {
            back = back || !among(group);
          } else if (seen.insert(next).second) {
            stack.push_back(next);
          }
        }
      }
    };
    for (GroupId group : groups) push_users(group);
    while (!stack.empty() && !back) {
      const GroupId group = stack.back();
      stack.pop_back();
      push_users(group);
    }
    return back;
  }

  /// What a kernel may take longer by the model: times are modelled to some tenth, from constants of the device's type
  /// more roughly than from measured ones; bytes are known. That a value need not exist is worth it.
  [[nodiscard]] double slack(std::int64_t merged, std::int64_t apart) const {
    constexpr double kRounding = 1.001, kMeasured = 1.05, kTenth = 1.15;
    if (target_.costs) return merged * 2 <= apart ? kMeasured : kRounding;
    return merged < apart ? kTenth : kRounding;
  }

  /// Merges the groups into the first if that is possible and pays; otherwise says why not.
  Result<void> try_merge(std::initializer_list<GroupId> groups) {
    outside_ = connected_outside(groups);
    if (outside_) {
      return unsupported("Another kernel must run between the two.");
    }
    const GroupId into = *groups.begin();
    std::vector<NodeId> members;
    std::int64_t bytes = 0;
    double microseconds = 0;
    for (GroupId group : groups) {
      members.insert(members.end(), groups_[group].members.begin(), groups_[group].members.end());
      bytes += groups_[group].bytes;
      microseconds += groups_[group].microseconds;
    }
    VKF_TRY(merged, price(members));
    if (merged.bytes > bytes) return unsupported("One kernel would move {} bytes instead of {}.", merged.bytes, bytes);
    if (merged.microseconds > microseconds * slack(merged.bytes, bytes)) {
      return unsupported("One kernel is modelled at {:.1f} us and the {} at {:.1f} us.", merged.microseconds, groups.size() == 2 ? "two" : "three", microseconds);
    }
    for (NodeId id : members) group_of_[id] = into;
    for (GroupId group : groups) groups_[group] = {};
    merged.version = ++version_;
    groups_[into] = std::move(merged);
    return {};
  }

  /// Where two groups do not pay as one, they may together with one that computes what the first reads: a softmax
  /// before a product gains only if its scores need not be stored.
  Result<void> try_with_producer(GroupId from, GroupId to) {
    Result<void> outcome = try_merge({from, to});
    if (outcome.ok() || outside_) return outcome;
    std::set<GroupId> producers;
    for (NodeId value : groups_[from].segment.reads) {
      if (group_of_[value] != kNone && group_of_[value] != to) producers.insert(group_of_[value]);
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

  /// Again and again: a merge refused because a third kernel stands between may be possible once that one
  /// is merged as well.
  void merge_producers() {
    for (int round = 0; round < kMostRounds; ++round) {
      changed_ = false;
      merge_producers_once();
      if (!changed_) return;
    }
  }

  void merge_producers_once() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (group_of_[id] == kNone) continue;
      for (NodeId operand : operands_[id]) {
        const GroupId from = group_of_[operand];
        if (from == kNone || from == group_of_[id]) continue;
        // Nothing has changed since the last refusal.
        const auto refused = refused_.find({from, group_of_[id]});
        if (refused != refused_.end() && refused->second == std::pair(groups_[from].version, groups_[group_of_[id]].version)) continue;
        const GroupId to = group_of_[id];
        Result<void> outcome = try_with_producer(from, to);
        if (outcome.ok()) {
          changed_ = true;
        } else if (!outside_) {
          refused_[{from, to}] = {groups_[from].version, groups_[to].version};
        }
        note(operand, outcome);
      }
    }
  }

  /// A value that one other kernel reads may be computed there instead, from what it is made of: a square is not
  /// stored beside what is squared.
  bool move_to_readers() {
    bool moved = false;
    for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      const GroupId from = group_of_[id];
      if (from == kNone || is_output_[id] || groups_[from].members.size() < 2 || users_[id].empty()) continue;
      const GroupId to = group_of_[users_[id].front()];
      const bool one_reader = std::all_of(users_[id].begin(), users_[id].end(), [&](NodeId user) { return group_of_[user] == to; });
      if (!one_reader || to == kNone || to == from) continue;
      moved = try_move(id, from, to) || moved;
    }
    return moved;
  }

  bool try_move(NodeId id, GroupId from, GroupId to) {
    std::vector<NodeId> left = groups_[from].members;
    std::erase(left, id);
    std::vector<NodeId> right = groups_[to].members;
    right.push_back(id);
    const auto smaller = price(std::move(left));
    const auto larger = smaller.ok() ? price(std::move(right)) : smaller;
    if (!larger.ok()) return false;
    const bool less = smaller->bytes + larger->bytes < groups_[from].bytes + groups_[to].bytes;
    if (!less || smaller->microseconds + larger->microseconds > groups_[from].microseconds + groups_[to].microseconds) return false;
    groups_[from] = *smaller;
    groups_[to] = *larger;
    group_of_[id] = to;
    groups_[from].version = ++version_;
    groups_[to].version = ++version_;
    return true;
  }

  /// Kernels that read the same value read it once when they are one.
  void merge_siblings() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (segment::is_literal(graph_, id)) continue;
      std::vector<NodeId> readers;  // in kernels: an alias reads nothing
      std::copy_if(users_[id].begin(), users_[id].end(), std::back_inserter(readers), [&](NodeId user) { return !is_alias_[user]; });
      for (std::size_t i = 1; i < readers.size(); ++i) {
        const GroupId a = group_of_[readers[0]];
        const GroupId b = group_of_[readers[i]];
        if (a == kNone || b == kNone || a == b) continue;
        static_cast<void>(try_merge({std::min(a, b), std::max(a, b)}));
      }
    }
  }

  void note(NodeId value, const Result<void>& outcome) {
    if (outcome.ok()) {
      reasons_.erase(value);
    } else {
      reasons_[value] = outcome.error().message;
    }
  }

  Result<Partition> finish(const Options& options) {
    Partition result;
    std::vector<bool> done(groups_.size(), false);
    for (GroupId group = 0; group < groups_.size(); ++group) emit(group, done, result);
    for (const segment::Segment& segment : result.segments) {
      if (segment.stores.size() == 1 && is_alias_[segment.stores[0]]) continue;  // no kernel
      for (NodeId value : segment.reads) {
        if (segment::is_resident(graph_, value)) continue;
        if (std::any_of(result.boundaries.begin(), result.boundaries.end(), [&](const Boundary& b) { return b.value == value; })) continue;
        const auto found = reasons_.find(value);
        const std::string why = !options.fusion            ? "Fusion is switched off."
                                : found == reasons_.end() ? "It is read by a kernel that was not merged with its producer."
                                                          : found->second;
        result.boundaries.push_back({value, why});
      }
    }
    return result;
  }

  /// Producers first: a depth-first walk with an explicit stack, so that depth is no limit.
  void emit(GroupId root, std::vector<bool>& done, Partition& result) {
    std::vector<std::pair<GroupId, bool>> stack{{root, false}};
    while (!stack.empty()) {
      const std::pair<GroupId, bool> top = stack.back();
      stack.pop_back();
      if (done[top.first] || groups_[top.first].members.empty()) continue;
      if (top.second) {
        done[top.first] = true;
        result.segments.push_back(groups_[top.first].segment);
        continue;
      }
      stack.emplace_back(top.first, true);
      for (NodeId value : groups_[top.first].segment.reads) {
        if (group_of_[value] != kNone && !done[group_of_[value]]) stack.emplace_back(group_of_[value], false);
      }
    }
  }

  const ir::Graph& graph_;
  const Target& target_;
  const Target roomy_;
  SymbolValues symbols_;
  std::vector<std::vector<NodeId>> users_;          // seen through free nodes
  std::vector<std::vector<NodeId>> operands_;       // likewise
  std::vector<std::vector<NodeId>> free_operands_;  // the free nodes between
  std::vector<bool> is_output_;
  std::vector<bool> is_alias_;
  std::vector<GroupId> group_of_;
  std::vector<Group> groups_;
  std::map<NodeId, std::string> reasons_;
  std::map<std::pair<GroupId, GroupId>, std::pair<int, int>> refused_;  // at these versions
  int version_ = 0;
  bool changed_ = false;
  bool outside_ = false;  // the last refusal was for a kernel between the two
};

}  // namespace

Result<Partition> partition(const ir::Graph& graph, const Target& target, const Options& options) {
  return Search(graph, target).run(options);
}

}  // namespace vkfuse::partition

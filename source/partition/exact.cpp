// Graphs of few ops: the best of all partitions. A partition is put together kernel by kernel, producers first: what is
// done is closed under operands, and so is what is done with one more kernel.
#include <algorithm>
#include <limits>

#include "partition/search.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Set = std::uint32_t;  // of nodes, one bit each

struct Best {
  double microseconds = kNever;
  std::int64_t bytes = 0;
  Set last = 0;  // the kernel that comes last
};

}  // namespace

bool Search::search_all() {
  constexpr std::size_t kMostNodes = 8;  // some milliseconds
  constexpr double kNoMore = 0.97, kMore = 0.87;  // of the time of what was found, for as many bytes, and for more
  std::vector<NodeId> nodes;
  for (NodeId id = 0; id < facts_.graph.size(); ++id) {
    if (facts_.is_computed[id]) nodes.push_back(id);
  }
  if (nodes.size() < 3 || nodes.size() > kMostNodes) return false;
  const auto bits_of = [&](const std::vector<NodeId>& ids) {
    Set set = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) set |= std::find(ids.begin(), ids.end(), nodes[i]) != ids.end() ? Set{1} << i : 0;
    return set;
  };
  std::vector<Set> operands, users;
  for (NodeId id : nodes) {
    operands.push_back(bits_of(facts_.operands[id]));
    users.push_back(bits_of(facts_.users[id]));
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
  const auto price_of = [&](Set set) {
    return pricer_(members_of(set), [&](NodeId id) {
      const auto i = static_cast<std::size_t>(std::lower_bound(nodes.begin(), nodes.end(), id) - nodes.begin());
      return facts_.is_output[id] || (users[i] & ~set) != 0;
    });
  };
  const Set all = (Set{1} << nodes.size()) - 1;
  std::vector<std::optional<std::pair<double, std::int64_t>>> prices(all + 1);
  std::vector<Best> best(all + 1);
  best[0].microseconds = 0;
  for (Set done = 0; done < all; ++done) {
    if (best[done].microseconds == kNever) continue;
    const Set left = all & ~done;
    for (Set next = left; next != 0; next = (next - 1) & left) {
      if (!is_closed(done | next)) continue;
      if (!prices[next]) {
        const auto price = price_of(next);
        prices[next] = price.ok() ? std::pair(price->microseconds, price->bytes) : std::pair(kNever, std::int64_t{0});
      }
      Best& other = best[done | next];
      const double microseconds = best[done].microseconds + prices[next]->first;
      if (microseconds < other.microseconds) other = {microseconds, best[done].bytes + prices[next]->second, next};
    }
  }
  double microseconds = 0;
  std::int64_t bytes = 0;
  for (const Group& group : groups_) {
    microseconds += group.price.microseconds;
    bytes += group.price.bytes;
  }
  const double enough = best[all].bytes <= bytes ? kNoMore : kMore;
  if (best[all].microseconds > microseconds * enough) return false;
  std::vector<std::vector<NodeId>> kernels;
  for (Set set = all; set != 0; set &= ~best[set].last) kernels.push_back(members_of(best[set].last));
  while (groups_.size() < kernels.size()) groups_.emplace_back();
  std::vector<GroupId> groups;
  for (GroupId group = 0; group < groups_.size(); ++group) groups.push_back(group);
  kernels.resize(groups.size());
  // Where kernels computed something twice, one of them owns it now.
  for (NodeId id : nodes) owner_[id] = owner_[id] == kNoGroup ? 0 : owner_[id];
  auto change = priced(std::move(groups), std::move(kernels));
  if (!change.ok()) return false;
  apply(*std::move(change));
  looked_at_all_ = true;
  return true;
}

}  // namespace vkfuse::partition

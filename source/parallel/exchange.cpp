#include "parallel/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "parallel/join.hpp"

namespace vkfuse::parallel {

namespace {

/// Values up to this size go to every member whole, which joins them itself: one exchange in place of two.
constexpr std::size_t kSmall = 16 << 10;
/// What arrives is joined in slices of about so many bytes, while later ones are on their way.
constexpr std::size_t kSlice = 1 << 20;

using Bytes = std::vector<std::byte>;

SharedBytes make_bytes(std::size_t count) { return std::make_shared<Bytes>(count); }

/// Part `member` of `count` of a value along an axis: `outer` runs of `run` bytes, `count` runs apart.
struct Parts {
  std::size_t outer = 1, run = 1;
  std::size_t count = 1;
  [[nodiscard]] std::size_t bytes() const { return outer * run; }
};

/// Of a value whose parts have these sizes.
Parts parts_of(std::span<const std::int64_t> part, int axis, std::size_t element, int count) {
  Parts parts{1, element, static_cast<std::size_t>(count)};
  for (std::size_t i = 0; i < part.size(); ++i)
    (static_cast<int>(i) < axis ? parts.outer : parts.run) *= static_cast<std::size_t>(part[i]);
  return parts;
}

void take_part(const Parts& parts, std::size_t member, const std::byte* whole, std::byte* part) {
  for (std::size_t o = 0; o < parts.outer; ++o)
    std::memcpy(part + o * parts.run, whole + (o * parts.count + member) * parts.run, parts.run);
}

void put_part(const Parts& parts, std::size_t member, const std::byte* part, std::byte* whole) {
  for (std::size_t o = 0; o < parts.outer; ++o)
    std::memcpy(whole + (o * parts.count + member) * parts.run, part + o * parts.run, parts.run);
}

class Collective {
 public:
  Collective(Transport& transport, const CollectiveCall& call, Members members)
      : transport_(transport), call_(call), members_(std::move(members)) {}

  Result<SharedBytes> run() {
    if (std::holds_alternative<ir::AllReducePayload>(call_.node.payload)) return all_reduce();
    if (const auto* gather = std::get_if<ir::GatherRanksPayload>(&call_.node.payload)) {
      const bool joins = call_.node.op->reduction.kind != ops::Reduction::Kind::none;
      if (joins) return reduce_scatter(gather->axis);
      return all_gather(VKF_PLANT(gathered_along_the_first_axis, gather->axis, 0));
    }
    if (const auto* all = std::get_if<ir::AllToAllPayload>(&call_.node.payload)) return all_to_all(*all);
    if (const auto* from = std::get_if<ir::BroadcastFromPayload>(&call_.node.payload)) return broadcast(from->root);
    const auto* sends = std::get_if<ir::SendReceivePayload>(&call_.node.payload);
    check(sends != nullptr, "a collective has no way to run");
    return send_receive(sends->from);
  }

 private:
  [[nodiscard]] std::size_t element() const { return static_cast<std::size_t>(size_of(call_.dtype)); }
  [[nodiscard]] std::string_view join() const { return call_.node.op->reduction.join; }
  [[nodiscard]] std::size_t count() const { return members_.ranks.size(); }
  [[nodiscard]] std::size_t self() const { return static_cast<std::size_t>(members_.self); }

  /// Messages of one phase; what they lie in stays alive with them.
  struct Phase {
    Exchange exchange;
    std::vector<SharedBytes> memory;
  };

  Phase phase(std::uint64_t index, std::vector<SharedBytes> memory) const {
    Phase made;
    made.exchange.number = call_.number + index;
    made.exchange.deadline = call_.deadline;
    made.memory = std::move(memory);
    return made;
  }

  /// Messages without bytes are not sent.
  void send(Phase& to, std::size_t member, std::span<const std::byte> bytes) const {
    if (!bytes.empty()) to.exchange.sends.push_back({members_.ranks[member], bytes});
  }
  void receive(Phase& to, std::size_t member, std::span<std::byte> bytes) const {
    if (!bytes.empty()) to.exchange.receives.push_back({members_.ranks[member], bytes});
  }

  Result<void> finish(Phase& phase) const {
    phase.exchange.memory = std::make_shared<std::vector<SharedBytes>>(phase.memory);
    return transport_.exchange(phase.exchange);
  }

  /// Sends what `part_for` says to each other member, and receives as many bytes from each.
  template <typename PartFor>
  Result<SharedBytes> exchange_with_all(std::uint64_t index, const SharedBytes& from, std::size_t bytes,
                                        PartFor part_for) const {
    SharedBytes arrived = make_bytes(bytes * count());
    Phase one = phase(index, {from, arrived});
    for (std::size_t m = 0; m < count(); ++m) {
      if (m == self()) continue;
      send(one, m, {part_for(m), bytes});
      receive(one, m, std::span(*arrived).subspan(m * bytes, bytes));
    }
    VKF_CHECK_OK(finish(one));
    if (bytes > 0) std::memcpy(arrived->data() + self() * bytes, part_for(self()), bytes);
    return arrived;
  }

  /// Joins what members have of one part: `own` is this rank's, `part_of` the bytes to send to a member. Slices are
  /// joined as soon as they have arrived from all.
  template <typename PartOf>
  Result<SharedBytes> join_parts(std::uint64_t index, const SharedBytes& from, PartOf part_of) const {
    const std::span<const std::byte> own = part_of(self());
    SharedBytes arrived = make_bytes(own.size() * count());
    SharedBytes joined = make_bytes(own.size());
    Phase one = phase(index, {from, arrived, joined});
    const std::size_t slice = kSlice / element() * element();
    std::vector<std::size_t> slice_of, missing;
    for (std::size_t at = 0; at < own.size(); at += slice) {
      missing.push_back(count() - 1);
      for (std::size_t m = 0; m < count(); ++m) {
        if (m == self()) continue;
        const std::size_t bytes = std::min(slice, own.size() - at);
        receive(one, m, std::span(*arrived).subspan(m * own.size() + at, bytes));
        slice_of.push_back(at / slice);
      }
    }
    for (std::size_t m = 0; m < count(); ++m) {
      const std::span<const std::byte> part = m == self() ? std::span<const std::byte>() : part_of(m);
      for (std::size_t at = 0; at < part.size(); at += slice)
        send(one, m, part.subspan(at, std::min(slice, part.size() - at)));
    }
    one.exchange.received = [&](std::size_t receive) {
      if (--missing[slice_of[receive]] > 0) return;
      const std::size_t at = slice_of[receive] * slice, bytes = std::min(slice, own.size() - at);
      std::vector<std::span<const std::byte>> values;
      for (std::size_t m = 0; m < count(); ++m)
        values.push_back(m == self() ? own.subspan(at, bytes)
                                     : std::span<const std::byte>(*arrived).subspan(m * own.size() + at, bytes));
      join_elements(join(), call_.dtype, values, std::span(*joined).subspan(at, bytes));
    };
    VKF_CHECK_OK(finish(one));
    return joined;
  }

  Result<SharedBytes> all_reduce() const {
    const SharedBytes& x = call_.operand;
    if (x->size() <= kSmall) return all_reduce_small();
    // Member m joins elements begin(m) to begin(m + 1).
    const std::size_t elements = x->size() / element();
    const auto begin = [&](std::size_t m) { return elements * m / count() * element(); };
    const auto part_of = [&](std::size_t m) {
      return std::span<const std::byte>(*x).subspan(begin(m), begin(m + 1) - begin(m));
    };
    VKF_TRY(joined, join_parts(0, x, part_of));
    SharedBytes result = make_bytes(x->size());
    std::copy(joined->begin(), joined->end(), result->begin() + static_cast<std::ptrdiff_t>(begin(self())));
    Phase two = phase(1, {joined, result});
    for (std::size_t m = 0; m < count(); ++m) {
      if (m == self()) continue;
      send(two, m, *joined);
      receive(two, m, std::span(*result).subspan(begin(m), begin(m + 1) - begin(m)));
    }
    VKF_CHECK_OK(finish(two));
    return result;
  }

  Result<SharedBytes> all_reduce_small() const {
    const SharedBytes& x = call_.operand;
    VKF_TRY(arrived, exchange_with_all(0, x, x->size(), [&](std::size_t) { return x->data(); }));
    std::vector<std::span<const std::byte>> values;
    for (std::size_t m = 0; m < count(); ++m)
      values.push_back(std::span<const std::byte>(*arrived).subspan(m * x->size(), x->size()));
    SharedBytes result = make_bytes(x->size());
    join_elements(join(), call_.dtype, values, *result);
    return result;
  }

  /// The parts along an axis one after the other.
  SharedBytes packed(const Parts& parts) const {
    if (parts.outer == 1 || parts.run == 0) return call_.operand;
    SharedBytes made = make_bytes(parts.bytes() * parts.count);
    for (std::size_t m = 0; m < parts.count; ++m)
      take_part(parts, m, call_.operand->data(), made->data() + m * parts.bytes());
    return made;
  }

  /// What arrived, one part after the other, side by side along an axis.
  static SharedBytes unpacked(const Parts& parts, SharedBytes arrived) {
    if (parts.outer == 1 || parts.run == 0) return arrived;
    SharedBytes made = make_bytes(arrived->size());
    for (std::size_t m = 0; m < parts.count; ++m) put_part(parts, m, arrived->data() + m * parts.bytes(), made->data());
    return made;
  }

  /// The sizes of one part of the operand.
  [[nodiscard]] std::vector<std::int64_t> divided(int axis) const {
    std::vector<std::int64_t> part = call_.sizes;
    part[static_cast<std::size_t>(axis)] /= members_.count();
    return part;
  }

  Result<SharedBytes> reduce_scatter(int axis) const {
    const Parts parts = parts_of(divided(axis), axis, element(), members_.count());
    const SharedBytes from = packed(parts);
    return join_parts(0, from, [&](std::size_t m) {
      return std::span<const std::byte>(*from).subspan(m * parts.bytes(), parts.bytes());
    });
  }

  Result<SharedBytes> all_gather(int axis) const {
    const SharedBytes& x = call_.operand;
    const Parts parts = parts_of(call_.sizes, axis, element(), members_.count());
    VKF_TRY(arrived, exchange_with_all(0, x, x->size(), [&](std::size_t) { return x->data(); }));
    return unpacked(parts, std::move(arrived));
  }

  Result<SharedBytes> all_to_all(const ir::AllToAllPayload& all) const {
    const std::vector<std::int64_t> part = divided(all.split);
    const Parts splits = parts_of(part, all.split, element(), members_.count());
    const SharedBytes from = packed(splits);
    const std::size_t bytes = splits.bytes();
    VKF_TRY(arrived, exchange_with_all(0, from, bytes, [&](std::size_t m) { return from->data() + m * bytes; }));
    return unpacked(parts_of(part, all.concat, element(), members_.count()), std::move(arrived));
  }

  Result<SharedBytes> broadcast(int root) const {
    const auto from = static_cast<std::size_t>(root);
    if (from != self()) {
      SharedBytes result = make_bytes(call_.operand->size());
      Phase one = phase(0, {result});
      receive(one, from, *result);
      VKF_CHECK_OK(finish(one));
      return result;
    }
    Phase one = phase(0, {call_.operand});
    for (std::size_t m = 0; m < count(); ++m) {
      if (m != self()) send(one, m, *call_.operand);
    }
    VKF_CHECK_OK(finish(one));
    return call_.operand;
  }

  Result<SharedBytes> send_receive(const std::vector<int>& from) const {
    if (from[self()] == members_.self) return call_.operand;
    SharedBytes result = make_bytes(call_.operand->size());  // zeros, where nothing arrives
    Phase one = phase(0, {call_.operand, result});
    for (std::size_t m = 0; m < count(); ++m) {
      if (from[m] == members_.self) send(one, m, *call_.operand);
    }
    if (from[self()] >= 0) receive(one, static_cast<std::size_t>(from[self()]), *result);
    VKF_CHECK_OK(finish(one));
    return result;
  }

  Transport& transport_;
  const CollectiveCall& call_;
  Members members_;
};

}  // namespace

Result<Members> members_of(const ir::RankGroup& group, int rank, int job) {
  if (job % (group.ranks * group.stride) != 0) {
    return invalid("Groups of {} ranks that are {} apart do not divide a job of {} ranks.", group.ranks, group.stride,
                   job);
  }
  Members members;
  members.self = rank / group.stride % group.ranks;
  const int first = rank - members.self * group.stride;
  for (int i = 0; i < group.ranks; ++i) members.ranks.push_back(first + i * group.stride);
  return members;
}

Result<SharedBytes> run_collective(Transport& transport, const CollectiveCall& call) {
  VKF_TRY(members, members_of(*ir::group_of(call.node), transport.rank(), transport.size()));
  if (members.count() == 1 && !std::holds_alternative<ir::SendReceivePayload>(call.node.payload)) return call.operand;
  return Collective(transport, call, std::move(members)).run();
}

std::int64_t bytes_sent(const ir::Node& node, std::int64_t operand_bytes) {
  const std::int64_t ranks = ir::group_of(node)->ranks;
  if (std::holds_alternative<ir::AllReducePayload>(node.payload))
    return operand_bytes <= static_cast<std::int64_t>(kSmall) ? operand_bytes * (ranks - 1)
                                                              : 2 * (operand_bytes - operand_bytes / ranks);
  if (const auto* gather = std::get_if<ir::GatherRanksPayload>(&node.payload); gather != nullptr) {
    const bool joins = node.op->reduction.kind != ops::Reduction::Kind::none;
    return joins ? operand_bytes / ranks * (ranks - 1) : operand_bytes * (ranks - 1);
  }
  if (std::holds_alternative<ir::AllToAllPayload>(node.payload)) return operand_bytes / ranks * (ranks - 1);
  if (std::holds_alternative<ir::BroadcastFromPayload>(node.payload)) return operand_bytes * (ranks - 1);
  return ranks > 1 ? operand_bytes : 0;
}

}  // namespace vkfuse::parallel

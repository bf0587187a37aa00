#include "parallel/exchange.hpp"

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

class Writer {
 public:
  Writer(const Members& members, std::uint64_t bytes) : members_(members) { messages_.bytes = bytes; }

  /// From part `part` of the operand.
  void send(std::size_t member, std::size_t part) { add(messages_.sends, member, part); }
  /// Into part `part` of the result.
  void receive(std::size_t member, std::size_t part) { add(messages_.receives, member, part); }
  [[nodiscard]] Messages finish() { return std::move(messages_); }

 private:
  void add(std::vector<BufferPart>& to, std::size_t member, std::size_t part) {
    if (messages_.bytes > 0) to.push_back({members_.ranks[member], part * messages_.bytes, messages_.bytes});
  }

  const Members& members_;
  Messages messages_;
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

Messages messages_of(const ir::Node& node, const Members& members, std::uint64_t operand_bytes) {
  const std::size_t count = members.ranks.size();
  const auto self = static_cast<std::size_t>(members.self);
  const bool is_split = std::holds_alternative<ir::AllToAllPayload>(node.payload);
  Writer writer(members, is_split ? operand_bytes / count : operand_bytes);
  if (is_split || std::holds_alternative<ir::GatherRanksPayload>(node.payload)) {
    for (std::size_t m = 0; m < count; ++m) {
      writer.send(m, is_split ? m : 0);
      writer.receive(m, m);
    }
    return writer.finish();
  }
  if (const auto* from = std::get_if<ir::BroadcastFromPayload>(&node.payload)) {
    const auto root = static_cast<std::size_t>(from->root);
    for (std::size_t m = 0; self == root && m < count; ++m) writer.send(m, 0);
    writer.receive(root, 0);
    return writer.finish();
  }
  const auto* sends = std::get_if<ir::SendReceivePayload>(&node.payload);
  check(sends != nullptr, "a collective has no way to run");
  for (std::size_t m = 0; m < count; ++m) {
    if (sends->from[m] == members.self) writer.send(m, 0);
  }
  if (sends->from[self] >= 0) writer.receive(static_cast<std::size_t>(sends->from[self]), 0);
  return writer.finish();
}

}  // namespace vkfuse::parallel

// Shape rules of what ranks do together.
#include <algorithm>

#include "ir/structured.hpp"

namespace vkfuse::ir {

namespace {

/// Jobs of more ranks than this are mistakes: a group, its stride and their product stay within 32 bits.
constexpr int kMostRanks = 1 << 15;

Result<void> check_group(const Call& call, const RankGroup& group) {
  if (group.ranks < 1 || group.ranks > kMostRanks)
    return invalid("'{}' is between {} ranks; it may be between 1 and {}.", call.op.name, group.ranks, kMostRanks);
  if (group.stride >= 1 && group.stride <= kMostRanks) return {};
  return invalid("'{}' has ranks {} apart; they may be 1 to {} apart.", call.op.name, group.stride, kMostRanks);
}

Result<void> check_member(const Call& call, std::string_view name, int member, int ranks) {
  if (member >= 0 && member < ranks) return {};
  return invalid("'{}' has the {} {}, but its group has the members 0 to {}.", call.op.name, name, member, ranks - 1);
}

/// The axis in as many equal parts as the group has ranks.
Result<Dim> divided(const Call& call, int axis, int ranks) {
  const Dim& dim = call.operands[0].shape[static_cast<std::size_t>(axis)];
  if (ranks == 1) return dim;
  if (!dim.is_symbol() && dim.size() % ranks == 0) return Dim(dim.size() / ranks);
  return invalid("'{}' divides axis {} of {} among {} ranks, but {} is not a multiple of {}.", call.op.name, axis,
                 to_text(call.operands[0]), ranks, dim.text(), ranks);
}

Result<Dim> multiplied(const Call& call, int axis, int ranks) {
  const Dim& dim = call.operands[0].shape[static_cast<std::size_t>(axis)];
  if (ranks == 1) return dim;
  if (dim.is_symbol()) {
    return invalid("'{}' joins {} parts along axis {} of {}, but {} is a symbol, and no symbol is its multiple.",
                   call.op.name, ranks, axis, to_text(call.operands[0]), dim.text());
  }
  const auto size = checked_mul(dim.size(), ranks);
  if (size) return Dim(*size);
  return invalid("'{}' puts {} parts of {} elements together, which 64 bits cannot count.", call.op.name, ranks,
                 dim.size());
}

}  // namespace

const RankGroup* group_of(const Node& node) {
  return std::visit(
      [](const auto& payload) -> const RankGroup* {
        if constexpr (std::is_base_of_v<RankGroup, std::remove_cvref_t<decltype(payload)>>) {
          return &payload;
        } else {
          return nullptr;
        }
      },
      node.payload);
}

Result<Shape> same_on_ranks_shape(const Call& call) {
  VKF_CHECK_OK(check_group(call, call.attributes<AllReducePayload>()));
  return call.operands[0].shape;
}

Result<Shape> all_gather_shape(const Call& call) {
  const auto& gather = call.attributes<GatherRanksPayload>();
  VKF_CHECK_OK(check_group(call, gather));
  VKF_CHECK_OK(check_axis(call, gather.axis, call.operands[0]));
  Shape shape = call.operands[0].shape;
  VKF_TRY(dim, multiplied(call, gather.axis, gather.ranks));
  shape[static_cast<std::size_t>(gather.axis)] = dim;
  return shape;
}

Result<Shape> reduce_scatter_shape(const Call& call) {
  const auto& scatter = call.attributes<GatherRanksPayload>();
  VKF_CHECK_OK(check_group(call, scatter));
  VKF_CHECK_OK(check_axis(call, scatter.axis, call.operands[0]));
  Shape shape = call.operands[0].shape;
  VKF_TRY(dim, divided(call, scatter.axis, scatter.ranks));
  shape[static_cast<std::size_t>(scatter.axis)] = dim;
  return shape;
}

Result<Shape> all_to_all_shape(const Call& call) {
  const auto& exchange = call.attributes<AllToAllPayload>();
  VKF_CHECK_OK(check_group(call, exchange));
  VKF_CHECK_OK(check_axis(call, exchange.split, call.operands[0]));
  VKF_CHECK_OK(check_axis(call, exchange.concat, call.operands[0]));
  Shape shape = call.operands[0].shape;
  VKF_TRY(part, divided(call, exchange.split, exchange.ranks));
  if (exchange.split == exchange.concat) return shape;
  VKF_TRY(joined, multiplied(call, exchange.concat, exchange.ranks));
  shape[static_cast<std::size_t>(exchange.split)] = part;
  shape[static_cast<std::size_t>(exchange.concat)] = joined;
  return shape;
}

Result<Shape> broadcast_from_shape(const Call& call) {
  const auto& broadcast = call.attributes<BroadcastFromPayload>();
  VKF_CHECK_OK(check_group(call, broadcast));
  VKF_CHECK_OK(check_member(call, "root", broadcast.root, broadcast.ranks));
  return call.operands[0].shape;
}

Result<Shape> send_receive_shape(const Call& call) {
  const auto& sends = call.attributes<SendReceivePayload>();
  VKF_CHECK_OK(check_group(call, sends));
  if (static_cast<int>(sends.from.size()) != sends.ranks) {
    return invalid("'{}' takes one sender for each of {} ranks, but {} are given.", call.op.name, sends.ranks,
                   sends.from.size());
  }
  std::vector<bool> used(sends.from.size(), false);
  for (const int from : sends.from) {
    if (from == -1) continue;
    VKF_CHECK_OK(check_member(call, "sender", from, sends.ranks));
    if (used[static_cast<std::size_t>(from)]) return invalid("'{}' has member {} send twice.", call.op.name, from);
    used[static_cast<std::size_t>(from)] = true;
  }
  return call.operands[0].shape;
}

Result<Shape> shard_shape(const Call& call) {
  const std::vector<int>& mesh_axes = call.attributes<ShardPayload>().mesh_axes;
  const TensorType& operand = call.operands[0];
  if (mesh_axes.size() != operand.shape.size()) {
    return invalid("'shard' takes one axis of the mesh for each axis of {}, or -1, but {} are given.", to_text(operand),
                   mesh_axes.size());
  }
  std::vector<int> named;
  for (const int axis : mesh_axes) {
    if (axis < -1) return invalid("'shard' names the axis {} of the mesh; axes count from 0.", axis);
    if (axis == -1) continue;
    if (std::find(named.begin(), named.end(), axis) != named.end())
      return invalid("'shard' divides two axes of {} over the axis {} of the mesh.", to_text(operand), axis);
    named.push_back(axis);
  }
  return operand.shape;
}

Result<Shape> at_stage_shape(const Call& call) {
  const auto& place = call.attributes<StagePayload>();
  if (place.stage < 0) return invalid("'at_stage' names the stage {}; stages count from 0.", place.stage);
  if (place.mesh_axis < 0)
    return invalid("'at_stage' names the axis {} of the mesh; axes count from 0.", place.mesh_axis);
  return call.operands[0].shape;
}

Result<Shape> micro_batch_shape(const Call& call) {
  VKF_CHECK_OK(check_axis(call, call.attributes<MicroBatchPayload>().axis, call.operands[0]));
  return call.operands[0].shape;
}

}  // namespace vkfuse::ir

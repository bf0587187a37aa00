#include "vkfuse/collectives.hpp"

#include "api/tensor_node.hpp"

namespace vkfuse {

namespace {

ir::RankGroup group_of(Ranks ranks) { return {ranks.count, ranks.stride}; }

/// "all_reduce_sum" and the like; none for what is no Join.
const ops::OpRow* joined_row(std::string_view collective, Join join) {
  constexpr std::string_view names[] = {"sum", "max", "min"};
  const auto at = static_cast<std::size_t>(join);
  return at < std::size(names) ? ops::find(fmt::format("{}_{}", collective, names[at])) : nullptr;
}

Tensor no_join(Join join) {
  return Tensor::failed(invalid("{} is not a way to join: 0 is sum, 1 is max, 2 is min.", static_cast<int>(join)));
}

int counted(const Tensor& x, int axis) { return api::counted_axis(axis, x.valid() ? x.shape().size() : 0); }

}  // namespace

Tensor all_reduce(const Tensor& x, Join join, Ranks ranks) {
  const ops::OpRow* row = joined_row("all_reduce", join);
  return row == nullptr ? no_join(join) : api::build_tensor(*row, {x}, {}, ir::AllReducePayload{group_of(ranks)});
}

Tensor all_reduce_mean(const Tensor& x, Ranks ranks) {
  if (x.valid() && !is_float(x.dtype()))
    return Tensor::failed(unsupported("'all_reduce_mean' takes floats, but {} is given.", name_of(x.dtype())));
  return all_reduce(x, Join::sum, ranks) / static_cast<double>(ranks.count);
}

Tensor reduce_scatter(const Tensor& x, Join join, int axis, Ranks ranks) {
  const ops::OpRow* row = joined_row("reduce_scatter", join);
  if (row == nullptr) return no_join(join);
  return api::build_tensor(*row, {x}, {}, ir::GatherRanksPayload{group_of(ranks), counted(x, axis)});
}

Tensor all_gather(const Tensor& x, int axis, Ranks ranks) {
  return api::build_tensor(ops::row("all_gather"), {x}, {}, ir::GatherRanksPayload{group_of(ranks), counted(x, axis)});
}

Tensor all_to_all(const Tensor& x, int split, int concat, Ranks ranks) {
  return api::build_tensor(ops::row("all_to_all"), {x}, {},
                           ir::AllToAllPayload{group_of(ranks), counted(x, split), counted(x, concat)});
}

Tensor broadcast_from(const Tensor& x, int root, Ranks ranks) {
  return api::build_tensor(ops::row("broadcast_from"), {x}, {}, ir::BroadcastFromPayload{group_of(ranks), root});
}

Tensor send_receive(const Tensor& x, std::vector<int> from, Ranks ranks) {
  return api::build_tensor(ops::row("send_receive"), {x}, {}, ir::SendReceivePayload{group_of(ranks), std::move(from)});
}

Tensor shard(const Tensor& x, int axis, int mesh_axis) {
  if (!x.valid()) return x;
  const std::size_t rank = x.shape().size();
  const int at = counted(x, axis);
  if (at < 0 || at >= static_cast<int>(rank))
    return Tensor::failed(
        invalid("'shard' names axis {}, but {}{} has {} axes.", axis, name_of(x.dtype()), to_text(x.shape()), rank));
  ir::ShardPayload payload{std::vector<int>(rank, -1)};
  Tensor operand = x;
  if (const auto* before = std::get_if<ir::ShardPayload>(&x.node()->payload)) {
    payload = *before;
    operand = x.node()->operands.front();
  }
  payload.mesh_axes[static_cast<std::size_t>(at)] = mesh_axis;
  return api::build_tensor(ops::row("shard"), {operand}, {}, std::move(payload));
}

Tensor replicate(const Tensor& x) {
  if (!x.valid()) return x;
  return api::build_tensor(ops::row("shard"), {x}, {}, ir::ShardPayload{std::vector<int>(x.shape().size(), -1)});
}

Tensor at_stage(const Tensor& x, int stage, int mesh_axis) {
  return api::build_tensor(ops::row("at_stage"), {x}, {}, ir::StagePayload{stage, mesh_axis});
}

Tensor micro_batch(const Tensor& x, int axis) {
  return api::build_tensor(ops::row("micro_batch"), {x}, {}, ir::MicroBatchPayload{counted(x, axis)});
}

}  // namespace vkfuse

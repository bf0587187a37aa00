// Gradients of collectives: of the sum of what all ranks compute. Each is the collective that carries the same parts
// the other way.
#include "vkfuse/collectives.hpp"

#include <set>

#include "autodiff/rules.hpp"

namespace vkfuse::autodiff {

namespace {

Ranks ranks_of(const ir::RankGroup& group) { return {group.ranks, group.stride}; }

Tensor of_all_reduce(const Call& c, std::size_t) {
  return all_reduce(c.g, Join::sum, ranks_of(c.attributes<ir::AllReducePayload>()));
}

Tensor of_all_gather(const Call& c, std::size_t) {
  const auto& gather = c.attributes<ir::GatherRanksPayload>();
  return reduce_scatter(c.g, Join::sum, gather.axis, ranks_of(gather));
}

Tensor of_reduce_scatter(const Call& c, std::size_t) {
  const auto& scatter = c.attributes<ir::GatherRanksPayload>();
  return all_gather(c.g, scatter.axis, ranks_of(scatter));
}

Tensor of_all_to_all(const Call& c, std::size_t) {
  const auto& exchange = c.attributes<ir::AllToAllPayload>();
  return all_to_all(c.g, exchange.concat, exchange.split, ranks_of(exchange));
}

Tensor of_send_receive(const Call& c, std::size_t) {
  const auto& sends = c.attributes<ir::SendReceivePayload>();
  std::vector<int> back(sends.from.size(), -1);
  for (std::size_t to = 0; to < sends.from.size(); ++to) {
    if (sends.from[to] >= 0) back[static_cast<std::size_t>(sends.from[to])] = static_cast<int>(to);
  }
  return send_receive(c.g, std::move(back), ranks_of(sends));
}

Tensor of_shard(const Call& c, std::size_t) {
  return api::build_tensor(*c.y.node()->op, {c.g}, {}, c.attributes<ir::ShardPayload>());
}

/// The annotation that says on which stage a value is: the latest stage of those that it follows from. Null where none
/// does. Each annotation ends the search, so that a pipeline is walked once for all of them.
const ir::StagePayload* stage_of(const Tensor& value) {
  const ir::StagePayload* latest = nullptr;
  std::vector<Tensor> open = {value};
  std::set<const void*> seen;
  while (!open.empty()) {
    const Tensor one = open.back();
    open.pop_back();
    if (!seen.insert(one.node().get()).second) continue;
    const auto* stage = std::get_if<ir::StagePayload>(&one.node()->payload);
    if (stage == nullptr) {
      open.insert(open.end(), one.node()->operands.begin(), one.node()->operands.end());
    } else if (latest == nullptr || latest->stage < stage->stage) {
      latest = stage;
    }
  }
  return latest;
}

/// Back to the stage of the operand, which has to do with it next.
Tensor of_at_stage(const Call& c, std::size_t) {
  const ir::StagePayload* before = stage_of(c.x(0));
  return before == nullptr ? c.g : at_stage(c.g, before->stage, before->mesh_axis);
}

Tensor of_micro_batch(const Call& c, std::size_t) {
  return micro_batch(c.g, c.attributes<ir::MicroBatchPayload>().axis);
}

constexpr std::string_view kOfJoin = "which rank the element is from is known on none";

// A row is a paragraph.
// clang-format off
constexpr GradientRow kCollectiveRows[] = {
    {.op = "all_reduce_sum", .rule = of_all_reduce, .doc = "the sum of the ranks' g"},
    {.op = "all_reduce_max", .kind = Kind::refused, .doc = kOfJoin},
    {.op = "all_reduce_min", .kind = Kind::refused, .doc = kOfJoin},
    {.op = "reduce_scatter_sum", .rule = of_reduce_scatter, .doc = "the ranks' g, gathered"},
    {.op = "reduce_scatter_max", .kind = Kind::refused, .doc = kOfJoin},
    {.op = "reduce_scatter_min", .kind = Kind::refused, .doc = kOfJoin},
    {.op = "all_gather", .rule = of_all_gather, .doc = "the sum of the ranks' g, each its part"},
    {.op = "all_to_all", .rule = of_all_to_all, .doc = "g, exchanged the other way"},
    {.op = "broadcast_from", .kind = Kind::refused,
     .doc = "the root alone has one; write it as an all_reduce of what is 0 on the others"},
    {.op = "send_receive", .rule = of_send_receive, .doc = "g, sent back"},
    {.op = "shard", .rule = of_shard, .doc = "g, divided in the same way"},
    {.op = "at_stage", .rule = of_at_stage, .doc = "g, on the stage of the operand"},
    {.op = "micro_batch", .rule = of_micro_batch, .doc = "g, in the same micro-batches"},
};
// clang-format on

}  // namespace

std::span<const GradientRow> collective_rows() { return kCollectiveRows; }

}  // namespace vkfuse::autodiff

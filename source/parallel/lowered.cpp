#include "parallel/lowered.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "passes/rewriter.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;

/// Values up to this size go to every member whole, which joins them itself: one exchange in place of two.
constexpr std::int64_t kSmall = 16 << 10;
/// So many values are joined one by one, which fuses with any reader; more are a reduction.
constexpr int kFewRanks = 8;

std::optional<std::int64_t> element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const Dim& dim : shape) {
    if (dim.is_symbol()) return std::nullopt;
    count *= dim.size();
  }
  return count;
}

bool is_small(std::int64_t bytes, int ranks) { return bytes <= kSmall && ranks <= kFewRanks; }

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const std::vector<int>& slots) : from_(graph), before_(slots), rewriter_(graph) {}

  Result<Lowered> run() {
    for (NodeId id = 0; id < from_.size(); ++id) {
      const ir::Node& node = from_.node(id);
      if (node.op->cls != ops::OpClass::collective || ir::group_of(node)->ranks == 1) {
        VKF_CHECK_OK(rewriter_.keep(id));
      } else {
        origin_ = id;
        group_ = *ir::group_of(node);
        VKF_TRY(value, lower(node, rewriter_.at(node.operands.front())));
        rewriter_.alias(id, value);
      }
      if (!before_.empty()) slots_.resize(rewriter_.graph().size(), before_[id]);
    }
    VKF_TRY(graph, rewriter_.finish());
    return Lowered{std::move(graph), std::move(origins_), {}, std::move(slots_)};
  }

 private:
  Result<NodeId> lower(const ir::Node& node, NodeId x) {
    const std::string_view join = node.op->reduction.join;
    if (std::holds_alternative<ir::AllReducePayload>(node.payload)) return all_reduce(x, join);
    if (const auto* gather = std::get_if<ir::GatherRanksPayload>(&node.payload)) {
      const bool joins = node.op->reduction.kind != ops::Reduction::Kind::none;
      if (joins) return reduce_scatter(x, gather->axis, join);
      return all_gather(x, VKF_PLANT(gathered_along_the_first_axis, gather->axis, 0));
    }
    if (const auto* all = std::get_if<ir::AllToAllPayload>(&node.payload)) {
      VKF_TRY(parts, parts_from_all(x, all->split));
      return side_by_side(parts, all->concat);
    }
    return collective(node.op->name, x, node.payload);
  }

  [[nodiscard]] int ranks() const { return group_.ranks; }
  [[nodiscard]] const TensorType& type_of(NodeId id) { return rewriter_.graph().node(id).type; }

  Result<NodeId> collective(std::string_view op, NodeId x, ir::Payload payload) {
    VKF_TRY(made, rewriter_.graph().add_structured(ops::row(op), {x}, std::move(payload)));
    origins_[made] = origin_;
    return made;
  }

  // ---- parts ----

  Result<NodeId> permute(NodeId x, std::vector<int> order) {
    if (std::is_sorted(order.begin(), order.end())) return x;
    return rewriter_.graph().add_structured(ops::row("permute"), {x}, ir::AxesPayload{std::move(order)});
  }

  /// The parts along an axis one after the other: [ranks, ...].
  Result<NodeId> parts_first(NodeId x, int axis) {
    Shape shape = type_of(x).shape;
    const auto at = shape.begin() + axis;
    *at = Dim(at->size() / ranks());
    shape.insert(at, Dim(ranks()));
    VKF_TRY(parts, rewriter_.reshape(x, shape));
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    return permute(parts, std::move(order));
  }

  /// Values [ranks, ...] put together along an axis of theirs.
  Result<NodeId> side_by_side(NodeId values, int axis) {
    const std::size_t rank = type_of(values).shape.size();
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1, order.begin() + axis + 1);
    Shape shape(type_of(values).shape.begin() + 1, type_of(values).shape.end());
    Dim& joined = shape[static_cast<std::size_t>(axis)];
    joined = Dim(joined.size() * ranks());
    VKF_TRY(beside, permute(values, std::move(order)));
    return rewriter_.reshape(beside, std::move(shape));
  }

  /// What every member has for this one, of values that are divided along an axis.
  Result<NodeId> parts_from_all(NodeId x, int axis) {
    VKF_TRY(parts, parts_first(x, axis));
    return collective("all_to_all", parts, ir::AllToAllPayload{group_, 0, 0});
  }

  /// The values of all members: [ranks, ...].
  Result<NodeId> from_all(NodeId x) {
    Shape shape = type_of(x).shape;
    shape.insert(shape.begin(), Dim(1));
    VKF_TRY(one, rewriter_.reshape(x, std::move(shape)));
    return collective("all_gather", one, ir::GatherRanksPayload{group_, 0});
  }

  Result<NodeId> all_gather(NodeId x, int axis) {
    VKF_TRY(all, from_all(x));
    return side_by_side(all, axis);
  }

  // ---- sums ----

  /// In the order in which they are given; f16 and bf16 in f32.
  Result<NodeId> join_in_order(std::vector<NodeId> values, std::string_view join) {
    const DType dtype = type_of(values.front()).dtype;
    const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
    const bool widens = join == "add" && is_half && !VKF_PLANT(halves_rounded_each_time, false, true);
    std::optional<NodeId> sum;
    for (const NodeId value : values) {
      VKF_TRY(wide, rewriter_.cast(value, widens ? DType::f32 : dtype));
      if (sum) {
        VKF_TRY(next, rewriter_.op(join, {*sum, wide}));
        sum = next;
      } else {
        sum = wide;
      }
    }
    return rewriter_.cast(*sum, dtype);
  }

  /// Values [ranks, ...] joined into one.
  Result<NodeId> join_values(NodeId values, std::string_view join) {
    if (ranks() > kFewRanks) {
      const std::string_view op = join == "add" ? "reduce_sum" : join == "max" ? "reduce_max" : "reduce_min";
      return rewriter_.graph().add_structured(ops::row(op), {values}, ir::AxesPayload{{0}});
    }
    std::vector<NodeId> each;
    for (int member = 0; member < ranks(); ++member) {
      VKF_TRY(one, member_of(values, VKF_PLANT(member_joined_twice, member, 0)));
      each.push_back(one);
    }
    return join_in_order(std::move(each), join);
  }

  Result<NodeId> member_of(NodeId values, int member) {
    Shape shape = type_of(values).shape;
    shape.front() = Dim(1);
    ir::SlicePayload slice{std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.size(), 1)};
    slice.starts.front() = member;
    VKF_TRY(row, rewriter_.graph().add_structured(ops::row("slice"), {values}, std::move(slice), shape));
    shape.erase(shape.begin());
    return rewriter_.reshape(row, std::move(shape));
  }

  Result<NodeId> reduce_scatter(NodeId x, int axis, std::string_view join) {
    VKF_TRY(parts, parts_from_all(x, axis));
    return join_values(parts, join);
  }

  Result<NodeId> all_reduce(NodeId x, std::string_view join) {
    const Shape shape = type_of(x).shape;
    const std::optional<std::int64_t> count = element_count(shape);
    const auto is_divided = [&](const Dim& dim) { return !dim.is_symbol() && dim.size() % ranks() == 0; };
    const auto divided = std::ranges::find_if(shape, is_divided);
    const bool is_whole_small = count && is_small(*count * size_of(type_of(x).dtype), ranks());
    const bool goes_whole = ranks() == 2 || is_whole_small || (!count && divided == shape.end());
    if (goes_whole) {
      VKF_TRY(all, from_all(x));
      return join_values(all, join);
    }
    if (count) return all_reduce_flat(x, *count, join);
    const int axis = static_cast<int>(divided - shape.begin());
    VKF_TRY(part, reduce_scatter(x, axis, join));
    return all_gather(part, axis);
  }

  /// Elements in equal parts, whatever the axes are.
  Result<NodeId> all_reduce_flat(NodeId x, std::int64_t count, std::string_view join) {
    const Shape shape = type_of(x).shape;
    const std::int64_t whole = (count + ranks() - 1) / ranks() * ranks();
    VKF_TRY(flat, rewriter_.reshape(x, {Dim(count)}));
    if (whole != count) {
      VKF_TRY(padded, pad(flat, whole - count));
      flat = padded;
    }
    VKF_TRY(part, reduce_scatter(flat, 0, join));
    VKF_TRY(sums, all_gather(part, 0));
    if (whole != count) {
      VKF_TRY(cut,
              rewriter_.graph().add_structured(ops::row("slice"), {sums}, ir::SlicePayload{{0}, {1}}, {Dim(count)}));
      sums = cut;
    }
    return rewriter_.reshape(sums, shape);
  }

  Result<NodeId> pad(NodeId x, std::int64_t after) {
    ir::Graph& graph = rewriter_.graph();
    const NodeId zero = graph.add_scalar(type_of(x).dtype, 0);
    VKF_TRY(zeros, graph.add_structured(ops::row("broadcast"), {zero}, ir::NoPayload{}, {Dim(after)}));
    return graph.add_structured(ops::row("concat"), {x, zeros}, ir::AxisPayload{0});
  }

  const ir::Graph& from_;
  const std::vector<int>& before_;  ///< slots of its values, or none
  passes::Rewriter rewriter_;
  std::vector<int> slots_;
  std::map<NodeId, NodeId> origins_;
  NodeId origin_ = 0;    ///< the collective that is lowered
  ir::RankGroup group_;  ///< its group
};

}  // namespace

Result<Lowered> lower_collectives(const ir::Graph& graph) {
  const std::vector<int> none;
  return Lowering(graph, none).run();
}

Result<Lowered> lower_collectives(const Sharded& sharded) {
  VKF_TRY(lowered, Lowering(sharded.graph, sharded.slots).run());
  for (const auto& [made, origin] : lowered.origins) {
    const auto crossing = sharded.crossings.find(origin);
    if (crossing == sharded.crossings.end()) continue;
    const auto [from, to] = crossing->second;
    lowered.roles[made] = {from == sharded.stage, to == sharded.stage || to < 0};
  }
  return lowered;
}

std::int64_t bytes_sent(const ir::Node& node, std::int64_t operand_bytes) {
  const std::int64_t ranks = ir::group_of(node)->ranks;
  if (std::holds_alternative<ir::AllReducePayload>(node.payload)) {
    return is_small(operand_bytes, static_cast<int>(ranks)) ? operand_bytes * (ranks - 1)
                                                            : 2 * (operand_bytes - operand_bytes / ranks);
  }
  if (std::holds_alternative<ir::GatherRanksPayload>(node.payload)) {
    const bool joins = node.op->reduction.kind != ops::Reduction::Kind::none;
    return joins ? operand_bytes / ranks * (ranks - 1) : operand_bytes * (ranks - 1);
  }
  if (std::holds_alternative<ir::AllToAllPayload>(node.payload)) return operand_bytes / ranks * (ranks - 1);
  if (std::holds_alternative<ir::BroadcastFromPayload>(node.payload)) return operand_bytes * (ranks - 1);
  return ranks > 1 ? operand_bytes : 0;
}

}  // namespace vkfuse::parallel

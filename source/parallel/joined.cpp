#include "parallel/joined.hpp"

#include <vector>

#include "base/error.hpp"
#include "ir/structured.hpp"
#include "parallel/exchange.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;

class Joiner {
 public:
  explicit Joiner(std::span<const ir::Graph> graphs) : graphs_(graphs), next_(graphs.size(), 0) {
    for (const ir::Graph& graph : graphs) map_.emplace_back(graph.size());
  }

  Result<ir::Graph> run() {
    joined_.name = graphs_[0].name + " of all ranks";
    for (;;) {
      for (std::size_t rank = 0; rank < graphs_.size(); ++rank) VKF_CHECK_OK(copy_until_collective(rank));
      if (next_[0] == graphs_[0].size()) break;
      VKF_CHECK_OK(collective());
    }
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) {
      if (next_[rank] != graphs_[rank].size()) return more_than_first(rank);
      for (const ir::Output& output : graphs_[rank].outputs())
        VKF_CHECK_OK(joined_.add_output(name_on(output.name, rank), map_[rank][output.value]));
    }
    return std::move(joined_);
  }

 private:
  [[nodiscard]] const ir::Node& node(std::size_t rank) const {
    return graphs_[rank].node(static_cast<NodeId>(next_[rank]));
  }

  Error more_than_first(std::size_t rank) const {
    return invalid("Rank {} has a collective '{}' %{} that rank 0 does not have.", rank, node(rank).op->name,
                   next_[rank]);
  }

  Result<void> copy_until_collective(std::size_t rank) {
    for (; next_[rank] < graphs_[rank].size() && node(rank).op->cls != ops::OpClass::collective; ++next_[rank]) {
      const ir::Node& one = node(rank);
      NodeId made = 0;
      if (const auto* input = std::get_if<ir::InputPayload>(&one.payload)) {
        VKF_TRY(added, joined_.add_input(name_on(input->name, rank), one.type));
        made = added;
      } else {
        std::vector<NodeId> operands;
        for (const NodeId operand : one.operands) operands.push_back(map_[rank][operand]);
        VKF_TRY(added, ir::append_copy(joined_, one, std::move(operands)));
        made = added;
      }
      map_[rank][next_[rank]] = made;
    }
    return {};
  }

  Result<void> collective() {
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) {
      if (next_[rank] == graphs_[rank].size())
        return invalid("Rank {} lacks the collective '{}' %{} of rank 0.", rank, node(0).op->name, next_[0]);
      const bool same =
          node(rank).op == node(0).op && node(rank).payload == node(0).payload && node(rank).type == node(0).type;
      if (!same) return more_than_first(rank);
    }
    std::vector<NodeId> results(graphs_.size());
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) {
      VKF_TRY(result, result_of(rank));
      results[rank] = result;
    }
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) map_[rank][next_[rank]++] = results[rank];
    return {};
  }

  /// The operand of a rank.
  [[nodiscard]] NodeId operand(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return map_[r][node(r).operands.front()];
  }

  Result<NodeId> result_of(std::size_t rank) {
    const ir::Node& one = node(rank);
    VKF_TRY(members, members_of(*ir::group_of(one), static_cast<int>(rank), static_cast<int>(graphs_.size())));
    if (const auto* from = std::get_if<ir::BroadcastFromPayload>(&one.payload))
      return operand(members.ranks[static_cast<std::size_t>(from->root)]);
    if (const auto* sends = std::get_if<ir::SendReceivePayload>(&one.payload)) {
      const int from = sends->from[static_cast<std::size_t>(members.self)];
      return from >= 0 ? Result<NodeId>(operand(members.ranks[static_cast<std::size_t>(from)])) : zeros(one.type);
    }
    std::vector<NodeId> values;
    for (const int member : members.ranks) values.push_back(operand(member));
    if (const auto* all = std::get_if<ir::AllToAllPayload>(&one.payload)) {
      for (NodeId& value : values) {
        VKF_TRY(part, part_of(value, all->split, members));
        value = part;
      }
      return concat(values, all->concat);
    }
    const auto* gather = std::get_if<ir::GatherRanksPayload>(&one.payload);
    if (one.op->reduction.kind == ops::Reduction::Kind::none) return concat(values, gather->axis);
    VKF_TRY(sum, joined(values, one.op->reduction.join));
    return gather == nullptr ? Result<NodeId>(sum) : part_of(sum, gather->axis, members);
  }

  Result<NodeId> zeros(const TensorType& type) {
    return joined_.add_structured(ops::row("broadcast"), {joined_.add_scalar(type.dtype, 0)}, ir::NoPayload{},
                                  type.shape);
  }

  Result<NodeId> concat(const std::vector<NodeId>& values, int axis) {
    return joined_.add_structured(ops::row("concat"), values, ir::AxisPayload{axis});
  }

  /// This member's part along an axis.
  Result<NodeId> part_of(NodeId value, int axis, const Members& members) {
    Shape shape = joined_.node(value).type.shape;
    if (members.count() == 1) return value;
    Dim& dim = shape[static_cast<std::size_t>(axis)];
    dim = Dim(dim.size() / members.count());
    ir::SlicePayload slice{std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.size(), 1)};
    slice.starts[static_cast<std::size_t>(axis)] = dim.size() * members.self;
    return joined_.add_structured(ops::row("slice"), {value}, std::move(slice), std::move(shape));
  }

  /// A reduction along an axis that has the values side by side.
  Result<NodeId> joined(std::vector<NodeId> values, std::string_view join) {
    for (NodeId& value : values) {
      Shape shape = joined_.node(value).type.shape;
      shape.insert(shape.begin(), Dim(1));
      VKF_TRY(row, joined_.add_structured(ops::row("reshape"), {value}, ir::NoPayload{}, std::move(shape)));
      value = row;
    }
    VKF_TRY(all, concat(values, 0));
    const std::string_view op = join == "add" ? "reduce_sum" : join == "max" ? "reduce_max" : "reduce_min";
    return joined_.add_structured(ops::row(op), {all}, ir::AxesPayload{{0}});
  }

  std::span<const ir::Graph> graphs_;
  std::vector<std::size_t> next_;         ///< by rank: the node that is next
  std::vector<std::vector<NodeId>> map_;  ///< by rank: where its nodes went
  ir::Graph joined_;
};

}  // namespace

std::string name_on(std::string_view name, std::size_t rank) { return fmt::format("{}@{}", name, rank); }

Result<ir::Graph> join_ranks(std::span<const ir::Graph> graphs) {
  if (graphs.empty()) return invalid("A job has {} ranks; it has one or more.", graphs.size());
  return Joiner(graphs).run();
}

}  // namespace vkfuse::parallel

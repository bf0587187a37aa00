#include "parallel/sharding.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "parallel/layouts.hpp"
#include "parallel/rules.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;

/// A value of the whole graph, as this rank has it.
struct Local {
  NodeId id = 0;
  Layout layout;
  std::vector<int> pending;  ///< axes of the mesh that are still to be summed over
};

class Sharder {
 public:
  Sharder(const ir::Graph& graph, const std::vector<int>& mesh, int rank) : graph_(graph), mesh_(mesh), rank_(rank) {
    sharded_.graph.name = graph.name;
  }

  Result<Sharded> run() {
    VKF_CHECK_OK(check_annotations());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      auto made = place(id);
      if (!made) return std::move(made).error().within(fmt::format("dividing {} over the mesh", name_of_value(id)));
      locals_.push_back(*std::move(made));
    }
    for (const ir::Output& output : graph_.outputs()) {
      const bool stays = graph_.node(output.value).op->cls == ops::OpClass::annotation;
      const std::size_t axes = graph_.node(output.value).type.shape.size();
      const Layout layout = stays ? locals_[output.value].layout : whole_layout(axes);
      VKF_TRY(value, converted(output.value, layout, fmt::format("output '{}' is whole", output.name)));
      VKF_CHECK_OK(sharded_.graph.add_output(output.name, value));
      sharded_.outputs[output.name] = layout;
    }
    return std::move(sharded_);
  }

 private:
  [[nodiscard]] const Shape& shape_of(NodeId id) const { return graph_.node(id).type.shape; }
  [[nodiscard]] double bytes_of(NodeId id) const {
    double bytes = size_of(graph_.node(id).type.dtype);
    for (const Dim& dim : shape_of(id)) bytes *= dim.is_symbol() ? 1024 : static_cast<double>(dim.size());
    return bytes;
  }
  [[nodiscard]] std::string name_of_value(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const auto* input = std::get_if<ir::InputPayload>(&node.payload);
    return input != nullptr ? fmt::format("input '{}'", input->name) : fmt::format("'{}' %{}", node.op->name, id);
  }
  [[nodiscard]] int ranks_along(int mesh_axis) const { return mesh_[static_cast<std::size_t>(mesh_axis)]; }

  Result<void> check_annotations() const {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const ir::Node& node = graph_.node(id);
      if (node.op->cls == ops::OpClass::collective) {
        return unsupported(
            "'{}' %{} is a collective of the program's own, and a program that is divided over a mesh has none.",
            node.op->name, id);
      }
      if (node.op->cls != ops::OpClass::annotation) continue;
      const Layout& asked = std::get<ir::ShardPayload>(node.payload).mesh_axes;
      for (std::size_t i = 0; i < asked.size(); ++i) VKF_CHECK_OK(check_axis(node, i, asked[i]));
    }
    return {};
  }

  Result<void> check_axis(const ir::Node& node, std::size_t axis, int mesh_axis) const {
    if (mesh_axis < 0) return {};
    if (mesh_axis >= static_cast<int>(mesh_.size()))
      return invalid("'shard' names axis {} of a mesh that has {}.", mesh_axis, mesh_.size());
    const Dim& dim = node.type.shape[axis];
    if (!dim.is_symbol() && dim.size() % ranks_along(mesh_axis) == 0) return {};
    return invalid("'shard' divides axis {} of {} over {} ranks, but {} is not a multiple of {}.", axis,
                   to_text(node.type), ranks_along(mesh_axis), dim.text(), ranks_along(mesh_axis));
  }

  /// What an annotation asks for; an axis of the mesh of one rank divides nothing.
  [[nodiscard]] Layout layout_of(const ir::Node& annotation) const {
    Layout layout = std::get<ir::ShardPayload>(annotation.payload).mesh_axes;
    for (int& axis : layout) {
      if (axis >= 0 && ranks_along(axis) == 1) axis = -1;
    }
    return layout;
  }

  Result<Local> place(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.op->cls == ops::OpClass::input) return place_input(id);
    if (node.op->cls == ops::OpClass::annotation) {
      const Layout layout = layout_of(node);
      VKF_TRY(value, converted(node.operands.front(), layout, fmt::format("{} asks for it", name_of_value(id))));
      return Local{value, layout, {}};
    }
    return place_op(id);
  }

  /// An input has the layout that its first annotation asks for.
  Result<Local> place_input(NodeId id) {
    const ir::Node& node = graph_.node(id);
    Layout layout = whole_layout(node.type.shape.size());
    for (NodeId user = id; user < graph_.size(); ++user) {
      const ir::Node& reader = graph_.node(user);
      if (reader.op->cls != ops::OpClass::annotation || reader.operands.front() != id) continue;
      layout = layout_of(reader);
      break;
    }
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    VKF_TRY(made, sharded_.graph.add_input(name, {node.type.dtype, local_shape(node.type.shape, layout, mesh_)}));
    sharded_.inputs[name] = layout;
    return Local{made, layout, {}};
  }

  Result<Local> place_op(NodeId id) {
    const ir::Node& node = graph_.node(id);
    std::vector<Operand> operands;
    for (const NodeId operand : node.operands)
      operands.push_back({graph_.node(operand).type, locals_[operand].layout, bytes_of(operand)});
    const Placement placement = cheapest_placement(node, operands, mesh_);
    std::vector<NodeId> values;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      VKF_TRY(value,
              converted(node.operands[k], placement.operands[k], fmt::format("{} reads it so", name_of_value(id))));
      values.push_back(value);
    }
    ir::Node local = node;
    local.type.shape = local_shape(node.type.shape, placement.result, mesh_);
    VKF_TRY(made, ir::append_copy(sharded_.graph, local, std::move(values)));
    check(sharded_.graph.node(made).type == local.type, "a rule of sharding gives the shape of the part");
    return finish_reduction(id, {made, placement.result, placement.pending});
  }

  /// Maxima of parts are joined at once; means are sums of the parts' means, each divided by the number of parts.
  Result<Local> finish_reduction(NodeId id, Local local) {
    const ops::OpRow& op = *graph_.node(id).op;
    if (local.pending.empty() || op.cls != ops::OpClass::reduce) return local;
    if (op.reduction.kind == ops::Reduction::Kind::mean) {
      double parts = 1;
      for (const int axis : local.pending) parts *= ranks_along(axis);
      const NodeId factor =
          sharded_.graph.add_scalar(graph_.node(id).type.dtype, VKF_PLANT(means_of_parts_added, 1 / parts, 1.0));
      VKF_TRY(scaled, sharded_.graph.add(ops::row("mul"), {local.id, factor}));
      local.id = scaled;
      return local;
    }
    if (op.reduction.join == "add") return local;
    for (const int axis : local.pending) {
      const std::string row = fmt::format("all_reduce_{}", op.reduction.join);
      VKF_TRY(joined, collective(ops::row(row), local.id, ir::AllReducePayload{group_along(mesh_, axis)},
                                 fmt::format("{} joins parts over axis {} of the mesh", name_of_value(id), axis)));
      local.id = joined;
    }
    local.pending.clear();
    return local;
  }

  Result<NodeId> collective(const ops::OpRow& op, NodeId operand, ir::Payload payload, std::string why) {
    VKF_TRY(made, sharded_.graph.add_structured(op, {operand}, std::move(payload)));
    sharded_.reasons.push_back({made, std::move(why)});
    return made;
  }

  /// The value in another layout, with sums done. Of each layout there is one.
  Result<NodeId> converted(NodeId id, const Layout& wanted, const std::string& why) {
    const auto known = converted_.find({id, wanted});
    if (known != converted_.end()) return known->second;
    Local local = locals_[id];
    VKF_CHECK_OK(finish_sums(id, local, wanted, why));
    for (const Reshard& step : steps_between(local.layout, wanted, mesh_.size())) {
      VKF_TRY(made, take_step(id, local.id, step, why));
      local.id = made;
    }
    converted_[{id, wanted}] = local.id;
    return local.id;
  }

  /// Each sum where its result is divided along an axis of the value is a reduce_scatter, of half the bytes.
  Result<void> finish_sums(NodeId id, Local& local, const Layout& wanted, const std::string& why) {
    const bool divided = !local.pending.empty();
    for (const int over : local.pending) {
      const int axis = axis_over(wanted, over);
      const bool scatters = axis >= 0 && local.layout[static_cast<std::size_t>(axis)] < 0;
      const std::string text =
          fmt::format("{} is a sum of parts over axis {} of the mesh, and {}", name_of_value(id), over, why);
      if (scatters) {
        VKF_TRY(made, collective(ops::row("reduce_scatter_sum"), local.id,
                                 ir::GatherRanksPayload{group_along(mesh_, over), axis}, text));
        local.id = made;
        local.layout[static_cast<std::size_t>(axis)] = over;
      } else {
        VKF_TRY(made,
                collective(ops::row("all_reduce_sum"), local.id, ir::AllReducePayload{group_along(mesh_, over)}, text));
        local.id = made;
      }
    }
    local.pending.clear();
    // What is summed is summed once, whatever it is read as later.
    if (divided) locals_[id] = local;
    return {};
  }

  Result<NodeId> take_step(NodeId id, NodeId value, const Reshard& step, const std::string& why) {
    const ir::RankGroup group = group_along(mesh_, step.mesh_axis);
    const std::string text =
        fmt::format("{} is divided over axis {} of the mesh, and {}", name_of_value(id), step.mesh_axis, why);
    switch (step.kind) {
      case Reshard::Kind::all_gather:
        return collective(ops::row("all_gather"), value, ir::GatherRanksPayload{group, step.from}, text);
      case Reshard::Kind::all_to_all:
        return collective(ops::row("all_to_all"), value, ir::AllToAllPayload{group, step.to, step.from}, text);
      case Reshard::Kind::slice: break;
    }
    Shape shape = sharded_.graph.node(value).type.shape;
    ir::SlicePayload slice{std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.size(), 1)};
    const auto axis = static_cast<std::size_t>(step.to);
    shape[axis] = Dim(shape[axis].size() / group.ranks);
    const int part = VKF_PLANT(part_of_the_first_rank, coordinate_of(mesh_, step.mesh_axis, rank_), 0);
    slice.starts[axis] = shape[axis].size() * part;
    return sharded_.graph.add_structured(ops::row("slice"), {value}, std::move(slice), std::move(shape));
  }

  const ir::Graph& graph_;
  const std::vector<int>& mesh_;
  int rank_;
  Sharded sharded_;
  std::vector<Local> locals_;
  std::map<std::pair<NodeId, Layout>, NodeId> converted_;
};

}  // namespace

int coordinate_of(const std::vector<int>& mesh, int axis, int rank) {
  return rank / group_along(mesh, axis).stride % mesh[static_cast<std::size_t>(axis)];
}

ir::RankGroup group_along(const std::vector<int>& mesh, int axis) {
  ir::RankGroup group{mesh[static_cast<std::size_t>(axis)], 1};
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < mesh.size(); ++i) group.stride *= mesh[i];
  return group;
}

Result<Sharded> shard_graph(const ir::Graph& graph, const std::vector<int>& mesh, int rank) {
  for (const int size : mesh) {
    if (size < 1)
      return invalid("A mesh has one rank or more along each axis, but [{}] is given.", fmt::join(mesh, ", "));
  }
  VKF_CHECK_OK(ir::verify(graph));
  return Sharder(graph, mesh, rank).run();
}

}  // namespace vkfuse::parallel

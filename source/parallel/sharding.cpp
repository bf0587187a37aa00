#include "parallel/sharding.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "parallel/layouts.hpp"
#include "parallel/rules.hpp"
#include "parallel/stages.hpp"

namespace vkfuse::parallel {

namespace {

using ir::NodeId;

/// A value of the whole graph, as the ranks of a stage have it.
struct Local {
  std::vector<NodeId> ids;  ///< one, or one for each micro-batch
  Layout layout;
  std::vector<int> pending;  ///< axes of the mesh that are still to be summed over
};

/// The mesh, and behind its last axis that of micro-batches, whose parts are all on one rank.
std::vector<int> with_micro_batches(std::vector<int> mesh, int micro_batches) {
  if (micro_batches > 1) mesh.push_back(micro_batches);
  return mesh;
}

class Sharder {
 public:
  Sharder(const ir::Graph& graph, const Division& division)
      : graph_(graph),
        mesh_(division.mesh),
        parts_(with_micro_batches(division.mesh, division.micro_batches)),
        rank_(division.rank) {
    sharded_.graph.name = graph.name;
  }

  Result<Sharded> run() {
    VKF_CHECK_OK(check_annotations());
    VKF_TRY(stages, stages_of(graph_, mesh_));
    stages_ = std::move(stages);
    sharded_.stage_axis = stages_.mesh_axis;
    sharded_.stages = stages_.count;
    if (stages_.mesh_axis >= 0) sharded_.stage = coordinate_of(mesh_, stages_.mesh_axis, rank_);
    locals_.resize(graph_.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      for (const int stage : stages_.places[id]) {
        auto made = place(id, stage);
        if (!made) return std::move(made).error().within(fmt::format("dividing {} over the mesh", name_of_value(id)));
        locals_[id].insert_or_assign(stage, *std::move(made));
      }
    }
    for (const ir::Output& output : graph_.outputs()) VKF_CHECK_OK(place_output(output));
    find_slots();
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
  [[nodiscard]] int ranks_along(int axis) const { return parts_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] bool has_micro_batches() const { return parts_.size() > mesh_.size(); }
  /// Whether an axis is that of micro-batches.
  [[nodiscard]] bool is_in_turn(int axis) const { return axis == static_cast<int>(mesh_.size()); }

  Result<void> check_annotations() const {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const ir::Node& node = graph_.node(id);
      if (node.op->cls == ops::OpClass::collective) {
        return unsupported(
            "'{}' %{} is a collective of the program's own, and a program that is divided over a mesh has none.",
            node.op->name, id);
      }
      if (const auto* batch = std::get_if<ir::MicroBatchPayload>(&node.payload)) {
        VKF_CHECK_OK(check_micro_batch(node, static_cast<std::size_t>(batch->axis)));
      } else if (const auto* asked = std::get_if<ir::ShardPayload>(&node.payload)) {
        for (std::size_t i = 0; i < asked->mesh_axes.size(); ++i)
          VKF_CHECK_OK(check_axis(node, i, asked->mesh_axes[i]));
      }
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

  Result<void> check_micro_batch(const ir::Node& node, std::size_t axis) const {
    if (!has_micro_batches()) return {};
    const Dim& dim = node.type.shape[axis];
    if (!dim.is_symbol() && dim.size() % parts_.back() == 0) return {};
    return invalid("'micro_batch' divides axis {} of {} into {} micro-batches, but {} is not a multiple of {}.", axis,
                   to_text(node.type), parts_.back(), dim.text(), parts_.back());
  }

  /// What an annotation of a value that has this layout asks for. An axis of the mesh of one rank divides nothing, and
  /// micro-batches stay, whatever ranks do.
  [[nodiscard]] Layout layout_of(const ir::Node& annotation, const Layout& before) const {
    Layout layout = before;
    if (const auto* batch = std::get_if<ir::MicroBatchPayload>(&annotation.payload)) {
      if (!has_micro_batches()) return layout;
      const auto in_turn = static_cast<int>(mesh_.size());
      std::ranges::replace(layout, in_turn, -1);
      layout[static_cast<std::size_t>(batch->axis)] = in_turn;
    } else if (const auto* asked = std::get_if<ir::ShardPayload>(&annotation.payload)) {
      for (std::size_t i = 0; i < layout.size(); ++i) {
        const int over = asked->mesh_axes[i];
        const bool divides = over >= 0 && ranks_along(over) > 1;
        layout[i] = divides ? over : is_in_turn(before[i]) ? before[i] : -1;
      }
    }
    return layout;
  }

  Result<Local> place(NodeId id, int stage) {
    const ir::Node& node = graph_.node(id);
    if (node.op->cls == ops::OpClass::input) return place_input(id);
    if (node.op->cls == ops::OpClass::annotation) {
      const NodeId operand = node.operands.front();
      VKF_CHECK_OK(bring(operand, stage, id));
      const Local& before = locals_[operand].at(stage);
      if (std::holds_alternative<ir::StagePayload>(node.payload)) return before;
      Layout layout = layout_of(node, before.layout);
      VKF_TRY(values, converted(operand, layout, stage, fmt::format("{} asks for it", name_of_value(id))));
      return Local{std::move(values), std::move(layout), {}};
    }
    return place_op(id, stage);
  }

  /// The first division that is asked of a value, whatever else is said of it before.
  [[nodiscard]] const ir::Node* division_of(NodeId id) const {
    std::set<NodeId> same = {id};
    for (NodeId user = id + 1; user < graph_.size(); ++user) {
      const ir::Node& reader = graph_.node(user);
      if (reader.op->cls != ops::OpClass::annotation || !same.contains(reader.operands.front())) continue;
      if (std::holds_alternative<ir::ShardPayload>(reader.payload)) return &reader;
      same.insert(user);
    }
    return nullptr;
  }

  /// An input has the layout that its first annotation asks for.
  Result<Local> place_input(NodeId id) {
    if (!locals_[id].empty()) return locals_[id].begin()->second;  // the same on every stage
    const ir::Node& node = graph_.node(id);
    Layout layout = whole_layout(node.type.shape.size());
    const ir::Node* division = division_of(id);
    if (division != nullptr) layout = layout_of(*division, layout);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    VKF_TRY(made, sharded_.graph.add_input(name, {node.type.dtype, local_shape(node.type.shape, layout, parts_)}));
    sharded_.inputs[name] = layout;
    return Local{{made}, layout, {}};
  }

  /// An output is whole on every rank, but for what its own annotations say.
  Result<void> place_output(const ir::Output& output) {
    bool is_divided = false, is_of_stage = false;
    for (NodeId id = output.value; graph_.node(id).op->cls == ops::OpClass::annotation;) {
      is_divided = is_divided || std::holds_alternative<ir::ShardPayload>(graph_.node(id).payload);
      is_of_stage = is_of_stage || std::holds_alternative<ir::StagePayload>(graph_.node(id).payload);
      id = graph_.node(id).operands.front();
    }
    const int home = stages_.homes[output.value];
    const bool crosses = home >= 0 && stages_.count > 1 && !is_of_stage;
    // Every rank knows the collectives of every stage.
    for (const int stage : stages_.places[output.value]) {
      Layout layout = whole_layout(shape_of(output.value).size());
      if (is_divided) layout = locals_[output.value].at(stage).layout;
      if (has_micro_batches()) std::ranges::replace(layout, static_cast<int>(mesh_.size()), -1);
      VKF_TRY(values, converted(output.value, layout, stage, fmt::format("output '{}' is whole", output.name)));
      NodeId value = values.front();
      if (crosses) {
        VKF_TRY(sent, to_every_stage(output, home, value));
        value = sent;
      }
      if (stage != sharded_.stage && !crosses) continue;
      VKF_CHECK_OK(sharded_.graph.add_output(output.name, value));
      sharded_.outputs[output.name] = std::move(layout);
    }
    return {};
  }

  Result<NodeId> to_every_stage(const ir::Output& output, int home, NodeId value) {
    const int root = VKF_PLANT(value_of_another_stage, home, (home + 1) % stages_.count);
    return collective({&ops::row("broadcast_from"),
                       {root, -1},
                       fmt::format("{} is on stage {}, and output '{}' is on every rank", name_of_value(output.value),
                                   home, output.name)},
                      value, ir::BroadcastFromPayload{group_along(mesh_, stages_.mesh_axis), root});
  }

  Result<Local> place_op(NodeId id, int stage) {
    const ir::Node& node = graph_.node(id);
    std::vector<Operand> operands;
    for (const NodeId operand : node.operands) {
      VKF_CHECK_OK(bring(operand, stage, id));
      operands.push_back({graph_.node(operand).type, locals_[operand].at(stage).layout, bytes_of(operand)});
    }
    const Placement placement = cheapest_placement(node, operands, parts_);
    std::vector<std::vector<NodeId>> values;
    std::size_t copies = 1;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      VKF_TRY(value, converted(node.operands[k], placement.operands[k], stage,
                               fmt::format("{} reads it so", name_of_value(id))));
      copies = std::max(copies, value.size());
      values.push_back(std::move(value));
    }
    ir::Node local = node;
    local.type.shape = local_shape(node.type.shape, placement.result, parts_);
    Local made{{}, placement.result, placement.pending};
    for (std::size_t i = 0; i < copies; ++i) {
      std::vector<NodeId> of_one;
      for (const std::vector<NodeId>& value : values) of_one.push_back(value.size() == 1 ? value.front() : value[i]);
      VKF_TRY(one, ir::append_copy(sharded_.graph, local, std::move(of_one)));
      check(sharded_.graph.node(one).type == local.type, "a rule of sharding gives the shape of the part");
      made.ids.push_back(one);
    }
    return finish_reduction(id, stage, std::move(made));
  }

  /// Maxima of parts are joined at once; means are sums of the parts' means, each divided by the number of parts.
  Result<Local> finish_reduction(NodeId id, int stage, Local local) {
    const ops::OpRow& op = *graph_.node(id).op;
    if (local.pending.empty() || op.cls != ops::OpClass::reduce) return local;
    if (op.reduction.kind == ops::Reduction::Kind::mean) {
      double parts = 1;
      for (const int axis : local.pending) parts *= ranks_along(axis);
      const NodeId factor =
          sharded_.graph.add_scalar(graph_.node(id).type.dtype, VKF_PLANT(means_of_parts_added, 1 / parts, 1.0));
      return on_each(std::move(local), [&](NodeId one) { return sharded_.graph.add(ops::row("mul"), {one, factor}); });
    }
    if (op.reduction.join == "add") return local;
    VKF_CHECK_OK(join_micro_batches(local, op.reduction.join));
    for (const int axis : local.pending) {
      const Collective joining{&ops::row(fmt::format("all_reduce_{}", op.reduction.join)),
                               {stage, stage},
                               fmt::format("{} joins parts over axis {} of the mesh", name_of_value(id), axis)};
      VKF_TRY(joined, on_each(std::move(local), [&](NodeId one) {
                return collective(joining, one, ir::AllReducePayload{group_along(mesh_, axis)});
              }));
      local = std::move(joined);
    }
    local.pending.clear();
    return local;
  }

  template <typename Make>
  Result<Local> on_each(Local local, Make&& make) {
    for (NodeId& id : local.ids) {
      VKF_TRY(made, make(id));
      id = made;
    }
    return local;
  }

  /// A collective between the ranks of stages, and why it is there.
  struct Collective {
    const ops::OpRow* op;
    Crossing crossing;
    std::string why;
  };

  Result<NodeId> collective(const Collective& one, NodeId operand, ir::Payload payload) {
    VKF_TRY(made, sharded_.graph.add_structured(*one.op, {operand}, std::move(payload)));
    sharded_.reasons.push_back({made, one.why});
    if (stages_.count > 1) sharded_.crossings[made] = one.crossing;
    return made;
  }

  /// The value on a stage that reads it: once, whatever reads it there.
  Result<void> bring(NodeId id, int stage, NodeId reader) {
    if (locals_[id].contains(stage)) return {};
    const int home = stages_.homes[id];
    const std::string why = fmt::format("{} reads it on stage {}", name_of_value(reader), stage);
    VKF_CHECK_OK(finish_sums(id, home, locals_[id].at(home).layout, why));
    std::vector<int> from(static_cast<std::size_t>(stages_.count), -1);
    from[static_cast<std::size_t>(stage)] = home;
    const Collective sends{&ops::row("send_receive"),
                           {home, stage},
                           fmt::format("{} is on stage {}, and {}", name_of_value(id), home, why)};
    VKF_TRY(sent, on_each(locals_[id].at(home), [&](NodeId one) {
              return collective(sends, one, ir::SendReceivePayload{group_along(mesh_, stages_.mesh_axis), from});
            }));
    locals_[id].emplace(stage, std::move(sent));
    return {};
  }

  /// The value in another layout on a stage, with sums done. Of each layout there is one.
  Result<std::vector<NodeId>> converted(NodeId id, const Layout& wanted, int stage, const std::string& why) {
    const auto key = std::tuple(id, stage, wanted);
    const auto known = converted_.find(key);
    if (known != converted_.end()) return known->second;
    VKF_CHECK_OK(finish_sums(id, stage, wanted, why));
    Local local = locals_[id].at(stage);
    for (const Reshard& step : steps_between(local.layout, wanted, parts_.size())) {
      const Collective moving{
          nullptr,
          {stage, stage},
          fmt::format("{} is divided over axis {} of the mesh, and {}", name_of_value(id), step.mesh_axis, why)};
      VKF_CHECK_OK(is_in_turn(step.mesh_axis) ? regroup(local.ids, step) : take_step(local.ids, step, moving));
    }
    converted_[key] = local.ids;
    return local.ids;
  }

  /// Each sum where its result is divided along an axis of the value is a reduce_scatter, of half the bytes. What is
  /// summed is summed once, whatever it is read as later.
  Result<void> finish_sums(NodeId id, int stage, const Layout& wanted, const std::string& why) {
    Local local = locals_[id].at(stage);
    if (local.pending.empty()) return {};
    VKF_CHECK_OK(join_micro_batches(local, "add"));
    for (const int over : local.pending) {
      const int axis = axis_over(wanted, over);
      const bool scatters = axis >= 0 && local.layout[static_cast<std::size_t>(axis)] < 0;
      const Collective sum{
          &ops::row(scatters ? "reduce_scatter_sum" : "all_reduce_sum"),
          {stage, stage},
          fmt::format("{} is a sum of parts over axis {} of the mesh, and {}", name_of_value(id), over, why)};
      VKF_TRY(summed, on_each(std::move(local), [&](NodeId one) {
                const ir::RankGroup group = group_along(mesh_, over);
                return scatters ? collective(sum, one, ir::GatherRanksPayload{group, axis})
                                : collective(sum, one, ir::AllReducePayload{group});
              }));
      local = std::move(summed);
      if (scatters) local.layout[static_cast<std::size_t>(axis)] = over;
    }
    local.pending.clear();
    locals_[id].at(stage) = std::move(local);
    return {};
  }

  Result<void> take_step(std::vector<NodeId>& values, const Reshard& step, Collective moving) {
    const ir::RankGroup group = group_along(mesh_, step.mesh_axis);
    for (NodeId& value : values) {
      Result<NodeId> made = value;
      switch (step.kind) {
        case Reshard::Kind::all_gather:
          moving.op = &ops::row("all_gather");
          made = collective(moving, value, ir::GatherRanksPayload{group, step.from});
          break;
        case Reshard::Kind::all_to_all:
          moving.op = &ops::row("all_to_all");
          made = collective(moving, value, ir::AllToAllPayload{group, step.to, step.from});
          break;
        case Reshard::Kind::slice: {
          const int part = coordinate_of(mesh_, step.mesh_axis, rank_);
          made = part_of(value, step.to, group.ranks, VKF_PLANT(part_of_the_first_rank, part, 0));
          break;
        }
      }
      VKF_TRY(id, std::move(made));
      value = id;
    }
    return {};
  }

  Result<NodeId> part_of(NodeId value, int along, int parts, int part) {
    Shape shape = sharded_.graph.node(value).type.shape;
    ir::SlicePayload slice{std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.size(), 1)};
    const auto axis = static_cast<std::size_t>(along);
    shape[axis] = Dim(shape[axis].size() / parts);
    slice.starts[axis] = shape[axis].size() * part;
    return sharded_.graph.add_structured(ops::row("slice"), {value}, std::move(slice), std::move(shape));
  }

  // ---- micro-batches: what ranks do by messages, of parts that are on one rank ----

  /// A step of their axis: parts are put together, and others are made.
  Result<void> regroup(std::vector<NodeId>& values, const Reshard& step) {
    if (step.from >= 0) {
      VKF_TRY(all, sharded_.graph.add_structured(ops::row("concat"), values, ir::AxisPayload{step.from}));
      values = {all};
    }
    if (step.kind == Reshard::Kind::all_gather) return {};
    const NodeId all = values.front();
    values.clear();
    for (int i = 0; i < parts_.back(); ++i) {
      VKF_TRY(part, part_of(all, step.to, parts_.back(), VKF_PLANT(first_micro_batch_again, i, 0)));
      values.push_back(part);
      delays_[part] = i;
    }
    return {};
  }

  /// Sums or extremes of micro-batches, if these are to be joined; f16 and bf16 are added up in f32.
  Result<void> join_micro_batches(Local& local, std::string_view join) {
    if (std::erase(local.pending, static_cast<int>(mesh_.size())) == 0) return {};
    ir::Graph& graph = sharded_.graph;
    const DType dtype = graph.node(local.ids.front()).type.dtype;
    const bool widens = join == "add" && (dtype == DType::f16 || dtype == DType::bf16);
    const auto cast = [&](NodeId value, DType to) {
      return widens ? graph.add(ops::row("cast"), {value}, to) : Result<NodeId>(value);
    };
    VKF_TRY(joined, cast(local.ids.front(), DType::f32));
    for (std::size_t i = 1; i < local.ids.size(); ++i) {
      VKF_TRY(next, cast(local.ids[i], DType::f32));
      VKF_TRY(both, graph.add(ops::row(join), {joined, next}));
      joined = both;
    }
    VKF_TRY(result, cast(joined, dtype));
    local.ids = {result};
    return {};
  }

  void find_slots() {
    std::vector<int>& slots = sharded_.slots;
    for (NodeId id = 0; id < sharded_.graph.size(); ++id) {
      const auto delay = delays_.find(id);
      int slot = 0;
      for (const NodeId operand : sharded_.graph.node(id).operands) {
        const auto crossing = sharded_.crossings.find(operand);
        const bool has_come = crossing != sharded_.crossings.end() && crossing->second.from != crossing->second.to;
        slot = std::max(slot, slots[operand] + (has_come ? 1 : 0));
      }
      slots.push_back(slot + (delay == delays_.end() ? 0 : delay->second));
    }
  }

  const ir::Graph& graph_;
  const std::vector<int>& mesh_;
  std::vector<int> parts_;  ///< the mesh, with the axis of micro-batches
  int rank_;
  Stages stages_;
  Sharded sharded_;
  std::vector<std::map<int, Local>> locals_;  ///< by value and stage
  std::map<std::tuple<NodeId, int, Layout>, std::vector<NodeId>> converted_;
  std::map<NodeId, int> delays_;  ///< slots by which a micro-batch follows the first
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

Result<Sharded> shard_graph(const ir::Graph& graph, const Division& division) {
  for (const int size : division.mesh) {
    if (size < 1)
      return invalid("A mesh has one rank or more along each axis, but [{}] is given.", fmt::join(division.mesh, ", "));
  }
  VKF_CHECK_OK(ir::verify(graph));
  return Sharder(graph, division).run();
}

}  // namespace vkfuse::parallel

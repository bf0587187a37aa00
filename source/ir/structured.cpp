// Ops whose shapes are their own: the table of rules, and the rules of gathers, folds, sorts and scatter.
#include "ir/structured.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace vkfuse::ir {

namespace {

std::string axes_text(const TensorType& type) {
  return fmt::format("{} has {} ax{}s", to_text(type), type.shape.size(), type.shape.size() == 1 ? "i" : "e");
}

/// Positions along an axis are i32.
Result<void> check_countable(const Call& call, int axis) {
  const Dim& dim = call.operands[0].shape[static_cast<std::size_t>(axis)];
  if (dim.is_symbol() || dim.size() <= std::numeric_limits<std::int32_t>::max()) return {};
  return unsupported("'{}' gives positions as i32, and axis {} of {} has more elements than that.", call.op.name, axis,
                     to_text(call.operands[0]));
}

/// The nearest element of an axis without elements does not exist.
Result<void> check_nearest(const Call& call, int axis, const Shape& result) {
  if (call.operands[0].shape[static_cast<std::size_t>(axis)] != Dim(0)) return {};
  if (std::find(result.begin(), result.end(), Dim(0)) != result.end()) return {};
  return invalid("'{}' reads along axis {} of {}, which has no elements.", call.op.name, axis,
                 to_text(call.operands[0]));
}

Result<Shape> gather_shape(const Call& call) {
  const int axis = call.attributes<AxisPayload>().axis;
  const Shape& data = call.operands[0].shape;
  const Shape& positions = call.operands[1].shape;
  VKF_CHECK_OK(check_axis(call, axis, call.operands[0]));
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), positions.begin(), positions.end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  VKF_CHECK_OK(check_nearest(call, axis, shape));
  return shape;
}

Result<Shape> take_along_shape(const Call& call) {
  const int axis = call.attributes<AxisPayload>().axis;
  const TensorType& data = call.operands[0];
  const TensorType& positions = call.operands[1];
  VKF_CHECK_OK(check_axis(call, axis, data));
  if (positions.shape.size() != data.shape.size()) {
    return invalid("'take_along' takes positions {} of {}, which has another number of axes.", to_text(positions),
                   to_text(data));
  }
  Shape shape = data.shape;
  shape[static_cast<std::size_t>(axis)] = positions.shape[static_cast<std::size_t>(axis)];
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (positions.shape[i] == shape[i] || positions.shape[i] == Dim(1)) continue;
    return invalid("'take_along' along axis {} takes positions {} of {}: dimension {} is neither 1 nor {}.", axis,
                   to_text(positions), to_text(data), i, shape[i].text());
  }
  VKF_CHECK_OK(check_nearest(call, axis, shape));
  return shape;
}

/// A reduction that keeps one of its elements has no result for none.
Result<void> check_not_empty(const Call& call, int axis) {
  const bool keeps_one = call.op.reduction.kind == ops::Reduction::Kind::arg || std::isinf(call.op.reduction.identity);
  if (!keeps_one || call.operands[0].shape[static_cast<std::size_t>(axis)] != Dim(0)) return {};
  return invalid("'{}' along axis {} of {} has no elements to choose from.", call.op.name, axis,
                 to_text(call.operands[0]));
}

Result<Shape> reduce_shape(const Call& call) {
  const std::vector<int>& axes = call.attributes<AxesPayload>().axes;
  const TensorType& operand = call.operands[0];
  if (axes.empty()) return invalid("'{}' of {} names no axis.", call.op.name, to_text(operand));
  VKF_CHECK_OK(check_axes(call, axes, operand));
  if (!std::is_sorted(axes.begin(), axes.end())) {
    return invalid("'{}' takes its axes in ascending order, but they are [{}].", call.op.name, fmt::join(axes, ", "));
  }
  if (call.op.reduction.kind == ops::Reduction::Kind::arg) {
    if (axes.size() != 1) return invalid("'{}' runs along one axis, but {} were given.", call.op.name, axes.size());
    VKF_CHECK_OK(check_countable(call, axes[0]));
  }
  Shape shape;
  for (std::size_t i = 0; i < operand.shape.size(); ++i) {
    const auto axis = static_cast<int>(i);
    if (!std::binary_search(axes.begin(), axes.end(), axis)) {
      shape.push_back(operand.shape[i]);
      continue;
    }
    VKF_CHECK_OK(check_not_empty(call, axis));
  }
  return shape;
}

Result<Shape> scan_shape(const Call& call) {
  VKF_CHECK_OK(check_axis(call, call.attributes<ScanPayload>().axis, call.operands[0]));
  return call.operands[0].shape;
}

Result<Shape> argsort_shape(const Call& call) {
  const auto& sort = call.attributes<SortPayload>();
  const TensorType& operand = call.operands[0];
  VKF_CHECK_OK(check_axis(call, sort.axis, operand));
  VKF_CHECK_OK(check_countable(call, sort.axis));
  Shape shape = operand.shape;
  Dim& dim = shape[static_cast<std::size_t>(sort.axis)];
  if (dim.is_symbol() || dim == Dim(0)) {
    if (sort.count == 0) return shape;
    return invalid("'argsort' along axis {} of {} sorts it whole, with a count of 0, but the count is {}.", sort.axis,
                   to_text(operand), sort.count);
  }
  if (sort.count < 1 || sort.count > dim.size()) {
    return invalid("'argsort' gives {} positions of axis {} of {}; it can give 1 to {}.", sort.count, sort.axis,
                   to_text(operand), dim.size());
  }
  dim = Dim(sort.count);
  return shape;
}

Result<Shape> scatter_shape(const Call& call) {
  const TensorType& base = call.operands[0];
  const TensorType& positions = call.operands[1];
  const TensorType& updates = call.operands[2];
  const ScatterMode mode = call.attributes<ScatterPayload>().mode;
  if (mode != ScatterMode::set && (ops::row(name_of(mode)).types & ops::bit(base.dtype)) == 0) {
    return unsupported("'scatter' with the mode '{}' is not defined on {}.", name_of(mode), name_of(base.dtype));
  }
  if (base.shape.empty()) return invalid("'scatter' writes rows, but its base {} is a scalar.", to_text(base));
  if (positions.shape.size() != 1) {
    return invalid("'scatter' takes one position for each row of updates, along one axis, but they are {}.",
                   to_text(positions));
  }
  Shape expected = base.shape;
  expected[0] = positions.shape[0];
  if (updates.shape != expected) {
    return invalid("'scatter' into {} at positions {} takes updates of shape {}, but they are {}.", to_text(base),
                   to_text(positions), to_text(expected), to_text(updates));
  }
  return base.shape;
}

Result<Shape> update_rows_shape(const Call& call) {
  const TensorType &base = call.operands[0], &starts = call.operands[1], &rows = call.operands[2];
  const auto& update = call.attributes<UpdatePayload>();
  VKF_CHECK_OK(check_axis(call, update.axis, base));
  const auto axis = static_cast<std::size_t>(update.axis);
  Shape expected = base.shape;
  if (rows.shape.size() == base.shape.size()) expected[axis] = rows.shape[axis];
  if (rows.shape != expected) {
    return invalid("'update_rows' along axis {} of {} takes rows of shape {}, but they are {}.", axis, to_text(base),
                   to_text(expected), to_text(rows));
  }
  const bool each = update.has_position_of_each_row(starts.shape);
  const bool are_first =
      starts.shape.size() <= axis + 1 && std::equal(starts.shape.begin(), starts.shape.end(), rows.shape.begin());
  if (!are_first) {
    return invalid(
        "'update_rows' along axis {} of {} takes one start, one for each position of the axes before it, or a position "
        "for each row of {}, but they are {}.",
        axis, to_text(base), to_text(rows), to_text(starts));
  }
  const Dim &size = base.shape[axis], &count = rows.shape[axis];
  if (each && update.circular)
    return invalid("'update_rows' that is circular takes starts, but a position for each row was given: {}.",
                   to_text(starts));
  if (each) return base.shape;
  if (update.circular && (size.is_symbol() || count.is_symbol())) {
    return invalid("'update_rows' that is circular needs numbers along axis {}, but there are {} and {}.", axis,
                   to_text(base), to_text(rows));
  }
  if (!size.is_symbol() && !count.is_symbol() && count.size() > size.size()) {
    return invalid("'update_rows' writes {} rows into the {} that axis {} of {} has.", count.size(), size.size(), axis,
                   to_text(base));
  }
  return base.shape;
}

/// The axes of one operand of `dot`: each exists and has one part to play.
Result<void> check_dot_axes(const Call& call, std::span<const int> batch, std::span<const int> contract,
                            const TensorType& type) {
  std::vector<int> all(batch.begin(), batch.end());
  all.insert(all.end(), contract.begin(), contract.end());
  return check_axes(call, all, type);
}

Result<void> check_dot_pairs(const Call& call, std::span<const int> a, std::span<const int> b, std::string_view what) {
  if (a.size() != b.size()) {
    return invalid("'dot' {} {} axes of its first operand and {} of its second.", what, a.size(), b.size());
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Dim& one = call.operands[0].shape[static_cast<std::size_t>(a[i])];
    const Dim& other = call.operands[1].shape[static_cast<std::size_t>(b[i])];
    if (one == other) continue;
    return invalid("'dot' {} axis {} of {} with axis {} of {}, but {} is not {}.", what, a[i],
                   to_text(call.operands[0]), b[i], to_text(call.operands[1]), one.text(), other.text());
  }
  return {};
}

Result<Shape> dot_shape(const Call& call) {
  const auto& dot = call.attributes<DotPayload>();
  VKF_CHECK_OK(check_dot_axes(call, dot.batch_a, dot.contract_a, call.operands[0]));
  VKF_CHECK_OK(check_dot_axes(call, dot.batch_b, dot.contract_b, call.operands[1]));
  VKF_CHECK_OK(check_dot_pairs(call, dot.batch_a, dot.batch_b, "pairs"));
  VKF_CHECK_OK(check_dot_pairs(call, dot.contract_a, dot.contract_b, "contracts"));
  Shape shape;
  for (int axis : dot.batch_a) shape.push_back(call.operands[0].shape[static_cast<std::size_t>(axis)]);
  for (const bool second : {false, true}) {
    const Shape& own = call.operands[second ? 1 : 0].shape;
    for (int axis :
         free_axes(second ? dot.batch_b : dot.batch_a, second ? dot.contract_b : dot.contract_a, own.size())) {
      shape.push_back(own[static_cast<std::size_t>(axis)]);
    }
  }
  return shape;
}

/// An op's rule, and what it carries.
struct Rule {
  Result<Shape> (*shape)(const Call& call);
  Payload form;
};

/// Every op of add_structured.
const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> all = [] {
    std::map<std::string_view, Rule> made = {
        {"reshape", {reshape_shape, NoPayload{}}},
        {"permute", {permute_shape, AxesPayload{}}},
        {"broadcast", {broadcast_shape, NoPayload{}}},
        {"slice", {slice_shape, SlicePayload{}}},
        {"reverse", {reverse_shape, AxesPayload{}}},
        {"pad", {pad_shape, PadPayload{}}},
        {"concat", {concat_shape, AxisPayload{}}},
        {"unfold", {unfold_shape, WindowPayload{}}},
        {"slice_assign", {slice_assign_shape, SlicePayload{}}},
        {"gather", {gather_shape, AxisPayload{}}},
        {"take_along", {take_along_shape, AxisPayload{}}},
        {"argsort", {argsort_shape, SortPayload{}}},
        {"scatter", {scatter_shape, ScatterPayload{}}},
        {"update_rows", {update_rows_shape, UpdatePayload{}}},
        {"dot", {dot_shape, DotPayload{}}},
        {"all_gather", {all_gather_shape, GatherRanksPayload{}}},
        {"all_to_all", {all_to_all_shape, AllToAllPayload{}}},
        {"broadcast_from", {broadcast_from_shape, BroadcastFromPayload{}}},
        {"send_receive", {send_receive_shape, SendReceivePayload{}}},
        {"shard", {shard_shape, ShardPayload{}}},
        {"at_stage", {at_stage_shape, StagePayload{}}},
        {"micro_batch", {micro_batch_shape, MicroBatchPayload{}}},
        {"custom", {custom_shape, CustomPayload{}}},
        {"custom_kernel", {kernel_shape, KernelPayload{}}},
    };
    for (const ops::OpRow& op : ops::collective_rows()) {
      if (op.name.starts_with("all_reduce")) made[op.name] = {same_on_ranks_shape, AllReducePayload{}};
      if (op.name.starts_with("reduce_scatter")) made[op.name] = {reduce_scatter_shape, GatherRanksPayload{}};
    }
    for (const ops::OpRow& op : ops::table()) {
      if (op.cls == ops::OpClass::reduce) made[op.name] = {reduce_shape, AxesPayload{}};
      if (op.cls == ops::OpClass::scan) made[op.name] = {scan_shape, ScanPayload{}};
    }
    return made;
  }();
  return all;
}

}  // namespace

Result<void> check_axis(const Call& call, int axis, const TensorType& type) {
  if (axis >= 0 && axis < static_cast<int>(type.shape.size())) return {};
  return invalid("'{}' names axis {}, but {}.", call.op.name, axis, axes_text(type));
}

Result<void> check_axes(const Call& call, std::span<const int> axes, const TensorType& type) {
  std::vector<bool> named(type.shape.size(), false);
  for (int axis : axes) {
    VKF_CHECK_OK(check_axis(call, axis, type));
    if (named[static_cast<std::size_t>(axis)]) return invalid("'{}' names axis {} twice.", call.op.name, axis);
    named[static_cast<std::size_t>(axis)] = true;
  }
  return {};
}

std::string_view name_of(ScatterMode mode) {
  constexpr std::string_view names[] = {"set", "add", "mul", "max", "min"};
  return names[static_cast<std::size_t>(mode)];
}

std::optional<ScatterMode> scatter_mode_named(std::string_view name) {
  for (const ScatterMode mode :
       {ScatterMode::set, ScatterMode::add, ScatterMode::mul, ScatterMode::max, ScatterMode::min}) {
    if (name_of(mode) == name) return mode;
  }
  return std::nullopt;
}

std::vector<int> free_axes(std::span<const int> batch, std::span<const int> contract, std::size_t rank) {
  std::vector<int> left;
  for (int axis = 0; axis < static_cast<int>(rank); ++axis) {
    const auto is = [axis](int other) { return other == axis; };
    if (std::none_of(batch.begin(), batch.end(), is) && std::none_of(contract.begin(), contract.end(), is))
      left.push_back(axis);
  }
  return left;
}

const Payload* payload_form(const ops::OpRow& op) {
  const auto found = rules().find(op.name);
  return found == rules().end() ? nullptr : &found->second.form;
}

Result<void> check_picks(const Graph& graph, NodeId id, const SymbolValues& symbols) {
  const Node& node = graph.node(id);
  if (node.op->cls != ops::OpClass::gather || std::get<AxisPayload>(node.payload).or_zero) return {};
  VKF_TRY(from, resolve(graph.node(node.operands[0]).type.shape, symbols));
  VKF_TRY(picked, resolve(node.type.shape, symbols));
  const auto is_empty = [](const std::vector<std::int64_t>& sizes) {
    return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  };
  // Nothing picked out of nothing is no mistake.
  if (!is_empty(from) || is_empty(picked)) return {};
  return invalid("'{}' %{} picks elements of %{}, which is empty.", node.op->name, id, node.operands[0]);
}

Result<NodeId> Graph::add_structured(const ops::OpRow& op, std::vector<NodeId> operands, Payload payload, Shape shape,
                                     std::optional<DType> stated) {
  const auto rule = rules().find(op.name);
  if (rule == rules().end())
    return invalid("'{}' is not a view, gather, reduction, contraction, scan, sort, scatter or update.", op.name);
  if (payload.index() != rule->second.form.index())
    return invalid("'{}' was given the attributes of another op.", op.name);
  if (!op.shape_is_attribute && !shape.empty()) {
    return invalid("'{}' infers its shape, but the shape {} was given.", op.name, to_text(shape));
  }
  std::vector<TensorType> types;
  std::vector<DType> dtypes;
  for (NodeId operand : operands) {
    if (operand >= nodes_.size()) return invalid("'{}' reads %{}, which is not defined before it.", op.name, operand);
    types.push_back(nodes_[operand].type);
    dtypes.push_back(nodes_[operand].type.dtype);
  }
  VKF_TRY(dtype, ops::infer_dtype(op, dtypes, stated));
  const std::string what = fmt::format("'{}'", op.name);
  VKF_CHECK_OK(check_dims(what, shape));
  VKF_TRY(result, rule->second.shape({op, types, payload, shape}));
  VKF_CHECK_OK(check_dims(what, result));
  return append({&op, std::move(operands), {dtype, std::move(result)}, std::move(payload)});
}

}  // namespace vkfuse::ir

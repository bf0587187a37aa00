// Shape rules of views.
#include <algorithm>
#include <map>

#include "ir/structured.hpp"

namespace vkfuse::ir {

namespace {

/// The dimensions as stated, but a symbol of the operand with the operand's promises.
Shape with_promises_of(const Shape& operand, Shape stated) {
  for (Dim& dim : stated) {
    const auto known = std::find(operand.begin(), operand.end(), dim);
    if (known != operand.end()) dim = *known;
  }
  return stated;
}

std::map<std::string, int> symbols_of(const Shape& shape) {
  std::map<std::string, int> counts;
  for (const Dim& dim : shape) {
    if (dim.is_symbol()) ++counts[dim.name()];
  }
  return counts;
}

/// The product of the dimensions that are numbers; check_dims has seen that it fits.
std::int64_t product_of_numbers(const Shape& shape) {
  Sizes numbers;
  for (const Dim& dim : shape) {
    if (!dim.is_symbol()) numbers.push_back(dim.size());
  }
  auto product = element_count(numbers);
  check(product.ok(), "the shape of a node has been checked");
  return *product;
}

/// A list of attributes has one entry for each of `count` things: "axes", "windows".
Result<void> check_entries(const Call& call, std::string_view name, std::size_t entries, std::size_t count,
                           std::string_view of) {
  if (entries == count) return {};
  return invalid("'{}' takes one entry of {} for each of {} {}, but {} {} given.", call.op.name, name, count, of,
                 entries, entries == 1 ? "was" : "were");
}

/// Of no elements only the start is looked at, and it may be the end.
bool run_fits(std::int64_t start, std::int64_t step, std::int64_t size, std::int64_t whole) {
  if (size == 0) return start >= 0 && start <= whole;
  const auto length = checked_mul(size - 1, step);
  if (!length || start < 0 || start >= whole) return false;
  return *length >= -start && *length < whole - start;
}

/// Elements start, start + step, ... of an axis, `size` of them, all exist.
Result<void> check_run(const Call& call, std::size_t axis, const Dim& size, std::int64_t start, std::int64_t step) {
  const TensorType& operand = call.operands[0];
  const Dim& whole = operand.shape[axis];
  if (whole.is_symbol() || size.is_symbol()) {
    if (whole == size && start == 0 && step == 1) return {};
    return invalid(
        "'{}' takes a symbolic axis whole, from 0 in steps of 1, but along axis {} of {} it takes {} elements from {} "
        "in "
        "steps of {}.",
        call.op.name, axis, to_text(operand), size.text(), start, step);
  }
  if (step == 0) return invalid("'{}' has a step of 0 along axis {}.", call.op.name, axis);
  if (run_fits(start, step, size.size(), whole.size())) return {};
  return invalid("'{}' takes {} elements from {} in steps of {} along axis {}, which is out of bounds of {}.",
                 call.op.name, size.text(), start, step, axis, to_text(operand));
}

Result<void> check_runs(const Call& call, const Shape& sizes) {
  const auto& slice = call.attributes<SlicePayload>();
  const Shape& whole = call.operands[0].shape;
  VKF_CHECK_OK(check_entries(call, "starts", slice.starts.size(), whole.size(), "axes"));
  VKF_CHECK_OK(check_entries(call, "steps", slice.steps.size(), whole.size(), "axes"));
  for (std::size_t i = 0; i < whole.size(); ++i)
    VKF_CHECK_OK(check_run(call, i, sizes[i], slice.starts[i], slice.steps[i]));
  return {};
}

}  // namespace

Result<Shape> reshape_shape(const Call& call) {
  const Shape& from = call.operands[0].shape;
  const auto before = symbols_of(from);
  const auto after = symbols_of(call.shape);
  for (const auto& [name, count] : before) {
    const auto found = after.find(name);
    if (found != after.end() && found->second >= count) continue;
    return invalid(
        "'reshape' of {} to {} leaves out the symbol '{}': no symbol stands for a product of symbols and numbers, so "
        "each one "
        "stays as it is.",
        to_text(call.operands[0]), to_text(call.shape), name);
  }
  for (const auto& [name, count] : after) {
    const auto found = before.find(name);
    if (found != before.end() && found->second >= count) continue;
    return invalid("'reshape' of {} to {} names the symbol '{}' more often than the operand does.",
                   to_text(call.operands[0]), to_text(call.shape), name);
  }
  const std::int64_t had = product_of_numbers(from);
  const std::int64_t has = product_of_numbers(call.shape);
  if (had != has) {
    return invalid(
        "'reshape' of {} to {} does not keep the number of elements: the numbers multiply out to {} and to {}.",
        to_text(call.operands[0]), to_text(call.shape), had, has);
  }
  return with_promises_of(from, call.shape);
}

Result<Shape> permute_shape(const Call& call) {
  const TensorType& operand = call.operands[0];
  const std::vector<int>& axes = call.attributes<AxesPayload>().axes;
  VKF_CHECK_OK(check_entries(call, "axes", axes.size(), operand.shape.size(), "axes"));
  VKF_CHECK_OK(check_axes(call, axes, operand));
  Shape shape;
  for (int axis : axes) shape.push_back(operand.shape[static_cast<std::size_t>(axis)]);
  return shape;
}

Result<Shape> broadcast_shape(const Call& call) {
  const Shape& from = call.operands[0].shape;
  auto joined = broadcast(from, call.shape);
  if (!joined || *joined != call.shape) {
    return invalid("'broadcast' cannot stretch {} to {}.", to_text(call.operands[0]), to_text(call.shape));
  }
  return with_promises_of(from, call.shape);
}

Result<Shape> slice_shape(const Call& call) {
  const TensorType& operand = call.operands[0];
  if (call.shape.size() != operand.shape.size()) {
    return invalid("'slice' of {} is declared with the shape {}, which has another number of axes.", to_text(operand),
                   to_text(call.shape));
  }
  VKF_CHECK_OK(check_runs(call, call.shape));
  return with_promises_of(operand.shape, call.shape);
}

Result<Shape> slice_assign_shape(const Call& call) {
  const TensorType& base = call.operands[0];
  const TensorType& update = call.operands[1];
  if (update.shape.size() != base.shape.size()) {
    return invalid("'slice_assign' writes {} into {}, which has another number of axes.", to_text(update),
                   to_text(base));
  }
  VKF_CHECK_OK(check_runs(call, update.shape));
  return base.shape;
}

Result<Shape> reverse_shape(const Call& call) {
  const std::vector<int>& axes = call.attributes<AxesPayload>().axes;
  if (axes.empty()) return invalid("'reverse' of {} names no axis.", to_text(call.operands[0]));
  VKF_CHECK_OK(check_axes(call, axes, call.operands[0]));
  return call.operands[0].shape;
}

Result<Shape> pad_shape(const Call& call) {
  const auto& pad = call.attributes<PadPayload>();
  const TensorType& operand = call.operands[0];
  const std::size_t rank = operand.shape.size();
  if (!call.operands[1].shape.empty()) {
    return invalid("'pad' fills with a scalar, but it was given {}.", to_text(call.operands[1]));
  }
  VKF_CHECK_OK(check_entries(call, "low", pad.low.size(), rank, "axes"));
  VKF_CHECK_OK(check_entries(call, "high", pad.high.size(), rank, "axes"));
  Shape shape = operand.shape;
  for (std::size_t i = 0; i < rank; ++i) {
    if (pad.low[i] < 0 || pad.high[i] < 0) {
      return invalid("'pad' of axis {} by {} and {} is negative.", i, pad.low[i], pad.high[i]);
    }
    if (pad.low[i] == 0 && pad.high[i] == 0) continue;
    if (shape[i].is_symbol()) {
      return invalid("'pad' of axis {} by {} and {} needs a number there, but it is the symbol '{}' of {}.", i,
                     pad.low[i], pad.high[i], shape[i].name(), to_text(operand));
    }
    const auto added = checked_add(pad.low[i], pad.high[i]);
    const auto size = added ? checked_add(*added, shape[i].size()) : std::nullopt;
    if (!size) {
      return invalid("'pad' of axis {} of {} by {} and {} makes more elements than 64 bits can count.", i,
                     to_text(operand), pad.low[i], pad.high[i]);
    }
    shape[i] = Dim(*size);
  }
  return shape;
}

Result<Shape> concat_shape(const Call& call) {
  const int named = call.attributes<AxisPayload>().axis;
  const TensorType& first = call.operands[0];
  VKF_CHECK_OK(check_axis(call, named, first));
  const auto axis = static_cast<std::size_t>(named);
  std::int64_t total = 0;
  for (const TensorType& operand : call.operands) {
    Shape rest = operand.shape;
    if (rest.size() == first.shape.size()) rest[axis] = first.shape[axis];
    if (rest != first.shape) {
      return invalid("'concat' along axis {} cannot join {} and {}: the other dimensions differ.", named,
                     to_text(first), to_text(operand));
    }
    if (operand.shape[axis].is_symbol()) {
      return invalid("'concat' along axis {} needs numbers there, but it is the symbol '{}' of {}.", named,
                     operand.shape[axis].name(), to_text(operand));
    }
    const auto sum = checked_add(total, operand.shape[axis].size());
    if (!sum) return invalid("'concat' along axis {} makes more elements than 64 bits can count.", named);
    total = *sum;
  }
  Shape shape = first.shape;
  shape[axis] = Dim(total);
  return shape;
}

Result<Shape> unfold_shape(const Call& call) {
  const auto& window = call.attributes<WindowPayload>();
  const TensorType& operand = call.operands[0];
  const std::size_t count = window.axes.size();
  if (count == 0) return invalid("'unfold' of {} names no axis.", to_text(operand));
  VKF_CHECK_OK(check_entries(call, "sizes", window.sizes.size(), count, "windows"));
  VKF_CHECK_OK(check_entries(call, "strides", window.strides.size(), count, "windows"));
  VKF_CHECK_OK(check_entries(call, "dilations", window.dilations.size(), count, "windows"));
  VKF_CHECK_OK(check_axes(call, window.axes, operand));
  Shape shape = operand.shape;
  for (std::size_t i = 0; i < count; ++i) {
    Dim& dim = shape[static_cast<std::size_t>(window.axes[i])];
    if (dim.is_symbol()) {
      return invalid("'unfold' along axis {} needs a number there, but it is the symbol '{}' of {}.", window.axes[i],
                     dim.name(), to_text(operand));
    }
    if (window.sizes[i] < 1 || window.strides[i] < 1 || window.dilations[i] < 1) {
      return invalid("'unfold' along axis {} has a window of size {}, stride {} and dilation {}; each is at least 1.",
                     window.axes[i], window.sizes[i], window.strides[i], window.dilations[i]);
    }
    const auto reach = checked_mul(window.sizes[i] - 1, window.dilations[i]);  // from first to last element
    if (!reach || *reach >= dim.size()) {
      return invalid("'unfold' along axis {} of {} has no place for a window of size {} and dilation {}.",
                     window.axes[i], to_text(operand), window.sizes[i], window.dilations[i]);
    }
    dim = Dim((dim.size() - 1 - *reach) / window.strides[i] + 1);
  }
  for (std::int64_t size : window.sizes) shape.emplace_back(size);
  return shape;
}

}  // namespace vkfuse::ir

// Operators that cut along axes and put parts together.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

using List = std::vector<std::int64_t>;

Result<void> check_length(std::string_view what, std::size_t count, std::size_t length) {
  if (count == length) return {};
  return invalid("The list of {} has {} entries; it must have {}.", what, count, length);
}

/// Axes 0, 1, ... where none are stated.
Result<std::vector<int>> axes_or_first(const std::optional<List>& stated, std::size_t count, std::size_t rank) {
  List axes;
  for (std::size_t i = 0; i < count; ++i) axes.push_back(static_cast<std::int64_t>(i));
  return checked_axes(stated.value_or(axes), rank, "An axis");
}

/// Slice's ends: numbers, symbols, and nothing for what is neither.
Result<std::optional<std::vector<std::optional<Dim>>>> slice_ends(const NodeContext& node) {
  using Ends = std::optional<std::vector<std::optional<Dim>>>;
  if (node.has(2) && !node.attributes().has("ends")) {
    VKF_TRY(ends, node.known_dims(2, "ends"));
    return Ends(std::move(ends));
  }
  VKF_TRY(ends, stated_list(node, "ends", 2));
  return ends ? Ends(std::vector<std::optional<Dim>>(ends->begin(), ends->end())) : Ends();
}

/// The first elements of an axis, as many as a symbol says: no more than there are, which becomes a promise of the
/// symbol.
Tensor begin_of(const Tensor& x, int axis, const Dim& count) {
  const Dim& size = x.shape()[static_cast<std::size_t>(axis)];
  if (size == count) return x;
  if (size.is_symbol())
    return Tensor::failed(
        unsupported("A slice of {} elements of {} is only known when the program runs.", count.text(), size.text()));
  DimFacts facts = count.facts();
  facts.max = std::min(facts.max, size.size());
  return x.gather(Tensor::iota(DType::i32, {Dim::any(count.name(), facts)}, 0), axis);
}

/// The sizes of Split's parts: stated, or as equal as the opset allows.
Result<List> part_sizes(const NodeContext& node, std::int64_t size) {
  VKF_TRY(stated, stated_list(node, "split", 1));
  if (stated) return *std::move(stated);
  VKF_TRY(parts, node.attributes().integer("num_outputs", node.outputs()));
  if (parts < 1 || parts > node.outputs()) {
    return invalid("Attribute 'num_outputs' is {}; the node has {} outputs.", parts, node.outputs());
  }
  if (size % parts != 0 && node.opset() < 18) {
    return invalid("An axis of {} elements cannot be split into {} equal parts.", size, parts);
  }
  const std::int64_t each = (size + parts - 1) / parts;
  List sizes;
  for (std::int64_t start = 0; sizes.size() < static_cast<std::size_t>(parts); start += each) {
    sizes.push_back(std::clamp<std::int64_t>(size - start, 0, each));
  }
  return sizes;
}

Result<void> check_parts(const NodeContext& node, const List& parts, std::int64_t size) {
  if (static_cast<int>(parts.size()) != node.outputs()) {
    return invalid("The parts are [{}], but the node has {} outputs.", fmt::join(parts, ", "), node.outputs());
  }
  std::int64_t left = size;
  for (const std::int64_t part : parts) {
    if (part < 0 || part > left) left = -1;
    if (left < 0) break;
    left -= part;
  }
  if (left == 0) return {};
  return invalid("The parts are [{}]; they must add up to the {} elements of the axis.", fmt::join(parts, ", "), size);
}

/// Elements put before and after one axis; negative ones cut.
struct Padding {
  int axis = 0;
  std::int64_t low = 0, high = 0;
};

/// Pad's list as one entry per axis it names: all of the low amounts come before the high ones.
Result<std::vector<Padding>> paddings(const NodeContext& node) {
  VKF_TRY(amounts, stated_list(node, "pads", 1));
  if (!amounts) return invalid("Attribute 'pads' is missing.");
  const std::size_t rank = node.tensor(0).shape().size();
  VKF_TRY(stated, stated_list(node, "axes", 3));
  VKF_TRY(axes, axes_or_first(stated, rank, rank));
  VKF_CHECK_OK(check_length("pads", amounts->size(), 2 * axes.size()));
  constexpr std::int64_t kFar = std::int64_t{1} << 48;  // sums of sizes stay far from overflow
  std::vector<Padding> result;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Padding padding{axes[i], (*amounts)[i], (*amounts)[axes.size() + i]};
    for (const std::int64_t amount : {padding.low, padding.high}) {
      if (amount > kFar || amount < -kFar) return invalid("The list of pads holds {}, more than any axis.", amount);
    }
    result.push_back(padding);
  }
  return result;
}

Tensor padded_by(const Tensor& x, const std::vector<Padding>& paddings, std::size_t rank, double value) {
  List low(rank), high(rank);
  for (const Padding& padding : paddings) {
    low[static_cast<std::size_t>(padding.axis)] = padding.low;
    high[static_cast<std::size_t>(padding.axis)] = padding.high;
  }
  return x.pad(std::move(low), std::move(high), value);
}

/// With a value that only the program knows, or that a double cannot hold: chosen where a mask says so.
Tensor padded_with(const Tensor& x, const std::vector<Padding>& paddings, const Tensor& value) {
  const std::size_t rank = x.shape().size();
  const Tensor inside = filled(x.shape(), Tensor::scalar(DType::boolean, 1));
  return select(padded_by(inside, paddings, rank, 0), padded_by(x, paddings, rank, 0), value);
}

Result<Tensor> padded_with_constant(const NodeContext& node, const std::vector<Padding>& paddings) {
  const Tensor& x = node.tensor(0);
  VKF_TRY(attribute, node.attributes().real("value", 0));
  if (!node.has(2)) return padded_by(x, paddings, x.shape().size(), attribute);
  const Tensor& value = node.tensor(2);
  const Shape& shape = value.shape();
  if (value.dtype() != x.dtype() || shape.size() > 1 || (shape.size() == 1 && !(shape[0] == Dim(1)))) {
    return invalid("The padding value (operand 2) is {}{}; it must be one {}.", name_of(value.dtype()), to_text(shape),
                   name_of(x.dtype()));
  }
  const std::shared_ptr<const TensorData>& known = node.value(2).known;
  if (known && size_of(x.dtype()) < 8) return padded_by(x, paddings, x.shape().size(), element_real(*known, 0));
  return padded_with(x, paddings, value.reshape({}));
}

/// The element that each position of a padded axis repeats.
Result<List> repeated_positions(std::string_view mode, std::int64_t size, const Padding& padding) {
  const std::int64_t low = std::max<std::int64_t>(padding.low, 0);
  const std::int64_t high = std::max<std::int64_t>(padding.high, 0);
  if (low + high > 0 && size == 0) {
    return invalid("Axis {} is empty; mode {} has nothing to repeat.", padding.axis, in_quotes(mode));
  }
  if (size + low + high > kMostPositions) {
    return unsupported("Mode {} of Pad makes an axis of {} elements, more than the {} that are supported.",
                       in_quotes(mode), size + low + high, kMostPositions);
  }
  const std::int64_t period = std::max<std::int64_t>(2 * (size - 1), 1);
  List result;
  for (std::int64_t position = -low; position < size + high; ++position) {
    if (mode == "edge") {
      result.push_back(std::clamp<std::int64_t>(position, 0, size - 1));
    } else if (mode == "wrap") {
      result.push_back(((position % size) + size) % size);
    } else {
      const std::int64_t folded = ((position % period) + period) % period;
      result.push_back(std::min(folded, period - folded) % size);
    }
  }
  return result;
}

/// What the amounts cut goes first: only what is left is repeated.
Result<Tensor> padded_with_itself(const NodeContext& node, std::string_view mode,
                                  const std::vector<Padding>& paddings) {
  Tensor result = node.tensor(0);
  for (const Padding& padding : paddings) {
    if (padding.low == 0 && padding.high == 0) continue;
    VKF_TRY(whole, static_size(node.tensor(0).shape(), static_cast<std::size_t>(padding.axis)));
    const std::int64_t cut_low = std::min<std::int64_t>(std::max<std::int64_t>(-padding.low, 0), whole);
    const std::int64_t end = std::max(whole - std::max<std::int64_t>(-padding.high, 0), cut_low);
    if (cut_low > 0 || end < whole) result = result.slice(padding.axis, cut_low, end);
    VKF_TRY(requested, repeated_positions(mode, end - cut_low, padding));
    result = take(result, padding.axis, requested);
  }
  return result;
}

}  // namespace

Result<Outputs> import_concat(const NodeContext& node) {
  if (!node.attributes().has("axis")) return invalid("Attribute 'axis' is missing.");
  VKF_TRY(axis, axis_attribute(node, 0));
  const std::vector<Tensor> tensors = node.tensors();
  return Outputs{tensors.size() == 1 ? tensors[0] : concat(tensors, axis)};
}

Result<Outputs> import_slice(const NodeContext& node) {
  VKF_TRY(starts, stated_list(node, "starts", 1));
  VKF_TRY(ends, slice_ends(node));
  VKF_TRY(stated_axes, stated_list(node, "axes", 3));
  VKF_TRY(steps, stated_list(node, "steps", 4));
  if (!starts || !ends) return invalid("The list of {} is missing.", !starts ? "starts" : "ends");
  VKF_TRY(axes, axes_or_first(stated_axes, starts->size(), node.tensor(0).shape().size()));
  VKF_CHECK_OK(check_length("starts", starts->size(), axes.size()));
  VKF_CHECK_OK(check_length("ends", ends->size(), axes.size()));
  if (!steps) steps = List(axes.size(), 1);
  VKF_CHECK_OK(check_length("steps", steps->size(), axes.size()));
  Tensor result = node.tensor(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if ((*steps)[i] == 0) return invalid("The step of axis {} is 0.", axes[i]);
    const std::optional<Dim>& end = (*ends)[i];
    if (end && !end->is_symbol()) {
      result = result.slice(axes[i], (*starts)[i], end->size(), (*steps)[i]);
    } else if (end && (*starts)[i] == 0 && (*steps)[i] == 1) {
      result = begin_of(result, axes[i], *end);
    } else {
      return unsupported("The end of the slice along axis {} is only known when the program runs.", axes[i]);
    }
  }
  return Outputs{std::move(result)};
}

Result<Outputs> import_split(const NodeContext& node) {
  VKF_TRY(axis, axis_attribute(node, 0));
  VKF_TRY(size, static_size(node.tensor(0).shape(), static_cast<std::size_t>(axis)));
  VKF_TRY(parts, part_sizes(node, size));
  VKF_CHECK_OK(check_parts(node, parts, size));
  Outputs outputs;
  std::int64_t start = 0;
  for (const std::int64_t part : parts) {
    outputs.emplace_back(node.tensor(0).slice(axis, start, start + part));
    start += part;
  }
  return outputs;
}

Result<Outputs> import_pad(const NodeContext& node) {
  VKF_TRY(mode, node.attributes().text("mode", "constant"));
  VKF_TRY(amounts, paddings(node));
  if (mode == "constant") {
    VKF_TRY(result, padded_with_constant(node, amounts));
    return Outputs{std::move(result)};
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap") {
    return invalid("Attribute 'mode' is {}; it must be 'constant', 'reflect', 'edge' or 'wrap'.", in_quotes(mode));
  }
  VKF_TRY(result, padded_with_itself(node, mode, amounts));
  return Outputs{std::move(result)};
}

Result<Outputs> import_center_crop_pad(const NodeContext& node) {
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(target, known_sizes(node, 1));
  VKF_TRY(listed, node.attributes().integers("axes"));
  const std::optional<List> stated = node.attributes().has("axes") ? std::optional(listed) : std::nullopt;
  VKF_TRY(axes, axes_or_first(stated, shape.size(), shape.size()));
  VKF_CHECK_OK(check_length("target sizes", target.size(), axes.size()));
  std::vector<Padding> amounts;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    VKF_TRY(size, static_size(shape, static_cast<std::size_t>(axes[i])));
    // The odd element is put, or cut, at the end.
    const std::int64_t more = target[i] - size;
    const std::int64_t low = more / 2;
    amounts.push_back({axes[i], low, more - low});
  }
  return Outputs{padded_by(node.tensor(0), amounts, shape.size(), 0)};
}

Result<Outputs> import_trilu(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Tensor& x = node.tensor(0);
  VKF_TRY(upper, node.attributes().integer("upper", 1));
  const Shape matrix(x.shape().end() - 2, x.shape().end());
  const Tensor from_diagonal = Tensor::iota(DType::i32, matrix, 1) - Tensor::iota(DType::i32, matrix, 0);
  Tensor k = Tensor::scalar(DType::i32, 0);
  if (node.has(1)) {
    // No matrix reaches further from its diagonal than this, and i32 holds it.
    constexpr double kFar = 1 << 30;
    k = op("min", op("max", node.tensor(1), -kFar), kFar).cast(DType::i32);
  }
  const Tensor kept = op(upper != 0 ? "ge" : "le", from_diagonal, k);
  return Outputs{select(kept, x, Tensor::scalar(x.dtype(), 0))};
}

}  // namespace vkfuse::onnx

// Changes of dtype, and the linear quantisation that is a scale around one.
#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {
namespace {

Outputs cast_to(const Value& value, DType dtype) {
  return {Value{value.tensor.cast(dtype), value.known ? converted(*value.known, dtype) : std::nullopt}};
}

Result<std::int64_t> normalised_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) return invalid("Attribute 'axis' is {}; the input has rank {}.", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

/// One number per channel, shaped so that it lines up with the channel axis of the input.
Result<Tensor> along_axis(const Value& channels, std::int64_t axis, std::int64_t rank) {
  if (axis == rank - 1) return channels.tensor;  // broadcasting aligns the innermost axis by itself
  if (!channels.known) {
    return unsupported(
        "The scale or zero point of axis {} of {} is only known when the program runs; it must be a "
        "constant, a scalar, or belong to the innermost axis.",
        axis, rank);
  }
  TensorData data = *channels.known;
  data.sizes.resize(static_cast<std::size_t>(rank - axis), 1);
  return constant_value(std::move(data)).tensor;
}

/// A scale or zero point as an operand that broadcasts against the input: per tensor or per axis.
Result<Tensor> quantisation_operand(const NodeContext& node, int i, std::int64_t axis) {
  const Shape& shape = node.tensor(i).shape();
  const Shape& input = node.tensor(0).shape();
  const auto rank = static_cast<std::int64_t>(input.size());
  if (shape.empty() || (shape.size() == 1 && shape[0] == Dim(1) && rank > 0)) return node.tensor(i);
  if (shape.size() > 1) {
    return unsupported("Operand {} has rank {}: quantisation in blocks is not supported.", i, shape.size());
  }
  VKF_TRY(channel_axis, normalised_axis(axis, rank));
  const Dim& channels = input[static_cast<std::size_t>(channel_axis)];
  if (!(channels == shape[0])) {
    return invalid("Operand {} has {} elements, but axis {} of the input has {}.", i, shape[0].text(), channel_axis,
                   channels.text());
  }
  return along_axis(node.value(i), channel_axis, rank);
}

Result<void> check_not_blocked(const NodeContext& node) {
  VKF_TRY(block, node.attributes().integer("block_size", 0));
  if (block != 0) return unsupported("Attribute 'block_size' is {}: quantisation in blocks is not supported.", block);
  return {};
}

Result<DType> quantised_dtype(const NodeContext& node) {
  if (node.has(2)) return node.dtype(2);
  VKF_TRY(stated, node.attributes().integer("output_dtype", 0));
  if (stated == 0) return DType::u8;
  return dtype_from(static_cast<int>(stated), "Attribute 'output_dtype'");
}

/// The quotient rounded to i32. Integers from here on: a sum of floats would be exact too, but an
/// error bound cannot know it. The clamp keeps a zero point of 16 bits from wrapping the sum, and is
/// beyond what any 16-bit result distinguishes.
Tensor whole_steps(const Tensor& quotient) {
  constexpr double kFar = 1 << 20;
  return op("min", op("max", op("round", quotient), -kFar), kFar).cast(DType::i32);
}

/// An i32 clamped to an 8- or 16-bit dtype.
Tensor saturated(const Tensor& value, DType dtype) {
  const int bits = 8 * size_of(dtype);
  const int low = is_signed_integer(dtype) ? -(1 << (bits - 1)) : 0;
  return op("min", op("max", value, low), low + (1 << bits) - 1).cast(dtype);
}

}  // namespace

Result<Outputs> import_cast(const NodeContext& node) {
  if (!node.attributes().has("to")) return invalid("Attribute 'to' is missing.");
  VKF_TRY(to, node.attributes().integer("to", 0));
  VKF_TRY(dtype, dtype_from(static_cast<int>(to), "Attribute 'to'"));
  return cast_to(node.value(0), dtype);
}

Result<Outputs> import_cast_like(const NodeContext& node) { return cast_to(node.value(0), node.dtype(1)); }

Result<Outputs> import_quantize(const NodeContext& node) {
  VKF_CHECK_OK(check_not_blocked(node));
  VKF_TRY(axis, node.attributes().integer("axis", 1));
  VKF_TRY(dtype, quantised_dtype(node));
  if (!is_integer(dtype) || size_of(dtype) > 2) {
    return unsupported("Quantisation to {} is not supported.", name_of(dtype));
  }
  VKF_TRY(scale, quantisation_operand(node, 1, axis));
  // f16 has too few bits for the quotient, whatever the numerics.
  Tensor steps = whole_steps(node.tensor(0).cast(DType::f32) / scale.cast(DType::f32));
  if (node.has(2)) {
    VKF_TRY(zero_point, quantisation_operand(node, 2, axis));
    steps = steps + zero_point.cast(DType::i32);
  }
  return Outputs{saturated(steps, dtype)};
}

Result<Outputs> import_dequantize(const NodeContext& node) {
  VKF_CHECK_OK(check_not_blocked(node));
  VKF_TRY(axis, node.attributes().integer("axis", 1));
  if (!is_integer(node.dtype())) return unsupported("Dequantisation of {} is not supported.", name_of(node.dtype()));
  VKF_TRY(scale, quantisation_operand(node, 1, axis));
  Tensor steps = node.tensor(0).cast(DType::i32);
  if (node.has(2)) {
    if (node.dtype(2) != node.dtype(0)) {
      return invalid("The zero point is {}, the input {}; they must be equal.", name_of(node.dtype(2)),
                     name_of(node.dtype(0)));
    }
    VKF_TRY(zero_point, quantisation_operand(node, 2, axis));
    steps = steps - zero_point.cast(DType::i32);
  }
  return Outputs{steps.cast(scale.dtype()) * scale};
}

}  // namespace vkfuse::onnx

// Changes of dtype, and the linear quantisation that is a scale around one.
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {
namespace {

/// A scale or zero point as an operand that broadcasts against the input: per tensor or per axis.
Result<Tensor> quantisation_operand(const NodeContext& node, int i, std::int64_t axis) {
  const Shape& shape = node.tensor(i).shape();
  const std::size_t rank = node.tensor(0).shape().size();
  if (shape.empty() || (shape.size() == 1 && shape[0] == Dim(1) && rank > 0)) return node.tensor(i);
  if (shape.size() > 1) {
    return unsupported("Operand {} has rank {}: quantisation in blocks is not supported.", i, shape.size());
  }
  VKF_TRY(channel_axis, checked_axis(axis, rank, "Attribute 'axis'"));
  return along_axis(node, i, channel_axis);
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
  return Outputs{node.tensor(0).cast(dtype)};
}

Result<Outputs> import_cast_like(const NodeContext& node) { return Outputs{node.tensor(0).cast(node.dtype(1))}; }

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

Result<Outputs> import_dynamic_quantize(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  // The range holds 0, so that 0 is exact.
  const Tensor low = op("min", x.min(), 0);
  const Tensor high = op("max", x.max(), 0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor zero_point = saturated(whole_steps(-low / scale), DType::u8);
  const Tensor steps = whole_steps(x / scale) + zero_point.cast(DType::i32);
  return Outputs{saturated(steps, DType::u8), scale, zero_point};
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

#include "onnx/quantization.hpp"

#include <optional>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

constexpr std::int64_t kMostBlock = std::int64_t{1} << 30;

bool is_one_number(const Shape& shape) { return shape.empty() || (shape.size() == 1 && shape[0] == Dim(1)); }

/// What an operand's elements stand for.
Tensor numbers_of(const NodeContext& node, int operand) {
  const Value& value = node.value(operand);
  return value.narrow != nullptr ? widened(value.tensor, *value.narrow) : value.tensor;
}

/// One number for every `block` neighbours along the axis, repeated for each of them.
Result<Tensor> in_blocks(const NodeContext& node, int operand, const Shape& shape, int axis, std::int64_t block) {
  const auto at = static_cast<std::size_t>(axis);
  VKF_TRY(size, static_size(shape, at));
  Shape requested = shape;
  requested[at] = Dim((size + block - 1) / block);
  const Tensor numbers = numbers_of(node, operand);
  if (numbers.shape() != requested) {
    return invalid("Operand {} has the shape {}; blocks of {} along axis {} of {} ask for {}.", operand,
                   to_text(numbers.shape()), block, axis, to_text(shape), to_text(requested));
  }
  Shape stretched = requested;
  stretched.insert(stretched.begin() + axis + 1, Dim(block));
  requested[at] = Dim(requested[at].size() * block);
  return numbers.unsqueeze(axis + 1).broadcast_to(stretched).reshape(requested).slice(axis, 0, size);
}

Result<ElementType> quantised_type(const NodeContext& node) {
  if (node.has(2)) return ElementType{node.dtype(2), node.value(2).narrow};
  VKF_TRY(stated, node.attributes().integer("output_dtype", 0));
  if (stated == 0) return ElementType{DType::u8, nullptr};
  return element_type_from(static_cast<int>(stated), "Attribute 'output_dtype'");
}

/// The division is made in f32, whatever the operands are.
Result<void> check_precision(const NodeContext& node) {
  VKF_TRY(precision, node.attributes().integer("precision", 0));
  if (precision == 0 || precision == pb::TensorProto::FLOAT) return {};
  return unsupported("Attribute 'precision' of operator 'QuantizeLinear' is {}; it is supported as FLOAT.",
                     data_type_name(static_cast<int>(precision)));
}

/// An i32 clamped to what so many bits hold.
Tensor within_bits(const Tensor& value, int bits, bool is_signed) {
  const int low = is_signed ? -(1 << (bits - 1)) : 0;
  return op("min", op("max", value, low), low + (1 << bits) - 1);
}

/// Attributes 'axis' and 'block_size' of QuantizeLinear and DequantizeLinear.
struct Granularity {
  std::int64_t axis = 1, block = 0;
};
Result<Granularity> granularity_of(const NodeContext& node) {
  VKF_TRY(axis, node.attributes().integer("axis", 1));
  VKF_TRY(block, node.attributes().integer("block_size", 0));
  if (block < 0 || block > kMostBlock)
    return invalid("Attribute 'block_size' is {}; it must be 0 to {}.", block, kMostBlock);
  return Granularity{axis, block};
}

}  // namespace

Result<Tensor> quantisation_operand(const NodeContext& node, int operand, const Shape& shape, std::int64_t axis,
                                    std::int64_t block) {
  const Tensor numbers = numbers_of(node, operand);
  if (block == 0 && is_one_number(numbers.shape())) return numbers.reshape({});
  VKF_TRY(at, checked_axis(axis, shape.size(), "Attribute 'axis'"));
  if (block > 0) return in_blocks(node, operand, shape, at, block);
  const Dim& size = shape[static_cast<std::size_t>(at)];
  if (numbers.shape() != Shape{size}) {
    return invalid("Operand {} has the shape {}, but axis {} of {} asks for [{}].", operand, to_text(numbers.shape()),
                   at, to_text(shape), size.text());
  }
  Shape lined_up(shape.size() - static_cast<std::size_t>(at), Dim(1));
  lined_up[0] = size;
  return numbers.reshape(lined_up);
}

Result<Tensor> steps_above_zero(const NodeContext& node, int integers, int zero_point, std::int64_t axis) {
  const Tensor& x = node.tensor(integers);
  if (!is_integer(x.dtype()) || size_of(x.dtype()) > 2) {
    return unsupported("Operand {} is {}; quantised integers have 8 or 16 bits.", integers, name_of(x.dtype()));
  }
  const Tensor wide = x.cast(DType::i32);
  if (!node.has(zero_point)) return wide;
  VKF_TRY(zero, quantisation_operand(node, zero_point, x.shape(), axis));
  return wide - zero.cast(DType::i32);
}

Tensor whole_steps(const Tensor& quotient) {
  // Integers from here on: a sum of floats would be exact too, but an error bound cannot know it.
  constexpr double kFar = 1 << 20;
  return op("min", op("max", op("round", quotient), -kFar), kFar).cast(DType::i32);
}

Tensor saturated(const Tensor& value, DType dtype) {
  return within_bits(value, 8 * size_of(dtype), is_signed_integer(dtype)).cast(dtype);
}

Result<Outputs> import_quantize(const NodeContext& node) {
  VKF_TRY(by, granularity_of(node));
  VKF_TRY(type, quantised_type(node));
  VKF_TRY(saturates, node.attributes().integer("saturate", 1));
  VKF_CHECK_OK(check_precision(node));
  const DType dtype = type.dtype;
  if (node.value(0).narrow != nullptr || dtype == DType::boolean || !is_integer(dtype) || size_of(dtype) > 2) {
    return unsupported("Quantisation of {} to {} is not supported.",
                       name_of(ElementType{node.dtype(), node.value(0).narrow}), name_of(type));
  }
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(scale, quantisation_operand(node, 1, shape, by.axis, by.block));
  // f16 has too few bits for the quotient, whatever the numerics.
  const Tensor quotient = node.tensor(0).cast(DType::f32) / scale.cast(DType::f32);
  std::optional<Tensor> zero_point;
  if (node.has(2)) {
    VKF_TRY(stated, quantisation_operand(node, 2, shape, by.axis, by.block));
    zero_point = stated;
  }
  Value result = quotient;
  if (type.narrow != nullptr && type.narrow->format) {
    result = narrowed(zero_point ? quotient + *zero_point : quotient, *type.narrow, {.saturates = saturates != 0});
  } else {
    const Tensor steps = zero_point ? whole_steps(quotient) + zero_point->cast(DType::i32) : whole_steps(quotient);
    const int bits = type.narrow != nullptr ? type.narrow->bits : 8 * size_of(dtype);
    result = within_bits(steps, bits, is_signed_integer(dtype)).cast(dtype);
  }
  result.narrow = type.narrow;
  return Outputs{std::move(result)};
}

DynamicSteps dynamic_steps(const Tensor& x) { return dynamic_steps(x, x.min(), x.max()); }

DynamicSteps dynamic_steps(const Tensor& x, const Tensor& least, const Tensor& largest) {
  // The range holds 0, so that 0 is exact.
  const Tensor low = op("min", least, 0);
  const Tensor high = op("max", largest, 0);
  // Of zeros alone, as ONNX Runtime has it: the operator's definition divides 0 by 0.
  const Tensor range = high - low;
  const Tensor scale = select(op("eq", range, 0), Tensor::scalar(x.dtype(), 1), range / 255.0);
  const Tensor zero_point = saturated(whole_steps(-low / scale), DType::u8);
  const Tensor steps = whole_steps(x / scale) + zero_point.cast(DType::i32);
  return {saturated(steps, DType::u8), scale, zero_point};
}

Tensor in_dynamic_steps(const Tensor& x, const DynamicSteps& steps) {
  const Tensor whole = steps.integers.cast(DType::i32) - steps.zero_point.cast(DType::i32);
  return whole.cast(x.dtype()) * steps.scale;
}

Result<Outputs> import_dynamic_quantize(const NodeContext& node) {
  const DynamicSteps made = dynamic_steps(node.tensor(0));
  return Outputs{made.integers, made.scale, made.zero_point};
}

Result<Outputs> import_dequantize(const NodeContext& node) {
  VKF_TRY(by, granularity_of(node));
  const NarrowType* narrow = node.value(0).narrow;
  if (!is_integer(node.dtype())) return unsupported("Dequantisation of {} is not supported.", name_of(node.dtype()));
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(scale, quantisation_operand(node, 1, shape, by.axis, by.block));
  const bool is_float = narrow != nullptr && narrow->format;
  Tensor steps = numbers_of(node, 0).cast(is_float ? DType::f32 : DType::i32);
  if (node.has(2)) {
    const ElementType zero{node.dtype(2), node.value(2).narrow}, input{node.dtype(0), narrow};
    if (zero != input)
      return invalid("The zero point is {}, the input {}; they must be equal.", name_of(zero), name_of(input));
    VKF_TRY(zero_point, quantisation_operand(node, 2, shape, by.axis, by.block));
    steps = steps - zero_point.cast(steps.dtype());
  }
  VKF_TRY(stated, node.attributes().integer("output_dtype", 0));
  if (stated == 0) return Outputs{steps.cast(scale.dtype()) * scale};
  VKF_TRY(dtype, dtype_from(static_cast<int>(stated), "Attribute 'output_dtype'"));
  return Outputs{(steps.cast(scale.dtype()) * scale).cast(dtype)};
}

}  // namespace vkfuse::onnx

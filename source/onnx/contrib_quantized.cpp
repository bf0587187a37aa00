// Operators of com.microsoft on quantised numbers.
#include <algorithm>
#include <optional>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/quantization.hpp"
#include "onnx/text.hpp"
#include "onnx/unpacked_bits.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// The numbers of integers at operand `first`, with their scale and zero point behind them.
Result<Tensor> real_operand(const NodeContext& node, int first) {
  if (!node.has(first) || !node.has(first + 1))
    return invalid("Operand {} of operator '{}' or its scale is left out.", first, node.row().name);
  VKF_TRY(steps, steps_above_zero(node, first, first + 2, -1));
  VKF_TRY(scale, quantisation_operand(node, first + 1, node.tensor(first).shape(), -1));
  return steps.cast(DType::f32) * scale.cast(DType::f32);
}

/// Numbers in the steps of the scale at operand `scale`, about the zero point behind it.
Result<Tensor> requantised(const NodeContext& node, const Tensor& x, int scale) {
  const int zero_point = scale + 1;
  if (!node.has(scale)) return invalid("Operand {} of operator '{}' is left out.", scale, node.row().name);
  const DType dtype = node.has(zero_point) ? node.dtype(zero_point) : node.dtype(0);
  if (!is_integer(dtype) || size_of(dtype) > 2)
    return unsupported("Quantisation to {} is not supported.", name_of(dtype));
  if (!x.valid()) return x;
  VKF_TRY(size, quantisation_operand(node, scale, x.shape(), -1));
  Tensor steps = whole_steps(x / size.cast(DType::f32));
  if (node.has(zero_point)) {
    VKF_TRY(zero, quantisation_operand(node, zero_point, x.shape(), -1));
    steps = steps + zero.cast(DType::i32);
  }
  return saturated(steps, dtype);
}

Result<Outputs> one_requantised(const NodeContext& node, const Tensor& x, int scale) {
  VKF_TRY(result, requantised(node, x, scale));
  return Outputs{result};
}

/// A product of integer matrices as numbers: [m, n] in i32, the factor of a step, and a bias in numbers.
Result<Outputs> as_floats(const NodeContext& node, const Tensor& product, const Tensor& factor, int bias) {
  const Tensor result = product.cast(DType::f32) * factor;
  return Outputs{node.has(bias) ? result + node.tensor(bias) : result};
}

/// Operands and attributes of GatherBlockQuantized.
struct Blocks {
  std::int64_t bits = 4, size = 128;
  int axis = 0;            ///< gathered along
  bool is_packed = false;  ///< several integers in a byte
};

Result<Blocks> blocks_of(const NodeContext& node) {
  VKF_TRY(bits, node.attributes().integer("bits", 4));
  VKF_TRY(size, node.attributes().integer("block_size", 128));
  VKF_TRY(stated, node.attributes().integer("gather_axis", 0));
  VKF_TRY(quantised, node.attributes().integer("quantize_axis", 1));
  const std::size_t rank = node.tensor(0).shape().size();
  VKF_TRY(axis, checked_axis(stated, rank, "Attribute 'gather_axis'"));
  VKF_TRY(blocked, checked_axis(quantised, rank, "Attribute 'quantize_axis'"));
  const bool is_packed = node.value(0).narrow == nullptr && bits != 8;
  if (bits != 2 && bits != 4 && bits != 8) return unsupported("Integers of {} bits are not supported.", bits);
  if (axis + 1 == static_cast<int>(rank) || blocked + 1 != static_cast<int>(rank) || size < 1) {
    return unsupported(
        "Operator 'GatherBlockQuantized' is supported with blocks along the last axis, which is not gathered along; "
        "gather_axis is {}, quantize_axis {}, block_size {}.",
        stated, quantised, size);
  }
  return Blocks{bits, size, axis, is_packed};
}

/// One number per block at `operand`, as many axes as the data have, gathered: [..., blocks].
Result<Tensor> gathered_blocks(const NodeContext& node, int operand, const Tensor& at, int axis) {
  const Tensor& numbers = node.tensor(operand);
  const std::size_t rank = node.tensor(0).shape().size();
  if (numbers.shape().size() != rank) {
    return invalid("Operand {} of operator 'GatherBlockQuantized' has rank {}; the data have rank {}.", operand,
                   numbers.shape().size(), rank);
  }
  VKF_TRY(blocks, static_size(numbers.shape(), rank - 1));
  static_cast<void>(blocks);
  return numbers.gather(at, axis);
}

/// The same for each element of a block, [..., elements].
Tensor for_elements(const Tensor& x, std::int64_t block, std::int64_t elements) {
  if (!x.valid()) return x;
  Shape stretched = x.shape(), joined = x.shape();
  stretched.push_back(Dim(block));
  joined.back() = Dim(joined.back().size() * block);
  return x.unsqueeze(static_cast<int>(x.shape().size())).broadcast_to(stretched).reshape(joined).slice(-1, 0, elements);
}

}  // namespace

Result<Outputs> import_qlinear_binary(const NodeContext& node) {
  VKF_TRY(a, real_operand(node, 0));
  VKF_TRY(b, real_operand(node, 3));
  return one_requantised(node, op(node.row().primitive, a, b), 6);
}

Result<Outputs> import_qlinear_unary(const NodeContext& node) {
  VKF_TRY(x, real_operand(node, 0));
  return one_requantised(node, op(node.row().primitive, x), 3);
}

Result<Outputs> import_qlinear_leaky_relu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 0.01));
  VKF_TRY(x, real_operand(node, 0));
  return one_requantised(node, select(op("lt", x, 0), x * alpha, x), 3);
}

Result<Outputs> import_qlinear_softmax(const NodeContext& node) {
  VKF_TRY(axis, axis_attribute(node, -1));
  VKF_TRY(opset, node.attributes().integer("opset", 13));
  if (opset < 13 && axis + 1 != static_cast<int>(node.tensor(0).shape().size()))
    return unsupported("Attribute 'opset' of operator 'QLinearSoftmax' is {}; it is supported from 13 on.", opset);
  VKF_TRY(x, real_operand(node, 0));
  return one_requantised(node, softmax(x, axis), 3);
}

Result<Outputs> import_qlinear_global_average_pool(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  VKF_TRY(channels_last, node.attributes().integer("channels_last", 0));
  VKF_TRY(x, real_operand(node, 0));
  std::vector<int> axes;
  const int rank = static_cast<int>(x.shape().size()), first = channels_last != 0 ? 1 : 2;
  for (int axis = first; axis < rank - (channels_last != 0 ? 1 : 0); ++axis) axes.push_back(axis);
  return one_requantised(node, x.mean(axes, true), 3);
}

Result<Outputs> import_qlinear_concat(const NodeContext& node) {
  if (!node.attributes().has("axis")) return invalid("Attribute 'axis' is missing.");
  if (node.inputs() < 5 || node.inputs() % 3 != 2) {
    return invalid(
        "Operator 'QLinearConcat' has {} operands; it takes a scale, a zero point and three for each tensor.",
        node.inputs());
  }
  VKF_TRY(stated, node.attributes().integer("axis", 0));
  VKF_TRY(axis, checked_axis(stated, node.tensor(2).shape().size(), "Attribute 'axis'"));
  std::vector<Tensor> parts;
  for (int first = 2; first < node.inputs(); first += 3) {
    VKF_TRY(part, real_operand(node, first));
    parts.push_back(part);
  }
  return one_requantised(node, parts.size() == 1 ? parts[0] : concat(parts, axis), 0);
}

Result<Outputs> import_qgemm(const NodeContext& node) {
  enum Operand { kA, kScaleA, kZeroA, kB, kScaleB, kZeroB, kBias, kScale };
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  VKF_TRY(transposes_a, node.attributes().integer("transA", 0));
  VKF_TRY(transposes_b, node.attributes().integer("transB", 0));
  for (const int operand : {kA, kB}) {
    if (!node.has(operand) || node.tensor(operand).shape().size() != 2)
      return invalid("Operand {} of operator 'QGemm' must be a matrix.", operand);
  }
  VKF_TRY(a, steps_above_zero(node, kA, kZeroA, transposes_a != 0 ? 1 : 0));
  VKF_TRY(b, steps_above_zero(node, kB, kZeroB, transposes_b != 0 ? 0 : 1));
  const DotAxes axes{.contract_a = {transposes_a != 0 ? 0 : 1}, .contract_b = {transposes_b != 0 ? 1 : 0}};
  Tensor sum = dot_general(a, b, axes);
  if (!sum.valid()) return Outputs{sum};
  if (node.has(kBias)) sum = sum + node.tensor(kBias);
  VKF_TRY(scale_a, quantisation_operand(node, kScaleA, sum.shape(), 0));
  VKF_TRY(scale_b, quantisation_operand(node, kScaleB, sum.shape(), 1));
  const Tensor result = sum.cast(DType::f32) * (scale_a.cast(DType::f32) * scale_b.cast(DType::f32) * alpha);
  return node.has(kScale) ? one_requantised(node, result, kScale) : Result<Outputs>(Outputs{result});
}

Result<Outputs> import_dynamic_quantize_matmul(const NodeContext& node) {
  enum Operand { kA, kB, kScaleB, kZeroB, kBias };
  const DynamicSteps a = dynamic_steps(node.tensor(kA));
  VKF_TRY(b, steps_above_zero(node, kB, kZeroB, -1));
  const Tensor product = matmul(a.integers.cast(DType::i32) - a.zero_point.cast(DType::i32), b);
  if (!product.valid()) return Outputs{product};
  VKF_TRY(scale, quantisation_operand(node, kScaleB, product.shape(), -1));
  return as_floats(node, product, a.scale * scale, kBias);
}

Result<Outputs> import_matmul_integer_to_float(const NodeContext& node) {
  enum Operand { kA, kB, kScaleA, kScaleB, kZeroA, kZeroB, kBias };
  VKF_TRY(a, steps_above_zero(node, kA, kZeroA, -2));
  VKF_TRY(b, steps_above_zero(node, kB, kZeroB, -1));
  const Tensor product = matmul(a, b);
  if (!product.valid()) return Outputs{product};
  VKF_TRY(scale_a, quantisation_operand(node, kScaleA, product.shape(), -2));
  VKF_TRY(scale_b, quantisation_operand(node, kScaleB, product.shape(), -1));
  return as_floats(node, product, scale_a.cast(DType::f32) * scale_b.cast(DType::f32), kBias);
}

Result<Outputs> import_nhwc_max_pool(const NodeContext& node) {
  const int rank = static_cast<int>(node.tensor(0).shape().size());
  VKF_CHECK_OK(check_rank(node, 0, 3));
  std::vector<int> inward{0, rank - 1}, outward{0};
  for (int axis = 1; axis + 1 < rank; ++axis) inward.push_back(axis);
  for (int axis = 2; axis < rank; ++axis) outward.push_back(axis);
  outward.push_back(1);
  const Value moved = node.tensor(0).permute(inward);
  VKF_TRY(pooled, import_max_pool(NodeContext(node.row(), node.opset(), 1, node.attributes(), {&moved})));
  return Outputs{pooled[0].tensor.permute(outward)};
}

Result<Outputs> import_gather_block_quantized(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  VKF_TRY(blocks, blocks_of(node));
  const Tensor& data = node.tensor(0);
  const std::size_t rank = data.shape().size();
  VKF_TRY(stored, static_size(data.shape(), rank - 1));
  VKF_TRY(rows, static_size(data.shape(), static_cast<std::size_t>(blocks.axis)));
  VKF_TRY(at, positions(node.value(1), rows));
  const std::int64_t each = blocks.is_packed ? 8 / blocks.bits : 1, elements = stored * each;
  const auto unpacked = [&](const Tensor& bytes) {
    return blocks.is_packed ? unpacked_bits(bytes, blocks.bits) : bytes;
  };
  VKF_TRY(scales, gathered_blocks(node, 2, at, blocks.axis));
  const Tensor scale = for_elements(scales, blocks.size, elements);
  Tensor steps = unpacked(data.gather(at, blocks.axis)).cast(DType::i32);
  if (node.has(3)) {
    const std::int64_t count = (elements + blocks.size - 1) / blocks.size;
    VKF_TRY(stored_zero, gathered_blocks(node, 3, at, blocks.axis));
    const Tensor zero = unpacked(stored_zero).slice(-1, 0, count);
    steps = steps - for_elements(zero.cast(DType::i32), blocks.size, elements);
  } else if (node.value(0).narrow == nullptr) {
    steps = steps - static_cast<double>(std::int64_t{1} << (blocks.bits - 1));
  }
  return Outputs{steps.cast(scale.dtype()) * scale};
}

Result<Outputs> import_dynamic_quantize_lstm(const NodeContext& node) {
  enum Operand { kWeights = 1, kRecurrence = 2, kScaleW = 8, kZeroW, kScaleR, kZeroR };
  const auto numbers = [&](int integers, int scale) -> Result<Tensor> {
    const Tensor& stored = node.tensor(integers);
    const bool has_scale = node.has(scale) && !node.tensor(scale).shape().empty();
    const bool has_point = node.has(scale + 1) && !node.tensor(scale + 1).shape().empty();
    if (!has_scale || has_point != node.has(scale + 1) || stored.shape().size() != 3) {
      return invalid("Operand {} of operator 'DynamicQuantizeLSTM' has no scale for each direction, or not rank 3.",
                     integers);
    }
    const auto by_direction = [&](const Tensor& x) {  // one number, or one for each column, per direction
      return x.reshape({x.shape()[0], 1, x.shape().size() > 1 ? x.shape()[1] : Dim(1)});
    };
    Tensor steps = stored.cast(DType::i32);
    if (has_point) steps = steps - by_direction(node.tensor(scale + 1)).cast(DType::i32);
    return (steps.cast(DType::f32) * by_direction(node.tensor(scale))).permute({0, 2, 1});
  };
  VKF_TRY(weights, numbers(kWeights, kScaleW));
  VKF_TRY(recurrence, numbers(kRecurrence, kScaleR));
  const Value w = weights, r = recurrence;
  std::vector<const Value*> operands;
  for (int i = 0; i < node.inputs(); ++i) operands.push_back(node.has(i) ? &node.value(i) : nullptr);
  operands[kWeights] = &w;
  operands[kRecurrence] = &r;
  return import_lstm_that_rounds(
      NodeContext(node.row(), node.opset(), node.outputs(), node.attributes(), std::move(operands)));
}

}  // namespace vkfuse::onnx

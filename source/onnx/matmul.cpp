// Matrix products of floats and of quantised integers.
#include <cmath>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/quantization.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// A factor of Gemm; of integers it must be one.
Result<Tensor> multiplied(const Tensor& x, double factor, std::string_view attribute) {
  if (factor == 1) return x;
  if (is_float(x.dtype()) || factor == std::trunc(factor)) return x * factor;
  return unsupported("Attribute '{}' is {}; on {} it must be a whole number.", attribute, factor, name_of(x.dtype()));
}

/// The scale or zero point of one side of a product of matrices: one number, one per row (column) as a vector, or a
/// tensor that broadcasts as it is.
Result<Tensor> side_operand(const NodeContext& node, int operand, int matrix, std::int64_t axis) {
  const Tensor& numbers = node.tensor(operand);
  if (numbers.shape().size() > 1) return numbers;
  return quantisation_operand(node, operand, node.tensor(matrix).shape(), axis);
}

/// A matrix less its zero point, in i32.
Result<Tensor> side_of(const NodeContext& node, int matrix, int zero_point, std::int64_t axis) {
  if (!node.has(zero_point) || node.tensor(zero_point).shape().size() <= 1)
    return steps_above_zero(node, matrix, zero_point, axis);
  VKF_TRY(wide, steps_above_zero(node, matrix, node.inputs(), axis));
  return wide - node.tensor(zero_point).cast(DType::i32);
}

/// Rows of the left matrix; a vector has none, and one number serves it.
constexpr std::int64_t kRows = -2, kColumns = -1;

}  // namespace

Result<Outputs> import_matmul(const NodeContext& node) { return Outputs{matmul(node.tensor(0), node.tensor(1))}; }

Result<Outputs> import_gemm(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  VKF_TRY(beta, node.attributes().real("beta", 1));
  VKF_TRY(transposes_a, node.attributes().integer("transA", 0));
  VKF_TRY(transposes_b, node.attributes().integer("transB", 0));
  for (const int operand : {0, 1}) {
    if (node.tensor(operand).shape().size() == 2) continue;
    return invalid("Operand {} of operator 'Gemm' is {}; it must be a matrix.", operand,
                   to_text(node.tensor(operand).shape()));
  }
  const DotAxes axes{.contract_a = {transposes_a != 0 ? 0 : 1}, .contract_b = {transposes_b != 0 ? 1 : 0}};
  const Tensor product = dot_general(node.tensor(0), node.tensor(1), axes);
  VKF_TRY(scaled, multiplied(product, alpha, "alpha"));
  if (!node.has(2)) return Outputs{scaled};
  VKF_TRY(addend, multiplied(node.tensor(2), beta, "beta"));
  return Outputs{scaled + addend};
}

Result<Outputs> import_matmul_integer(const NodeContext& node) {
  VKF_TRY(a, side_of(node, 0, 2, kRows));
  VKF_TRY(b, side_of(node, 1, 3, kColumns));
  return Outputs{matmul(a, b)};
}

Result<Outputs> import_qlinear_matmul(const NodeContext& node) {
  VKF_TRY(a, side_of(node, 0, 2, kRows));
  VKF_TRY(b, side_of(node, 3, 5, kColumns));
  VKF_TRY(scale_a, side_operand(node, 1, 0, kRows));
  VKF_TRY(scale_b, side_operand(node, 4, 3, kColumns));
  const DType dtype = node.dtype(7);
  if (!is_integer(dtype) || size_of(dtype) > 2)
    return unsupported("Quantisation to {} is not supported.", name_of(dtype));
  const Tensor product = matmul(a, b);
  VKF_TRY(scale, quantisation_operand(node, 6, product.shape(), kRows));
  VKF_TRY(zero_point, quantisation_operand(node, 7, product.shape(), kRows));
  const Tensor factor = scale_a.cast(DType::f32) * scale_b.cast(DType::f32) / scale.cast(DType::f32);
  return Outputs{saturated(whole_steps(product.cast(DType::f32) * factor) + zero_point.cast(DType::i32), dtype)};
}

}  // namespace vkfuse::onnx

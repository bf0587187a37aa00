// Determinants, by elimination with the largest pivot of each column.
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

/// Every column becomes nodes of its own.
constexpr std::int64_t kMostColumns = 64;

/// What one column of [..., n, n] does to the determinant, and the matrix of n - 1 that is left.
struct Eliminated {
  Tensor factor, rest;
};

Eliminated eliminated(const Tensor& matrix, std::int64_t size) {
  const int rank = static_cast<int>(matrix.shape().size());
  const int rows = rank - 2, columns = rank - 1;
  const Tensor column = matrix.slice(columns, 0, 1);
  const Tensor at = op("abs", column).argmax(rows, true);  // [..., 1, 1]
  const Tensor pivots = matrix.take_along(at, rows);       // [..., 1, n]
  // The first row stands where the pivot's was.
  Shape ramp(matrix.shape().size(), Dim(1));
  ramp[static_cast<std::size_t>(rows)] = size;
  const Tensor is_pivot = op("eq", Tensor::iota(DType::i32, ramp, rows), at);
  const Tensor others = select(is_pivot, matrix.slice(rows, 0, 1), matrix).slice(rows, 1, size);
  const Tensor pivot = pivots.slice(columns, 0, 1);
  const Tensor none = Tensor::scalar(matrix.dtype(), 0);
  const Tensor share = select(op("eq", pivot, 0), none, others.slice(columns, 0, 1) / pivot);
  const Tensor rest = others.slice(columns, 1, size) - share * pivots.slice(columns, 1, size);
  return {select(op("eq", at, 0), pivot, -pivot), rest};
}

}  // namespace

Result<Outputs> import_det(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(size, static_size(shape, shape.size() - 1));
  VKF_TRY(rows, static_size(shape, shape.size() - 2));
  if (rows != size) return invalid("Operator 'Det' takes square matrices; the input is {}.", to_text(shape));
  if (size < 1 || size > kMostColumns)
    return unsupported("Determinants of {} columns are not supported; there may be 1 to {}.", size, kMostColumns);
  Tensor rest = node.tensor(0);
  if (size_of(rest.dtype()) == 2) rest = rest.cast(DType::f32);
  Tensor product = rest;
  for (std::int64_t left = size; left > 1; --left) {
    const auto [factor, smaller] = eliminated(rest, left);
    product = left == size ? factor : product * factor;
    rest = smaller;
  }
  product = size == 1 ? rest : product * rest;
  return Outputs{product.squeeze(-1).squeeze(-1).cast(node.dtype())};
}

}  // namespace vkfuse::onnx

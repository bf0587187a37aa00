// Softmax and its kin. Before opset 13 they see the input as a matrix: axis and what follows are one row.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

/// 1 at the first largest element of each row, else 0.
Tensor hardmax(const Tensor& x, int axis) {
  if (!x.valid()) return x;
  Shape ramp(x.shape().size(), Dim(1));
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(ramp.size()) : axis);
  ramp[at] = x.shape()[at];
  if (ramp[at] == Dim(0)) return x;
  return op("eq", Tensor::iota(DType::i32, ramp, static_cast<int>(at)), x.argmax(axis, true)).cast(x.dtype());
}

template <typename Function>
Result<Outputs> over_rows(const NodeContext& node, Function function) {
  const Tensor& x = node.tensor(0);
  const Shape& shape = x.shape();
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, node.opset() < 13 ? 1 : -1));
  const auto at = static_cast<std::size_t>(axis);
  if (node.opset() >= 13 || at + 1 == shape.size()) return Outputs{function(x, axis)};
  VKF_TRY(row, static_count(shape, at, shape.size()));
  if (row == 0) return Outputs{x};
  return Outputs{function(x.reshape({merged(shape, 0, at), row}), -1).reshape(shape)};
}

}  // namespace

Result<Outputs> import_softmax(const NodeContext& node) {
  return over_rows(node, [](const Tensor& x, int axis) { return softmax(x, axis); });
}

Result<Outputs> import_log_softmax(const NodeContext& node) {
  return over_rows(node, [](const Tensor& x, int axis) { return log_softmax(x, axis); });
}

Result<Outputs> import_hardmax(const NodeContext& node) { return over_rows(node, hardmax); }

}  // namespace vkfuse::onnx

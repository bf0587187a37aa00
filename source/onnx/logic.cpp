// Tests and choices. Comparisons and boolean operators are primitives: see the table.
#include "onnx/compose.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {

Result<Outputs> import_is_inf(const NodeContext& node) {
  VKF_TRY(positive, node.attributes().integer("detect_positive", 1));
  VKF_TRY(negative, node.attributes().integer("detect_negative", 1));
  const Tensor& x = node.tensor(0);
  const Tensor infinite = op("is_inf", x);
  if (positive != 0 && negative != 0) return Outputs{infinite};
  if (positive != 0) return Outputs{op("and", infinite, op("gt", x, 0))};
  if (negative != 0) return Outputs{op("and", infinite, op("lt", x, 0))};
  return Outputs{filled(x.shape(), Tensor::scalar(DType::boolean, 0))};
}

Result<Outputs> import_where(const NodeContext& node) {
  return Outputs{select(node.tensor(0), node.tensor(1), node.tensor(2))};
}

}  // namespace vkfuse::onnx

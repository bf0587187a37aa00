// Changes of dtype.
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {

Result<Outputs> import_cast(const NodeContext& node) {
  if (!node.attributes().has("to")) return invalid("Attribute 'to' is missing.");
  VKF_TRY(to, node.attributes().integer("to", 0));
  VKF_TRY(dtype, dtype_from(static_cast<int>(to), "Attribute 'to'"));
  return Outputs{node.tensor(0).cast(dtype)};
}

Result<Outputs> import_cast_like(const NodeContext& node) { return Outputs{node.tensor(0).cast(node.dtype(1))}; }

}  // namespace vkfuse::onnx

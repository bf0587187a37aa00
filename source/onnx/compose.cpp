#include "onnx/compose.hpp"

namespace vkfuse::onnx {

Tensor everywhere(const Shape& shape) {
  if (shape.empty()) return Tensor::scalar(DType::boolean, 1);
  return op("ge", Tensor::iota(DType::i32, shape, 0), 0);
}

Tensor filled(const Shape& shape, const Tensor& scalar) { return select(everywhere(shape), scalar, scalar); }

}  // namespace vkfuse::onnx

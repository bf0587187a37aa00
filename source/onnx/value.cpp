#include "onnx/value.hpp"

#include "onnx/host_tensor.hpp"

namespace vkfuse::onnx {

Value constant_value(TensorData data) {
  Tensor tensor = Tensor::constant(data.dtype, Shape(data.sizes.begin(), data.sizes.end()), data.bytes);
  if (element_count(data) > kMaxKnownElements) return tensor;
  return {std::move(tensor), std::move(data)};
}

}  // namespace vkfuse::onnx

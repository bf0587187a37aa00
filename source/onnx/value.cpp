#include "onnx/value.hpp"

#include "base/error.hpp"
#include "onnx/host_tensor.hpp"

namespace vkfuse::onnx {

Value none_value() {
  Value value(Tensor::failed(invalid("An optional without an element is used as a tensor.")));
  value.is_none = true;
  return value;
}

Value pending_value() {
  Value value(Tensor::failed(make_error(ErrorCode::internal, "A value that waits for the host is used as a tensor.")));
  value.pending = true;
  return value;
}

Value constant_value(TensorData data) {
  Tensor tensor = Tensor::constant(data.dtype, Shape(data.sizes.begin(), data.sizes.end()), data.bytes);
  if (element_count(data) > kMaxKnownElements) return tensor;
  return {std::move(tensor), std::move(data)};
}

bool varies(const Value& value) {
  if (value.sequence) return std::ranges::any_of(*value.sequence, varies);
  return value.part != kFixed && !value.known;
}

}  // namespace vkfuse::onnx

// Window functions: sums of cosines over a ramp.
#include <numbers>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {
namespace {

/// w(n) = constant - first cos(2 pi n / N) + second cos(4 pi n / N)
struct Cosines {
  double constant, first, second;
};

Result<std::int64_t> window_size(const NodeContext& node) {
  VKF_TRY(data, node.known(0, "window size"));
  if (element_count(data) != 1)
    return invalid("The window size has {} elements; it must be a scalar.", element_count(data));
  const std::int64_t size = element_int(data, 0);
  constexpr std::int64_t kExactInFloat = 1 << 24;
  if (size < 0 || size > kExactInFloat)
    return invalid("The window size is {}; it must be 0 to {}.", size, kExactInFloat);
  return size;
}

Result<Outputs> import_window(const NodeContext& node, const Cosines& window) {
  VKF_TRY(size, window_size(node));
  VKF_TRY(periodic, node.attributes().integer("periodic", 1));
  VKF_TRY(stated, node.attributes().integer("output_datatype", pb::TensorProto::FLOAT));
  VKF_TRY(dtype, dtype_from(static_cast<int>(stated), "Attribute 'output_datatype'"));
  const std::int64_t period = periodic != 0 ? size : size - 1;
  // In f32 whatever the result's dtype: a ramp in f16 is not exact beyond 2048. A window of one
  // element has no period; its only position is 0, so that any will do.
  const double step = 2 * std::numbers::pi / static_cast<double>(period == 0 ? 1 : period);
  const Tensor angle = Tensor::iota(DType::f32, {size}, 0) * step;
  Tensor result = window.constant - op("cos", angle) * window.first;
  if (window.second != 0) result = result + op("cos", angle * 2.0) * window.second;
  return Outputs{result.cast(dtype)};
}

}  // namespace

Result<Outputs> import_blackman_window(const NodeContext& node) { return import_window(node, {0.42, 0.5, 0.08}); }

Result<Outputs> import_hamming_window(const NodeContext& node) {
  return import_window(node, {25.0 / 46, 21.0 / 46, 0});
}

Result<Outputs> import_hann_window(const NodeContext& node) { return import_window(node, {0.5, 0.5, 0}); }

}  // namespace vkfuse::onnx

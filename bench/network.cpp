#include "network.hpp"

#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

Tensor Network::learnt(const std::string& name, Shape shape) {
  return Tensor::input(name + std::to_string(count_++), dtype_, std::move(shape));
}

Tensor Network::op(Tensor result) {
  stored_.push_back(result);
  return result;
}

Tensor Network::linear(const Tensor& x, std::int64_t features, bool bias) {
  const Tensor product = matmul(x, learnt("weight", {x.shape().back(), features}));
  return op(bias ? product + learnt("bias", {features}) : product);
}

Tensor Network::layer_norm(const Tensor& x) {
  const Dim width = x.shape().back();
  return op(normalize(x, {-1}, 1e-5) * learnt("scale", {width}) + learnt("bias", {width}));
}

Tensor Network::rms_norm(const Tensor& x) {
  const Tensor normal = rms_normalize(x.cast(DType::f32), {-1}, 1e-6).cast(dtype_);
  return op(normal * learnt("scale", {x.shape().back()}));
}

Tensor Network::conv(const Tensor& x, const Convolution& how) {
  const std::int64_t channels = x.shape()[1].size();
  const std::int64_t low = how.taps / 2, high = (how.taps - 1) / 2;
  const Tensor w = learnt("weight", {how.features, how.depthwise ? 1 : channels, how.taps, how.taps});
  const Tensor sum = vkfuse::conv(x, w,
                                  {.strides = {how.stride, how.stride},
                                   .low = {low, low},
                                   .high = {high, high},
                                   .groups = how.depthwise ? channels : 1});
  return op(sum + learnt("bias", {how.features, 1, 1}));
}

Tensor Network::group_norm(const Tensor& x, std::int64_t groups) {
  const std::int64_t channels = x.shape()[1].size();
  const Tensor normal = normalize(x.reshape({x.shape()[0], groups, -1}), {2}, 1e-5).reshape(x.shape());
  return op(normal * learnt("scale", {channels, 1, 1}) + learnt("bias", {channels, 1, 1}));
}

Tensor Network::gelu_erf(const Tensor& x) { return op(0.5 * x * (1.0 + erf(x * 0.7071067812))); }
Tensor Network::silu(const Tensor& x) { return op(vkfuse::silu(x)); }
Tensor Network::relu(const Tensor& x) { return op(vkfuse::relu(x)); }

}  // namespace vkfuse::bench

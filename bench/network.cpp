#include "network.hpp"

#include "vkfuse/composites.hpp"
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
  const Tensor w = learnt("weight", {x.shape().back(), features});
  return op(bias ? vkfuse::linear(x, w, learnt("bias", {features})) : vkfuse::linear(x, w));
}

Tensor Network::layer_norm(const Tensor& x) {
  const Dim width = x.shape().back();
  const Tensor scale = learnt("scale", {width}), bias = learnt("bias", {width});
  return op(vkfuse::layer_norm(x, -1, {.scale = scale, .bias = bias, .statistics = dtype_}));
}

Tensor Network::rms_norm(const Tensor& x) {
  return op(vkfuse::rms_norm(x, -1, {.epsilon = 1e-6, .scale = learnt("scale", {x.shape().back()})}));
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
  const Tensor scale = learnt("scale", {channels}), bias = learnt("bias", {channels});
  return op(vkfuse::group_norm(x, groups, {.scale = scale, .bias = bias, .statistics = dtype_}));
}

Tensor Network::gelu_erf(const Tensor& x) { return op(gelu(x)); }
Tensor Network::silu(const Tensor& x) { return op(vkfuse::silu(x)); }
Tensor Network::relu(const Tensor& x) { return op(vkfuse::relu(x)); }

}  // namespace vkfuse::bench

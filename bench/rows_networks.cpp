// Blocks of convolutional networks. Shapes are [batch, channels, height, width].
#include <numeric>

#include "network.hpp"
#include "row_groups.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

/// ConvNeXt: depthwise 7x7, a norm over channels, two products with GELU between them, a scale, and the sum.
Built convnext(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size();
  const Tensor x = network.input("x", shape);
  const Tensor around = network.conv(x, {.features = channels, .taps = 7, .depthwise = true});
  const Tensor normal = network.layer_norm(around.permute({0, 2, 3, 1}));
  const Tensor wide = network.gelu_erf(network.linear(normal, 4 * channels));
  const Tensor scaled = network.op(network.linear(wide, channels) * network.learnt("scale", {channels}));
  return network.built({network.add(x, scaled.permute({0, 3, 1, 2}))});
}

/// A gate for each channel, from the mean over its image.
Tensor squeeze_excite(Network& network, const Tensor& x, std::int64_t squeezed) {
  const Tensor mean = network.op(x.mean({2, 3}, true));
  const Tensor small = network.silu(network.conv(mean, {.features = squeezed}));
  const Tensor gate = network.op(sigmoid(network.conv(small, {.features = x.shape()[1].size()})));
  return network.op(x * gate);
}

/// EfficientNet: to six times the channels, depthwise 5x5, squeeze and excite, and back. Norms are part of the weights.
Built mbconv(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size(), wide = 6 * channels;
  const Tensor x = network.input("x", shape);
  const Tensor expanded = network.silu(network.conv(x, {.features = wide}));
  const Tensor around = network.silu(network.conv(expanded, {.features = wide, .taps = 5, .depthwise = true}));
  const Tensor gated = squeeze_excite(network, around, std::max<std::int64_t>(1, channels / 4));
  return network.built({network.add(x, network.conv(gated, {.features = channels}))});
}

/// MobileNet: the same with ReLU6, 3x3 and no gate.
Built inverted_residual(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size(), wide = 6 * channels;
  const auto relu6 = [&](const Tensor& x) {
    return network.op(clamp(x, Tensor::scalar(dtype, 0), Tensor::scalar(dtype, 6)));
  };
  const Tensor x = network.input("x", shape);
  const Tensor expanded = relu6(network.conv(x, {.features = wide}));
  const Tensor around = relu6(network.conv(expanded, {.features = wide, .taps = 3, .depthwise = true}));
  return network.built({network.add(x, network.conv(around, {.features = channels}))});
}

/// ResNet: 1x1 to a quarter of the channels, 3x3, 1x1 back, the sum, ReLU.
Built bottleneck(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size(), inside = std::max<std::int64_t>(1, channels / 4);
  const Tensor x = network.input("x", shape);
  const Tensor first = network.relu(network.conv(x, {.features = inside}));
  const Tensor second = network.relu(network.conv(first, {.features = inside, .taps = 3}));
  return network.built({network.relu(network.add(x, network.conv(second, {.features = channels})))});
}

/// Two times norm, SiLU and 3x3, and what went in added, by a 1x1 where the channels are others.
Tensor residual_block(Network& network, const Tensor& x, std::int64_t features) {
  const auto half = [&](const Tensor& y) {
    const std::int64_t groups = std::gcd<std::int64_t>(32, y.shape()[1].size());
    return network.conv(network.silu(network.group_norm(y, groups)), {.features = features, .taps = 3});
  };
  const Tensor changed = half(half(x));
  return network.add(features == x.shape()[1].size() ? x : network.conv(x, {.features = features}), changed);
}

/// A UNet on its way down: a residual block and a 3x3 of step 2.
Built unet_down(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size();
  const Tensor kept = residual_block(network, network.input("x", shape), channels);
  return network.built({kept, network.conv(kept, {.features = channels, .taps = 3, .stride = 2})});
}

/// And up: every element four times, a 3x3, and a residual block over it and what was kept on the way down.
Built unet_up(DType dtype, const Shape& shape) {
  Network network(dtype);
  const std::int64_t channels = shape[1].size(), height = shape[2].size(), width = shape[3].size();
  const Tensor x = network.input("x", shape);
  const Tensor larger = network.op(x.reshape({shape[0], channels, height, 1, width, 1})
                                       .broadcast_to({shape[0], channels, height, 2, width, 2})
                                       .reshape({shape[0], channels, 2 * height, 2 * width}));
  const Tensor smooth = network.conv(larger, {.features = channels, .taps = 3});
  const Tensor kept = network.input("kept", {shape[0], channels, 2 * height, 2 * width});
  return network.built({residual_block(network, network.op(concat({smooth, kept}, 1)), channels)});
}

}  // namespace

std::vector<Row> network_rows() {
  struct Form {
    const char* name;
    Built (*build)(DType, const Shape&);
    std::vector<std::int64_t> full;
    bool named = false;
    DType dtype = DType::f16;
  };
  const Form forms[] = {{"convnext f16", convnext, {32, 512, 14, 14}},
                        {"convnext bf16", convnext, {32, 512, 14, 14}, true, DType::bf16},
                        {"mbconv f16", mbconv, {16, 56, 48, 48}},
                        {"inverted residual f16", inverted_residual, {32, 32, 28, 28}, true},
                        {"bottleneck f16", bottleneck, {32, 256, 56, 56}},
                        {"bottleneck bf16", bottleneck, {32, 256, 56, 56}, true, DType::bf16},
                        {"unet down f16", unet_down, {2, 320, 64, 64}},
                        {"unet up f16", unet_up, {2, 320, 32, 32}, true}};
  std::vector<Row> all;
  for (const Form& form : forms) {
    all.push_back({form.name,
                   "models",
                   form.dtype,
                   form.full,
                   form.build,
                   {.divide = {0, 1, 2}, .named = form.named, .small = "weight", .model = true}});
  }
  return all;
}

}  // namespace vkfuse::bench

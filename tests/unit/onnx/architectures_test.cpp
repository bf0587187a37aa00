// Networks as exporters write them, in small: they import, take few kernels, and compute what the reference does.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare_model.hpp"
#include "support/random.hpp"
#include "unit/onnx/net.hpp"
#include "unit/store/fixture.hpp"

namespace vkfuse::onnx {
namespace {

struct Architecture {
  const char* name;
  std::function<void(Net&)> write;
  int recurrent_products = 0;
};

void PrintTo(const Architecture& one, std::ostream* out) { *out << one.name; }

/// [batch, length, width] as [batch, heads, length, size].
std::string heads_of(Net& net, const std::string& x, std::int64_t length = 0, std::int64_t heads = 0) {
  return net.transpose(
      net.reshape(x, {net.batch, length == 0 ? net.length : length, heads == 0 ? net.heads : heads, net.size()}),
      {0, 2, 1, 3});
}

/// softmax(q k^T scale + bias) v, back as [batch, length, width].
std::string attend(Net& net, const std::string& q, const std::string& k, const std::string& v, const std::string& bias,
                   std::int64_t length = 0) {
  if (length == 0) length = net.length;
  const std::string scores = net.node("Mul", {net.node("MatMul", {q, net.transpose(k, {0, 1, 3, 2})}),
                                              net.number(1 / std::sqrt(static_cast<double>(net.size())))});
  const std::string weights =
      net.node("Softmax", {bias.empty() ? scores : net.node("Add", {scores, bias})}, {{"axis", -1}});
  return net.reshape(net.transpose(net.node("MatMul", {weights, v}), {0, 2, 1, 3}), {net.batch, length, net.width});
}

/// -inf, or nearly, for keys behind the query.
std::string causal_mask(Net& net, std::int64_t length, float low = -std::numeric_limits<float>::infinity()) {
  return net.numbers({1, 1, length, length}, [&](std::int64_t i) { return i % length > i / length ? low : 0.0F; });
}

/// Embeddings, a mask of what is padding, norms behind the residuals.
void write_bert(Net& net) {
  const std::string ids = net.input("ids", {net.batch, net.length}, pb::TensorProto::INT64);
  const std::string seen = net.input("seen", {net.batch, net.length}, pb::TensorProto::INT64);
  const std::string words = net.node("Gather", {net.weight({50, net.width}, 1), ids});
  std::string x = net.layer_norm(net.node("Add", {words, net.weight({net.length, net.width}, 1)}), net.width);
  const std::string flags =
      net.node("Cast", {net.node("Unsqueeze", {seen, net.ints({1, 2})})}, {{"to", pb::TensorProto::BOOL}});
  const std::string mask = net.node("Where", {flags, net.number(0), net.number(-3.4e38)});
  for (int layer = 0; layer < 2; ++layer) {
    std::string q = heads_of(net, net.linear(x, net.width, net.width));
    std::string k = heads_of(net, net.linear(x, net.width, net.width));
    std::string v = heads_of(net, net.linear(x, net.width, net.width));
    const std::string joined = net.linear(attend(net, q, k, v, mask), net.width, net.width);
    x = net.layer_norm(net.node("Add", {joined, x}), net.width);
    const std::string hidden = net.gelu(net.linear(x, net.width, 4 * net.width));
    x = net.layer_norm(net.node("Add", {net.linear(hidden, 4 * net.width, net.width), x}), net.width);
  }
  net.output(x);
}

/// q, k and v from one product; norms before; the weights of the embedding once more at the end.
void write_gpt2(Net& net) {
  const std::string ids = net.input("ids", {net.batch, net.length}, pb::TensorProto::INT64);
  const std::string table = net.weight({50, net.width}, 0.3);
  std::string x = net.node("Add", {net.node("Gather", {table, ids}), net.weight({1, net.length, net.width}, 0.3)});
  const std::string mask = causal_mask(net, net.length);
  for (int layer = 0; layer < 2; ++layer) {
    const auto flat = [&](const std::string& value) { return net.reshape(value, {-1, net.width}); };
    const std::string qkv = net.reshape(net.gemm(flat(net.layer_norm(x, net.width)), net.width, 3 * net.width),
                                        {net.batch, net.length, 3 * net.width});
    const auto parts = net.nodes("Split", {qkv}, 3, {{"axis", 2}, {"num_outputs", 3}});
    const std::string seen =
        attend(net, heads_of(net, parts[0]), heads_of(net, parts[1]), heads_of(net, parts[2]), mask);
    x = net.node("Add",
                 {net.reshape(net.gemm(flat(seen), net.width, net.width), {net.batch, net.length, net.width}), x});
    const std::string hidden = net.tanh_gelu(net.gemm(flat(net.layer_norm(x, net.width)), net.width, 4 * net.width));
    x = net.node("Add",
                 {x, net.reshape(net.gemm(hidden, 4 * net.width, net.width), {net.batch, net.length, net.width})});
  }
  net.output(net.node("MatMul", {net.layer_norm(x, net.width), net.transpose(table, {1, 0})}));
}

/// Products along positions and along channels in turn.
void write_mixer(Net& net) {
  const std::int64_t patches = 16 * net.image * net.image;
  std::string x = net.conv(net.image_input(32), {.from = 3, .to = net.width, .kernel = 8, .stride = 8});
  x = net.transpose(net.reshape(x, {net.batch, net.width, patches}), {0, 2, 1});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string turned = net.transpose(net.layer_norm(x, net.width), {0, 2, 1});
    const std::string tokens = net.linear(net.gelu(net.linear(turned, patches, net.length)), net.length, patches);
    x = net.node("Add", {x, net.transpose(tokens, {0, 2, 1})});
    x = net.node("Add", {x, net.linear(net.gelu(net.linear(net.layer_norm(x, net.width), net.width, 4 * net.width)),
                                       4 * net.width, net.width)});
  }
  const std::string mean =
      net.node("ReduceMean", {net.layer_norm(x, net.width), net.ints({1})}, {{"keepdims", std::int64_t{0}}});
  net.output(net.node("Softmax", {net.gemm(mean, net.width, 10)}, {{"axis", -1}}));
}

/// Inverted residuals with squeeze-and-excite and hard-swish, convolutions of one channel each.
void write_mobilenet_v3(Net& net) {
  const std::int64_t narrow = 16 * net.channels, wide = 48 * net.channels;
  std::string x = net.image_input(32);
  x = net.node("HardSwish", {net.conv(x, {.from = 3, .to = narrow, .kernel = 3, .stride = 2})});
  for (const std::int64_t stride : {2, 1}) {
    const std::string grown = net.node("HardSwish", {net.conv(x, {.from = narrow, .to = wide})});
    const std::string deep = net.node(
        "HardSwish", {net.conv(grown, {.from = wide, .to = wide, .kernel = 5, .stride = stride, .groups = wide})});
    const std::string mean = net.node("ReduceMean", {deep, net.ints({-1, -2})}, {{"keepdims", 1}});
    const std::string squeezed =
        net.conv(net.node("Relu", {net.conv(mean, {.from = wide, .to = 16})}), {.from = 16, .to = wide});
    const std::string scale = net.node("HardSigmoid", {squeezed}, {{"alpha", 1 / 6.0F}, {"beta", 0.5F}});
    const std::string y = net.conv(net.node("Mul", {scale, deep}), {.from = wide, .to = narrow});
    x = stride == 1 ? net.node("Add", {y, x}) : y;
  }
  const std::string last = net.node("HardSwish", {net.conv(x, {.from = narrow, .to = 2 * wide})});
  const std::string mean = net.node("Flatten", {net.node("GlobalAveragePool", {last})});
  net.output(net.gemm(net.node("HardSwish", {net.gemm(mean, 2 * wide, wide)}), wide, 10));
}

std::string residual_block(Net& net, const std::string& x, const std::string& time, std::int64_t from, std::int64_t to,
                           std::int64_t size) {
  const std::string first =
      net.conv(net.silu(net.group_norm(x, {net.batch, from, size, size}, 4)), {.from = from, .to = to, .kernel = 3});
  const std::string shift = net.node("Unsqueeze", {net.gemm(net.silu(time), 24, to), net.ints({2, 3})});
  const std::string middle = net.node("Add", {first, shift});
  const std::string second =
      net.conv(net.silu(net.group_norm(middle, {net.batch, to, size, size}, 4)), {.from = to, .to = to, .kernel = 3});
  return net.node("Add", {from == to ? x : net.conv(x, {.from = from, .to = to}), second});
}

/// Down, up and across, with group norms and a time embedding.
void write_unet(Net& net) {
  const std::int64_t c = 16 * net.channels, side = 16 * net.image;
  const std::string time = net.input("time", {net.batch, 24});
  const std::string x = net.conv(net.input("x", {net.batch, 4, side, side}), {.from = 4, .to = c, .kernel = 3});
  const std::string high = residual_block(net, x, time, c, 2 * c, side);
  const std::string down = net.conv(high, {.from = 2 * c, .to = 2 * c, .kernel = 3, .stride = 2});
  const std::string low = residual_block(net, down, time, 2 * c, 2 * c, side / 2);
  const std::string scales = net.numbers({4}, [](std::int64_t axis) { return axis < 2 ? 1.0F : 2.0F; });
  const std::string up =
      net.node("Resize", {low, "", scales},
               {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
  const std::string joined = residual_block(net, net.node("Concat", {up, x}, {{"axis", 1}}), time, 3 * c, c, side);
  net.output(
      net.conv(net.silu(net.group_norm(joined, {net.batch, c, side, side}, 4)), {.from = c, .to = 4, .kernel = 3}));
}

std::string rotated(Net& net, const std::string& x, const std::string& cosine, const std::string& sine) {
  const std::string low = net.node("Slice", {x, net.ints({0}), net.ints({net.size() / 2}), net.ints({3})});
  const std::string high = net.node("Slice", {x, net.ints({net.size() / 2}), net.ints({1 << 30}), net.ints({3})});
  const std::string turned = net.node("Concat", {net.node("Neg", {high}), low}, {{"axis", -1}});
  return net.node("Add", {net.node("Mul", {x, cosine}), net.node("Mul", {turned, sine})});
}

/// RMS norms, rotary positions, two heads of keys for four of queries, a gated MLP.
void write_llama(Net& net) {
  std::string x = net.node(
      "Gather", {net.weight({50, net.width}, 1), net.input("ids", {net.batch, net.length}, pb::TensorProto::INT64)});
  const auto table = [&](double (*of)(double)) {
    return net.numbers({1, 1, net.length, net.size()}, [&](std::int64_t i) {
      const auto frequency =
          std::pow(10000.0, -2.0 * static_cast<double>(i % (net.size() / 2)) / static_cast<double>(net.size()));
      return static_cast<float>(of(static_cast<double>(i / net.size()) * frequency));
    });
  };
  const std::string cosine = table(std::cos), sine = table(std::sin), mask = causal_mask(net, net.length, -3.4e38F);
  const std::int64_t shared = net.heads / 2;
  const auto repeated = [&](const std::string& keys) {
    const std::string five = net.node("Unsqueeze", {keys, net.ints({2})});
    const std::string wide =
        net.node("Expand", {five, net.ints({net.batch, shared, net.heads / shared, net.length, net.size()})});
    return net.reshape(wide, {net.batch, net.heads, net.length, net.size()});
  };
  for (int layer = 0; layer < 2; ++layer) {
    const std::string normal = net.rms_norm(x, net.width);
    const std::string q = rotated(net, heads_of(net, net.linear(normal, net.width, net.width, false)), cosine, sine);
    const std::string k =
        rotated(net, heads_of(net, net.linear(normal, net.width, shared * net.size(), false), net.length, shared),
                cosine, sine);
    const std::string v = heads_of(net, net.linear(normal, net.width, shared * net.size(), false), net.length, shared);
    x = net.node("Add", {x, net.linear(attend(net, q, repeated(k), repeated(v), mask), net.width, net.width, false)});
    const std::string second = net.rms_norm(x, net.width);
    const std::string gate = net.silu(net.linear(second, net.width, 3 * net.width, false));
    const std::string hidden = net.node("Mul", {gate, net.linear(second, net.width, 3 * net.width, false)});
    x = net.node("Add", {x, net.linear(hidden, 3 * net.width, net.width, false)});
  }
  net.output(net.linear(net.rms_norm(x, net.width), net.width, 50, false));
}

/// Rows and columns turned round by an offset, as four slices and two joins.
std::string rolled(Net& net, std::string x, std::int64_t by) {
  for (const std::int64_t axis : {1, 2}) {
    const std::string first = net.node("Slice", {x, net.ints({by}), net.ints({1 << 30}), net.ints({axis})});
    const std::string second = net.node("Slice", {x, net.ints({0}), net.ints({by}), net.ints({axis})});
    x = net.node("Concat", {first, second}, {{"axis", axis}});
  }
  return x;
}

/// Attention inside windows, every other time shifted ones with a mask; then four neighbours are merged.
void write_windowed_vit(Net& net) {
  const std::int64_t window = net.image == 1 ? 4 : 7, side = 8 * net.image, count = side / window;
  const std::int64_t in_window = window * window, windows = net.batch * count * count;
  std::string x = net.conv(net.image_input(32), {.from = 3, .to = net.width, .kernel = 4, .stride = 4});
  x = net.layer_norm(net.transpose(net.reshape(x, {net.batch, net.width, side * side}), {0, 2, 1}), net.width);
  for (const std::int64_t shift : {std::int64_t{0}, window / 2}) {
    std::string image = net.reshape(net.layer_norm(x, net.width), {net.batch, side, side, net.width});
    if (shift != 0) image = rolled(net, image, shift);
    const std::string cut =
        net.transpose(net.reshape(image, {net.batch, count, window, count, window, net.width}), {0, 1, 3, 2, 4, 5});
    const std::string qkv = net.linear(net.reshape(cut, {windows, in_window, net.width}), net.width, 3 * net.width);
    const std::string five =
        net.transpose(net.reshape(qkv, {windows, in_window, 3, net.heads, net.size()}), {2, 0, 3, 1, 4});
    const auto third = [&](std::int64_t i) {
      return net.node("Gather", {five, net.node("Constant", {}, {{"value_int", i}})}, {{"axis", std::int64_t{0}}});
    };
    const std::string q = net.node("Mul", {third(0), net.number(1 / std::sqrt(static_cast<double>(net.size())))});
    std::string scores = net.node("MatMul", {q, net.transpose(third(1), {0, 1, 3, 2})});
    scores = net.node("Add", {scores, net.weight({1, net.heads, in_window, in_window}, 0.5)});
    if (shift != 0) {
      const std::string mask = net.numbers({1, count * count, 1, in_window, in_window}, [=](std::int64_t i) {
        return (i / in_window + i) % 3 == 0 ? -100.0F : 0.0F;
      });
      const std::string split = net.reshape(scores, {net.batch, count * count, net.heads, in_window, in_window});
      scores = net.reshape(net.node("Add", {split, mask}), {-1, net.heads, in_window, in_window});
    }
    const std::string seen = net.node("MatMul", {net.node("Softmax", {scores}, {{"axis", -1}}), third(2)});
    const std::string tokens = net.linear(
        net.reshape(net.transpose(seen, {0, 2, 1, 3}), {windows, in_window, net.width}), net.width, net.width);
    const std::string whole =
        net.transpose(net.reshape(tokens, {net.batch, count, count, window, window, net.width}), {0, 1, 3, 2, 4, 5});
    std::string back = net.reshape(whole, {net.batch, side, side, net.width});
    if (shift != 0) back = rolled(net, back, side - shift);
    x = net.node("Add", {x, net.reshape(back, {net.batch, side * side, net.width})});
    x = net.node("Add", {x, net.linear(net.gelu(net.linear(net.layer_norm(x, net.width), net.width, 4 * net.width)),
                                       4 * net.width, net.width)});
  }
  const std::string image = net.reshape(x, {net.batch, side, side, net.width});
  std::vector<std::string> corners;
  for (const std::int64_t corner : {0, 1, 2, 3}) {
    corners.push_back(net.node("Slice", {image, net.ints({corner % 2, corner / 2}), net.ints({1 << 30, 1 << 30}),
                                         net.ints({1, 2}), net.ints({2, 2})}));
  }
  const std::string merged =
      net.reshape(net.node("Concat", corners, {{"axis", -1}}), {net.batch, side * side / 4, 4 * net.width});
  net.output(net.linear(net.layer_norm(merged, 4 * net.width), 4 * net.width, 2 * net.width, false));
}

/// A class token in front of the patches, q, k and v as parts of one product.
void write_vit(Net& net) {
  const std::int64_t tokens = 16 * net.image * net.image + 1;
  std::string x = net.conv(net.image_input(32), {.from = 3, .to = net.width, .kernel = 8, .stride = 8});
  x = net.transpose(net.reshape(x, {net.batch, net.width, tokens - 1}), {0, 2, 1});
  const std::string token = net.node("Expand", {net.weight({1, 1, net.width}, 1), net.ints({net.batch, 1, 1})});
  x = net.node("Add", {net.node("Concat", {token, x}, {{"axis", 1}}), net.weight({1, tokens, net.width}, 0.3)});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string normal = net.layer_norm(x, net.width);
    const std::string q = heads_of(net, net.linear(normal, net.width, net.width), tokens);
    const std::string k = heads_of(net, net.linear(normal, net.width, net.width), tokens);
    const std::string v = heads_of(net, net.linear(normal, net.width, net.width), tokens);
    x = net.node("Add", {x, net.linear(attend(net, q, k, v, "", tokens), net.width, net.width)});
    x = net.node("Add", {x, net.linear(net.gelu(net.linear(net.layer_norm(x, net.width), net.width, 4 * net.width)),
                                       4 * net.width, net.width)});
  }
  const std::string first =
      net.node("Gather", {net.layer_norm(x, net.width), net.node("Constant", {}, {{"value_int", std::int64_t{0}}})},
               {{"axis", 1}});
  net.output(net.gemm(first, net.width, 10));
}

/// Wide convolutions of one channel each, norms over channels, a scale per channel.
void write_convnext(Net& net) {
  const auto channels_last = [&](const std::string& x) { return net.transpose(x, {0, 2, 3, 1}); };
  const auto channels_first = [&](const std::string& x) { return net.transpose(x, {0, 3, 1, 2}); };
  std::int64_t width = 16 * net.channels;
  std::string x = net.conv(net.image_input(32), {.from = 3, .to = width, .kernel = 4, .stride = 4});
  x = channels_first(net.written_layer_norm(channels_last(x), width));
  for (int stage = 0; stage < 2; ++stage) {
    if (stage != 0) {
      x = net.conv(channels_first(net.written_layer_norm(channels_last(x), width)),
                   {.from = width, .to = 2 * width, .kernel = 2, .stride = 2});
      width *= 2;
    }
    const std::string deep = channels_last(net.conv(x, {.from = width, .to = width, .kernel = 7, .groups = width}));
    const std::string hidden = net.gelu(net.linear(net.written_layer_norm(deep, width), width, 4 * width));
    const std::string scaled = net.node("Mul", {net.linear(hidden, 4 * width, width), net.weight({width}, 0.1, 1)});
    x = net.node("Add", {x, channels_first(scaled)});
  }
  const std::string mean = net.node("Flatten", {net.node("GlobalAveragePool", {x})});
  net.output(net.gemm(net.layer_norm(mean, width), width, 10));
}

/// Channels split, half of them through convolutions, joined and shuffled.
void write_shufflenet(Net& net) {
  const std::int64_t half = 24 * net.channels, side = 8 * net.image;
  const auto relu_conv = [&](const std::string& x, std::int64_t from, std::int64_t to) {
    return net.node("Relu", {net.batch_norm(net.conv(x, {.from = from, .to = to, .bias = false}), to)});
  };
  const auto deep_conv = [&](const std::string& x, std::int64_t stride) {
    return net.batch_norm(
        net.conv(x, {.from = half, .to = half, .kernel = 3, .stride = stride, .groups = half, .bias = false}), half);
  };
  const auto shuffled = [&](const std::string& a, const std::string& b) {
    const std::string joined = net.node("Concat", {a, b}, {{"axis", 1}});
    const std::string turned = net.transpose(net.reshape(joined, {net.batch, 2, half, side, side}), {0, 2, 1, 3, 4});
    return net.reshape(turned, {net.batch, 2 * half, side, side});
  };
  std::string x = relu_conv(net.image_input(32), 3, half);
  x = net.node("MaxPool", {x}, {{"kernel_shape", Sizes{3, 3}}, {"strides", Sizes{2, 2}}, {"pads", Sizes{1, 1, 1, 1}}});
  const std::string left = relu_conv(deep_conv(x, 2), half, half);
  x = shuffled(left, relu_conv(deep_conv(relu_conv(x, half, half), 2), half, half));
  for (int unit = 0; unit < 2; ++unit) {
    const auto halves = net.nodes("Split", {x}, 2, {{"axis", 1}, {"num_outputs", 2}});
    x = shuffled(halves[0], relu_conv(deep_conv(relu_conv(halves[1], half, half), 1), half, half));
  }
  const std::string mean =
      net.node("ReduceMean", {relu_conv(x, 2 * half, 64), net.ints({2, 3})}, {{"keepdims", std::int64_t{0}}});
  net.output(net.gemm(mean, 64, 10));
}

/// Convolutions over time, then blocks of attention with norms before.
void write_speech_encoder(Net& net) {
  const std::int64_t frames = 2 * net.length;
  std::string x = net.gelu(
      net.conv(net.input("x", {net.batch, 20, frames}), {.from = 20, .to = net.width, .kernel = 3, .rank = 1}));
  x = net.gelu(net.conv(x, {.from = net.width, .to = net.width, .kernel = 3, .stride = 2, .rank = 1}));
  x = net.node("Add", {net.transpose(x, {0, 2, 1}), net.weight({net.length, net.width}, 0.3)});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string normal = net.layer_norm(x, net.width);
    const std::string q = heads_of(net, net.node("Mul", {net.linear(normal, net.width, net.width), net.number(0.7)}));
    const std::string k = heads_of(net, net.linear(normal, net.width, net.width, false));
    const std::string v = heads_of(net, net.linear(normal, net.width, net.width));
    x = net.node("Add", {x, net.linear(attend(net, q, k, v, ""), net.width, net.width)});
    x = net.node("Add", {x, net.linear(net.gelu(net.linear(net.layer_norm(x, net.width), net.width, 4 * net.width)),
                                       4 * net.width, net.width)});
  }
  net.output(net.layer_norm(x, net.width));
}

/// Half steps of MLPs around attention and a gated convolution over time.
void write_conformer(Net& net) {
  std::string x = net.linear(net.input("x", {net.batch, net.length, 20}), 20, net.width);
  const auto half_step = [&](const std::string& value) {
    const std::string hidden = net.silu(net.linear(net.layer_norm(value, net.width), net.width, 4 * net.width));
    return net.node("Add", {value, net.node("Mul", {net.linear(hidden, 4 * net.width, net.width), net.number(0.5)})});
  };
  x = half_step(x);
  const std::string normal = net.layer_norm(x, net.width);
  const std::string seen = attend(net, heads_of(net, net.linear(normal, net.width, net.width)),
                                  heads_of(net, net.linear(normal, net.width, net.width)),
                                  heads_of(net, net.linear(normal, net.width, net.width)), "");
  x = net.node("Add", {x, net.linear(seen, net.width, net.width)});
  const std::string turned = net.transpose(net.layer_norm(x, net.width), {0, 2, 1});
  const auto gates = net.nodes("Split", {net.conv(turned, {.from = net.width, .to = 2 * net.width, .rank = 1})}, 2,
                               {{"axis", 1}, {"num_outputs", 2}});
  const std::string gated = net.node("Mul", {gates[0], net.node("Sigmoid", {gates[1]})});
  const std::string deep =
      net.conv(gated, {.from = net.width, .to = net.width, .kernel = 15, .groups = net.width, .rank = 1});
  const std::string y =
      net.conv(net.silu(net.batch_norm(deep, net.width)), {.from = net.width, .to = net.width, .rank = 1});
  x = half_step(net.node("Add", {x, net.transpose(y, {0, 2, 1})}));
  net.output(net.layer_norm(x, net.width));
}

/// Residuals with norms of a batch at rest.
void write_resnet(Net& net) {
  const std::int64_t c = net.channels;
  const auto conv = [&](const std::string& x, const Net::Conv& how) {
    return net.batch_norm(net.conv(x, how), how.to);
  };
  std::string x =
      net.node("Relu", {conv(net.image_input(32), {.from = 3, .to = 16 * c, .kernel = 7, .stride = 2, .bias = false})});
  x = net.node("MaxPool", {x}, {{"kernel_shape", Sizes{3, 3}}, {"strides", Sizes{2, 2}}, {"pads", Sizes{1, 1, 1, 1}}});
  for (const std::int64_t stride : {2, 1}) {
    const std::int64_t from = stride == 2 ? 16 * c : 48 * c;
    const std::string first = net.node("Relu", {conv(x, {.from = from, .to = 12 * c, .bias = false})});
    const std::string second =
        net.node("Relu", {conv(first, {.from = 12 * c, .to = 12 * c, .kernel = 3, .stride = stride, .bias = false})});
    const std::string third = conv(second, {.from = 12 * c, .to = 48 * c, .bias = false});
    const std::string skipped =
        stride == 1 ? x : conv(x, {.from = from, .to = 48 * c, .stride = stride, .bias = false});
    x = net.node("Relu", {net.node("Add", {third, skipped})});
  }
  net.output(net.gemm(net.node("Flatten", {net.node("GlobalAveragePool", {x})}), 48 * c, 10));
}

/// Every layer reads what all before it have made.
void write_densenet(Net& net) {
  std::int64_t channels = 16 * net.channels;
  std::string x = net.conv(net.image_input(16), {.from = 3, .to = channels, .kernel = 3, .bias = false});
  for (int layer = 0; layer < 3; ++layer) {
    const std::string narrow = net.conv(net.node("Relu", {net.batch_norm(x, channels)}),
                                        {.from = channels, .to = 32 * net.channels, .bias = false});
    const std::string normal = net.node("Relu", {net.batch_norm(narrow, 32 * net.channels)});
    const std::string more =
        net.conv(normal, {.from = 32 * net.channels, .to = 8 * net.channels, .kernel = 3, .bias = false});
    x = net.node("Concat", {x, more}, {{"axis", 1}});
    channels += 8 * net.channels;
  }
  x = net.conv(net.node("Relu", {net.batch_norm(x, channels)}), {.from = channels, .to = channels / 2, .bias = false});
  x = net.node("AveragePool", {x}, {{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}});
  net.output(net.gemm(net.node("Flatten", {net.node("GlobalAveragePool", {x})}), channels / 2, 10));
}

constexpr std::int64_t kSteps = 6;

/// Two directions of an LSTM over words, a label for each of them.
void write_lstm_tagger(Net& net) {
  const std::int64_t hidden = net.width / 2;
  const std::string words = net.node(
      "Gather", {net.weight({50, net.width}, 1), net.input("ids", {kSteps, net.batch}, pb::TensorProto::INT64)});
  const std::string y = net.node("LSTM",
                                 {words, net.weight({2, 4 * hidden, net.width}, 0.2),
                                  net.weight({2, 4 * hidden, hidden}, 0.2), net.weight({2, 8 * hidden}, 0.2)},
                                 {{"hidden_size", hidden}, {"direction", "bidirectional"}});
  const std::string joined = net.reshape(net.transpose(y, {0, 2, 1, 3}), {kSteps, net.batch, 2 * hidden});
  net.output(net.node("LogSoftmax", {net.linear(joined, 2 * hidden, 9)}, {{"axis", -1}}));
}

/// A GRU over frames and what its last state says.
void write_gru_classifier(Net& net) {
  const std::int64_t hidden = net.width / 2;
  const auto outputs = net.nodes("GRU",
                                 {net.input("x", {kSteps, net.batch, 20}), net.weight({1, 3 * hidden, 20}, 0.2),
                                  net.weight({1, 3 * hidden, hidden}, 0.2), net.weight({1, 6 * hidden}, 0.2)},
                                 2, {{"hidden_size", hidden}, {"linear_before_reset", 1}});
  net.output(net.gemm(net.node("Squeeze", {outputs[1], net.ints({0})}), hidden, 10));
}

class OnnxArchitectures : public testing::TestWithParam<Architecture> {};

/// As large as in use, and only planned: the weights are inputs.
Net large() {
  Net net(18, Net::Weights::inputs);
  net.batch = 4;
  net.length = 512;
  net.width = 768;
  net.heads = 12;
  net.image = 7;
  net.channels = 4;
  return net;
}

struct Written {
  ir::Graph graph;
  int most_kernels = 0;
};

Written write(const Architecture& one, Net net) {
  one.write(net);
  const OnnxModel model = test::must(import(net.model()));
  return {test::must(api::to_graph(model.outputs, model.output_names, one.name)),
          most_kernels(net.model(), one.recurrent_products)};
}

/// Intermediate values and partial results that are alive during one step or another, at most; found in another way
/// than by the planner of memory. A value that a step writes over what it reads for the last time counts from the next
/// step on.
std::int64_t largest_live_set(const plan::Plan& plan, const SymbolValues& symbols,
                              const std::vector<plan::ScheduledKernel>& steps, const plan::Memory& memory) {
  std::vector<std::int64_t> live(steps.size(), 0);
  std::map<ir::NodeId, std::int64_t> offsets;
  for (const plan::Slot& slot : memory.slots) offsets.emplace(slot.value, slot.offset);
  std::map<ir::NodeId, std::size_t> last_read;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const ir::NodeId value : plan.steps[step].segment.reads) last_read[value] = step;
  }
  const auto is_over = [&](std::size_t step, ir::NodeId value) {
    const auto& reads = plan.steps[step].segment.reads;
    return std::any_of(reads.begin(), reads.end(), [&](ir::NodeId read) {
      return offsets.count(read) != 0 && last_read.at(read) == step && offsets.at(read) == offsets.at(value);
    });
  };
  const auto padded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  std::int64_t counts = 0;  // of workgroups, all along
  for (const plan::ScheduledKernel& step : steps) counts += padded(step.schedule.counter_bytes);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    live[step] += counts + padded(steps[step].schedule.scratch_bytes);
    for (const ir::NodeId value : plan.steps[step].segment.stores) {
      const bool output = std::any_of(plan.graph.outputs().begin(), plan.graph.outputs().end(),
                                      [&](const ir::Output& one) { return one.value == value; });
      if (output) continue;
      std::size_t last = step;
      for (std::size_t later = step; later < steps.size(); ++later) {
        const auto& reads = plan.steps[later].segment.reads;
        if (std::find(reads.begin(), reads.end(), value) != reads.end()) last = later;
      }
      for (std::size_t at = is_over(step, value) ? step + 1 : step; at <= last; ++at)
        live[at] += padded(static_cast<std::int64_t>(test::bytes_of(plan.graph, value, symbols)));
    }
  }
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

void expect_tight_arena(const std::string& name, const plan::Plan& plan, const SymbolValues& symbols,
                        const std::vector<plan::ScheduledKernel>& steps) {
  const plan::Memory memory = test::must(plan::plan_memory(plan, symbols, steps));
  const std::int64_t bound = largest_live_set(plan, symbols, steps, memory);
  EXPECT_EQ(memory.largest_live, bound);
  EXPECT_GE(memory.arena_bytes, bound);
  const double ratio = bound == 0 ? 1.0 : static_cast<double>(memory.arena_bytes) / static_cast<double>(bound);
  fmt::print("{}: arena {} bytes, {:.3f} of the largest live set\n", name, memory.arena_bytes, ratio);
  EXPECT_LE(ratio, 1.15) << name;
}

void expect_few_kernels(const Written& one) {
  const ir::Graph prepared = test::must(passes::run_pipeline(one.graph));
  const plan::Plan made = test::must(plan::make_plan(prepared, test::discrete_gpu()));
  const plan::Plan unfused = test::must(plan::make_plan(prepared, test::discrete_gpu(), {false}));
  const SymbolValues symbols = schedule::representative_symbols(prepared);
  const auto steps = test::must(plan::schedule_all(made, symbols));
  // A norm of few long rows is one kernel of two dispatches.
  const auto kernels = std::count_if(steps.begin(), steps.end(), [](const plan::ScheduledKernel& step) {
    return !step.alias && step.schedule.launch.chunks > 0;
  });
  if (std::getenv("VKFUSE_LIST_CASES") != nullptr)
    fmt::print("{}: {} kernels, {} allowed\n", one.graph.name, kernels, one.most_kernels);
  EXPECT_LE(kernels, one.most_kernels) << test::must(plan::to_text(made, unfused, symbols));
  expect_tight_arena(one.graph.name, made, symbols, steps);
}

TEST_P(OnnxArchitectures, TakeFewKernelsOnAGpu) { expect_few_kernels(write(GetParam(), Net())); }

TEST_P(OnnxArchitectures, TakeFewKernelsOnAGpuWhereTheyAreLarge) { expect_few_kernels(write(GetParam(), large())); }

/// By hand: the models in the folders of a folder, one kernel per op as well, where there is most to pack.
TEST(OnnxModels, HaveTightArenas) {
  const char* folder = std::getenv("VKFUSE_TEST_MODELS");
  if (folder == nullptr) GTEST_SKIP() << "VKFUSE_TEST_MODELS names no folder of models.";
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    ++models;
    const OnnxModel model = test::must(load_onnx(entry.path().string()));
    const ir::Graph prepared = test::must(passes::run_pipeline(
        test::must(api::to_graph(model.outputs, model.output_names, entry.path().parent_path().filename().string()))));
    for (const bool fusion : {true, false}) {
      partition::Options options;
      options.fusion = fusion;
      const plan::Plan made = test::must(plan::make_plan(prepared, test::discrete_gpu(), options));
      const SymbolValues symbols = schedule::representative_symbols(prepared);
      expect_tight_arena(prepared.name + (fusion ? "" : ", one kernel per op"), made, symbols,
                         test::must(plan::schedule_all(made, symbols)));
    }
  }
  EXPECT_GT(models, 0) << "There is no model in " << folder;
}

/// By hand: the same models from an empty store and from what that left. Sizes that are symbols are what plans are made
/// for.
TEST(OnnxModels, StartWarmWithoutACompiler) {
  const char* folder = std::getenv("VKFUSE_TEST_MODELS");
  if (folder == nullptr) GTEST_SKIP() << "VKFUSE_TEST_MODELS names no folder of models.";
  using Clock = std::chrono::steady_clock;
  const store::test::ScratchFolder scratch;
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    ++models;
    for (const char* how : {"cold", "warm"}) {
      DeviceOptions options;
      options.store = scratch.options();
      const Device on = test::must(Device::open(options));
      const std::uint64_t calls = on.store().compiler_calls;
      const auto loaded = Clock::now();
      const OnnxModel model = test::must(load_onnx(entry.path().string()));
      const auto begin = Clock::now();
      CompileOptions naming;
      naming.output_names = model.output_names;
      const Executable program = test::must(compile(on, model.outputs, naming));
      const auto compiled = Clock::now();
      Bindings bindings;
      for (const auto& symbol : program.state()->program->representative()) bindings.symbols.insert(symbol);
      const auto allocate = [&](const std::vector<Port>& ports, auto& buffers) {
        for (const Port& port : ports)
          buffers[port.name] = test::must(
              on.allocate(port.dtype, test::must(resolve(port.shape, program.state()->program->representative()))));
      };
      allocate(program.inputs(), bindings.inputs);
      allocate(program.outputs(), bindings.outputs);
      const Submission submission = test::must(program.submit(bindings));
      const auto end = Clock::now();
      test::must(submission.wait());
      const auto done = Clock::now();
      double least = 1e9;
      for (int i = 0; i < 20; ++i) {
        const auto start = Clock::now();
        const Submission again = test::must(program.submit(bindings));
        least = std::min(least, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
        test::must(again.wait());
      }
      const auto ms = [](Clock::time_point from, Clock::time_point to) {
        return std::chrono::duration<double, std::milli>(to - from).count();
      };
      fmt::print(
          "{}, {}: {} kernels, {} calls of the compiler, compile() {:.0f} ms, {:.0f} ms to the return of the first "
          "submission, {:.0f} to its end (and {:.0f} to read the file), submit() {:.0f} us\n",
          entry.path().parent_path().filename().string() + "/" + entry.path().stem().string(), how,
          program.kernel_count(), on.store().compiler_calls - calls, ms(begin, compiled), ms(begin, end),
          ms(begin, done), ms(loaded, begin), least);
      if (how == std::string("warm")) {
        EXPECT_EQ(on.store().compiler_calls, calls);
      }
    }
  }
  EXPECT_GT(models, 0) << "There is no model in " << folder;
}

/// Words of small numbers, floats in [-1.7, 1.7).
test::Data data_for(const ir::Graph& graph) {
  test::Data data;
  for (const ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    test::Random random(test::seed_of(1, name));
    std::vector<std::byte>& bytes = data.inputs[name];
    for (const std::size_t size = test::bytes_of(graph, id, {}); bytes.size() < size;) {
      if (is_float(node.type.dtype)) {
        ir::encode(node.type.dtype, random.between(-1.7, 1.7), bytes);
      } else {
        ir::encode_int(node.type.dtype, static_cast<std::int64_t>(random.below(50)), bytes);
      }
    }
  }
  return data;
}

// What the error of a network is bounded by grows with every layer, until it says nothing: then four times the error of
// one kernel per op counts, as in vkfuse validate.
TEST_P(OnnxArchitectures, ComputeWhatTheReferenceDoes) {
  const Written one = write(GetParam(), Net());
  const test::Data data = data_for(one.graph);
  const Executable program = test::compile_graph(one.graph, {});
  EXPECT_LE(program.kernel_count(), one.most_kernels);
  const double largest = test::compare_model(program, one.graph, data, GetParam().name, true);
  if (std::getenv("VKFUSE_LIST_CASES") != nullptr)
    fmt::print("{}: largest error / bound {:.3f}\n", GetParam().name, largest);
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = {
      {"bert", write_bert},
      {"gpt2", write_gpt2},
      {"mixer", write_mixer},
      {"mobilenet_v3", write_mobilenet_v3},
      {"unet", write_unet},
      {"llama", write_llama},
      {"windowed_vit", write_windowed_vit},
      {"vit", write_vit},
      {"convnext", write_convnext},
      {"shufflenet", write_shufflenet},
      {"speech_encoder", write_speech_encoder},
      {"conformer", write_conformer},
      {"resnet", write_resnet},
      {"densenet", write_densenet},
      {"lstm_tagger", write_lstm_tagger, 2 * (1 + kSteps)},
      {"gru_classifier", write_gru_classifier, 1 + kSteps},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxArchitectures, testing::ValuesIn(architectures()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace vkfuse::onnx

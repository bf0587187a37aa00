// Convolutions with channels as the last axis, on the device: whatever stands between them goes along, or gets its
// elements in their own order.
#include <gtest/gtest.h>

#include "passes/passes.hpp"
#include "support/compare.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {
namespace {

struct Network {
  const char* name;
  std::vector<Tensor> outputs;
};

/// Makes convolutions whose weights are inputs, each with another name, or constants.
class Layers {
 public:
  explicit Layers(DType dtype, bool constant = false) : dtype_(dtype), constant_(constant) {}

  Tensor input(Shape shape) { return Tensor::input(next("x"), dtype_, std::move(shape)); }
  Tensor weights(std::vector<std::int64_t> sizes) {
    Shape shape(sizes.begin(), sizes.end());
    if (!constant_) return Tensor::input(next("w"), dtype_, std::move(shape)) * 0.25;
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype_, static_cast<double>(i * 37 % 101) / 256 - 0.2, bytes);
    return Tensor::constant(dtype_, std::move(shape), bytes);
  }
  /// A kernel of `taps` along each spatial axis, padded so that a stride of 1 keeps their sizes.
  Tensor convolved(const Tensor& x, std::int64_t out, std::int64_t taps = 3, std::int64_t stride = 1,
                   std::int64_t groups = 1) {
    const std::size_t axes = x.shape().size() - 2;
    std::vector<std::int64_t> shape(axes + 2, taps);
    shape[0] = out;
    shape[1] = x.shape()[1].size() / groups;
    const std::vector<std::int64_t> around(axes, taps / 2);
    return conv(x, weights(std::move(shape)),
                {.strides = std::vector<std::int64_t>(axes, stride), .low = around, .high = around, .groups = groups});
  }

 private:
  std::string next(const char* prefix) { return prefix + std::to_string(count_++); }

  DType dtype_;
  bool constant_;
  int count_ = 0;
};

Tensor largest_of_windows(const Tensor& x) {
  return max_pool(x, {.sizes = {3, 3}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
}

/// What networks have between convolutions.
std::vector<Network> layers_between(DType dtype) {
  Layers of(dtype);
  const Tensor x = of.input({2, 8, 7, 9});
  const Tensor a = relu(of.convolved(x, 16)), b = relu(of.convolved(a, 16));
  std::vector<Network> made{{"a chain", {of.convolved(b, 8)}}};
  made.push_back({"a residual", {of.convolved(relu(of.convolved(b, 16, 1) + a), 8)}});
  made.push_back({"values of each channel", {of.convolved(a * of.weights({16, 1, 1}) + of.weights({1, 16, 1, 1}), 8)}});
  made.push_back({"a value of each position", {of.convolved(a * of.weights({7, 9}) + of.weights({2, 1, 1, 9}), 8)}});
  made.push_back({"a tensor as it is", {of.convolved(a + of.input({2, 16, 7, 9}), 8)}});
  made.push_back({"largest of windows", {of.convolved(largest_of_windows(a), 8)}});
  made.push_back({"strides", {of.convolved(of.convolved(a, 8, 3, 2), 8, 1, 2)}});
  made.push_back({"side by side", {of.convolved(concat({a, b, x}, 1), 8)}});
  made.push_back({"halves", {of.convolved(a.slice(1, 8, 16).slice(3, 1, 9, 2), 8)}});
  made.push_back({"turned round", {of.convolved(b.reverse({3}).swap_dims(2, 3), 8)}});
  made.push_back({"padding that is not 0", {of.convolved(a.pad({0, 0, 1, 0}, {0, 0, 0, 2}, 0.5), 8)}});
  made.push_back({"groups", {of.convolved(relu(of.convolved(a, 16, 3, 1, 16)), 8), of.convolved(a, 8, 3, 1, 2)}});
  made.push_back({"single channels alone", {relu(of.convolved(of.convolved(x, 8, 3, 1, 8), 8, 5, 2, 8)) + 1.0}});
  made.push_back({"single channels between products of channels",
                  {of.convolved(relu(of.convolved(relu(of.convolved(x, 24, 1)), 24, 3, 2, 24)), 8, 1)}});
  made.push_back({"a norm of single channels", {layer_norm(of.convolved(x, 8, 7, 1, 8).permute({0, 2, 3, 1}), 1)}});
  made.push_back({"a mean of positions", {b.mean({2, 3}), a.max({1})}});
  made.push_back({"gates", {of.convolved(a * sigmoid(of.convolved(a.mean({2, 3}, true), 16, 1)), 8)}});
  made.push_back({"flat", {matmul(b.reshape({2, 16 * 7 * 9}), of.weights({16 * 7 * 9, 5}) * 0.1)}});
  made.push_back(
      {"a norm of channels", {of.convolved(layer_norm(a.permute({0, 2, 3, 1}), 1).permute({0, 3, 1, 2}), 8)}});
  made.push_back({"results on the way", {a, b.cast(DType::f32), a.sum({0}), of.convolved(b, 8)}});
  return made;
}

std::vector<Network> other_images(DType dtype) {
  Layers of(dtype), constants(dtype, true);
  std::vector<Network> made;
  made.push_back({"one axis", {of.convolved(relu(of.convolved(of.input({2, 8, 31}), 16)), 8, 5, 2)}});
  made.push_back({"three axes", {of.convolved(relu(of.convolved(of.input({1, 8, 4, 5, 6}), 8)), 8)}});
  made.push_back({"one image", {of.convolved(relu(of.convolved(of.input({1, 8, 6, 6}), 8)), 8)}});
  made.push_back({"three channels", {of.convolved(relu(of.convolved(of.input({2, 3, 9, 9}), 8, 3, 2)), 8)}});
  made.push_back({"single channels of constants",
                  {constants.convolved(relu(constants.convolved(of.input({2, 8, 6, 7}), 8, 3, 1, 8)), 16)}});
  made.push_back({"single channels along one axis", {of.convolved(relu(of.input({2, 16, 31})), 16, 5, 1, 16)}});
  made.push_back({"single channels along three axes", {of.convolved(relu(of.input({1, 8, 4, 5, 6})), 8, 3, 1, 8)}});
  made.push_back({"constants", {constants.convolved(relu(constants.convolved(of.input({2, 8, 6, 7}), 16)), 8)}});
  const Tensor x = relu(of.convolved(of.input({2, 8, 5, 6}), 16));
  made.push_back({"transposed", {relu(conv_transpose(x, of.weights({16, 8, 2, 2}), {.strides = {2, 2}}))}});
  made.push_back(
      {"dilated", {conv(x, of.weights({8, 16, 3, 3}), {.low = {2, 2}, .high = {2, 2}, .dilations = {2, 2}})}});
  const Tensor last = of.input({2, 6, 7, 8});
  made.push_back({"channels that are last already",
                  {of.convolved(relu(last).permute({0, 3, 1, 2}), 8).permute({0, 2, 3, 1}) + 1.0}});
  const Tensor w = of.weights({8, 16, 3, 3}), loss = (conv(x, w) * conv(x, w)).sum({0, 1, 2, 3});
  made.push_back({"gradients", {loss, gradients({loss}, {w})[0]}});
  return made;
}

void compare_networks(const std::vector<Network>& networks, DType dtype) {
  for (const Network& network : networks) {
    for (const Tensor& one : network.outputs) ASSERT_TRUE(one.valid()) << network.name << ": " << one.error().text();
    const ir::Graph graph = graph_of(network.outputs);
    const auto made = must(passes::put_channels_last(must(passes::run_pipeline(graph))));
    const std::string what = fmt::format("{} of {}", network.name, name_of(dtype));
    ASSERT_TRUE(made) << what;
    must(ir::verify(made->graph));
    Build how;
    how.tuning.matmul = dtype == DType::f16;  // others without tiles
    compare_with_reference(compile_graph(made->graph, how), graph, data_for({graph, {}, 91, false}), what);
  }
}

TEST(ChannelsLast, ComputeTheSameWhateverIsBetween) {
  for (const DType dtype : {DType::f32, DType::f16}) compare_networks(layers_between(dtype), dtype);
}

TEST(ChannelsLast, ComputeTheSameOfOtherImages) {
  for (const DType dtype : {DType::f32, DType::f16}) compare_networks(other_images(dtype), dtype);
}

}  // namespace
}  // namespace vkfuse::test

// Convolutions with channels as the last axis: random networks compute what they did, and the pass does nothing where
// nothing is gained.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/passes.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// A network of random layers, of images [2, channels, rows, columns].
class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : random_(seed) {
    values_.push_back(input({2, 8, Dim(size()), Dim(size())}));
    const std::size_t layers = 2 + random_.below(7);
    values_.push_back(convolved(values_.back(), 3));  // one that gains at least
    for (std::size_t i = 0; i < layers; ++i) add_layer();
    add_results();
  }
  [[nodiscard]] ir::Graph graph() const { return graph_of(results_); }

 private:
  std::int64_t size() { return 3 + static_cast<std::int64_t>(random_.below(4)); }
  std::int64_t channels() { return 4 * (1 + static_cast<std::int64_t>(random_.below(4))); }
  static std::int64_t along(const Tensor& x, std::size_t axis) { return x.shape()[axis].size(); }
  Tensor input(Shape shape) {
    return Tensor::input("x" + std::to_string(count_++), DType::f32, std::move(shape)) * 0.125;
  }

  Tensor convolved(const Tensor& x, std::int64_t taps) {
    const bool is_depthwise = random_.chance(25);
    const std::int64_t groups = is_depthwise ? along(x, 1) : random_.chance(20) ? std::int64_t{4} : std::int64_t{1};
    const std::int64_t stride = 1 + static_cast<std::int64_t>(random_.below(2));
    const std::int64_t dilation = random_.chance(20) ? 2 : 1, around = taps / 2 * dilation;
    const std::int64_t more = random_.chance(20) ? 1 : 0;
    return conv(x,
                input({Dim(is_depthwise ? along(x, 1) : channels()), Dim(along(x, 1) / groups), Dim(taps), Dim(taps)}),
                {.strides = {stride, 1},
                 .low = {around, around},
                 .high = {around, around + more},
                 .dilations = {dilation, dilation},
                 .groups = groups});
  }

  static Tensor flat(const Tensor& x) { return x.reshape({Dim(2), Dim(along(x, 1) * along(x, 2) * along(x, 3))}); }

  /// Something that is broadcast to an image, of as many axes or fewer.
  Tensor broadcast_to(const Tensor& x) {
    const Dim c = x.shape()[1], h = x.shape()[2], w = x.shape()[3];
    const std::vector<Shape> shapes{{c, 1, 1}, {1, c, 1, 1}, {h, w}, {w}, {2, 1, h, 1}, {2, c, h, w}, {}};
    return input(random_.pick(shapes));
  }

  Tensor view_of(const Tensor& x) {
    switch (random_.below(6)) {
      case 0: return x.pad({0, 0, 1, 0}, {0, 4, 0, 2}, 0.5);
      case 1: return x.slice(1, 0, 4).slice(2, along(x, 2) > 1 ? 1 : 0, along(x, 2));
      case 2: return x.reverse({1, 3});
      case 3: return x.permute({0, 1, 3, 2});
      case 4: return concat({x, relu(x), x.reverse({2})}, 1);
      default: return x.reshape({Dim(2), Dim(along(x, 1)), Dim(1), Dim(along(x, 2)), Dim(along(x, 3))}).sum({2});
    }
  }

  void add_layer() {
    const Tensor x = random_.pick(values_);
    switch (random_.below(8)) {
      case 0: values_.push_back(relu(x)); break;
      case 1: values_.push_back(x + broadcast_to(x)); break;
      case 2: values_.push_back(view_of(x)); break;
      case 3:
        values_.push_back(max_pool(x, {.sizes = {2, 3}, .strides = {1, 2}, .low = {1, 1}, .high = {1, 1}}));
        break;
      case 4: values_.push_back(x * x.mean({2, 3}, true)); break;
      case 5: values_.push_back(x - x.max({1}, true)); break;
      default: values_.push_back(convolved(x, random_.chance(50) ? 3 : 1)); break;
    }
  }

  void add_results() {
    results_ = {values_.back(), random_.pick(values_), random_.pick(values_).sum({2, 3}), flat(random_.pick(values_)),
                random_.pick(values_).cast(DType::f16).sum({0})};
  }

  Random random_;
  int count_ = 0;
  std::vector<Tensor> values_, results_;
};

ir::Graph convolved_graph(std::int64_t channels, std::int64_t taps, std::int64_t groups, std::int64_t results = 8) {
  const Tensor x = Tensor::input("x", DType::f32, {2, Dim(channels), 6, 6});
  const Tensor w = Tensor::input("w", DType::f32, {Dim(results), Dim(channels / groups), Dim(taps), Dim(taps)});
  return must(passes::run_pipeline(graph_of({conv(x, w, {.groups = groups})})));
}

TEST(ChannelsLastPass, DoesNothingWhereNothingIsGained) {
  EXPECT_TRUE(must(passes::put_channels_last(convolved_graph(8, 3, 1))));
  EXPECT_FALSE(must(passes::put_channels_last(convolved_graph(8, 1, 1)))) << "one tap";
  EXPECT_FALSE(must(passes::put_channels_last(convolved_graph(3, 3, 1)))) << "no vectors of channels";
  EXPECT_TRUE(must(passes::put_channels_last(convolved_graph(8, 3, 8)))) << "each channel by itself";
  EXPECT_FALSE(must(passes::put_channels_last(convolved_graph(8, 1, 8)))) << "one tap of each channel";
  EXPECT_FALSE(must(passes::put_channels_last(convolved_graph(32, 3, 8)))) << "channels in groups of four";
  EXPECT_FALSE(must(passes::put_channels_last(convolved_graph(8, 3, 8, 16)))) << "two results of each channel";
}

/// Convolutions of a graph whose windows are the first operand and whose sums go over taps, then over the last axis of
/// the image and of the weights.
int convolutions_of_channels(const ir::Graph& graph) {
  int count = 0;
  for (const ir::Node& node : graph.nodes()) {
    const auto* dot = std::get_if<ir::DotPayload>(&node.payload);
    if (dot == nullptr || dot->contract_a.size() < 2) continue;
    const ir::Node& windows = graph.node(node.operands[0]);
    const auto rank_of_weights = static_cast<int>(graph.node(node.operands[1]).type.shape.size());
    const int taps = static_cast<int>(dot->contract_a.size()) - 1;
    const int last_of_image = static_cast<int>(windows.type.shape.size()) - taps - 1;
    const bool is_last = windows.op->role == ops::Role::unfold && dot->contract_a.back() == last_of_image &&
                         dot->contract_a.front() == last_of_image + 1 && dot->contract_b.back() == rank_of_weights - 1;
    count += is_last ? 1 : 0;
  }
  return count;
}

int convolutions_of_channels(const Tensor& x) {
  const auto made = must(passes::put_channels_last(must(passes::run_pipeline(graph_of({x})))));
  return made ? convolutions_of_channels(made->graph) : -1;
}

TEST(ChannelsLastPass, SumsGoOverTapsAndThenOverChannels) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 8, 6, 6}), w = Tensor::input("w", DType::f32, {8, 8, 3, 3});
  const Tensor last = Tensor::input("last", DType::f32, {2, 6, 6, 8});
  EXPECT_EQ(convolutions_of_channels(conv(x, w)), 1);
  EXPECT_EQ(convolutions_of_channels(relu(conv(relu(conv(x, w)), w))), 2);
  EXPECT_EQ(convolutions_of_channels(conv(relu(last).permute({0, 3, 1, 2}), w)), 1) << "channels were last already";
  // The order of operands that readers asked for.
  const Tensor wide = Tensor::input("wide", DType::f32, {2, 8, 66, 66});
  EXPECT_EQ(convolutions_of_channels(conv(wide, w).permute({0, 2, 3, 1}) + 1.0), 1);
}

TEST(ChannelsLastPass, WeightsArePermutedOnce) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 8, 6, 6});
  std::vector<std::byte> bytes;
  for (int i = 0; i < 8 * 8 * 9; ++i) ir::encode(DType::f32, i * 37 % 101, bytes);
  const auto permuted = [&](const Tensor& w) {
    const auto made = must(passes::put_channels_last(must(passes::run_pipeline(graph_of({conv(conv(x, w), w)})))));
    std::pair<int, int> count;  // copies of weights, and constants
    for (const ir::Node& node : made->graph.nodes()) {
      if (node.type.shape != Shape{1, 8, 3, 3, 8}) continue;
      count.first += node.op->role == ops::Role::copy ? 1 : 0;
      count.second += node.op->cls == ops::OpClass::constant ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(permuted(Tensor::input("w", DType::f32, {8, 8, 3, 3})), std::pair(1, 0));
  EXPECT_EQ(permuted(Tensor::constant(DType::f32, {8, 8, 3, 3}, bytes)), std::pair(0, 1)) << "no kernel is needed";
}

/// What convolutions of single channels compute is a copy with channels last, which the next one reads in that order;
/// nothing else is permuted but the image and the weights of each.
TEST(ChannelsLastPass, SingleChannelsAreCopiedWithThemLast) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 8, 6, 6});
  Tensor y = x;
  for (const char* name : {"a", "b"}) y = relu(conv(y, Tensor::input(name, DType::f32, {8, 1, 3, 3}), {.groups = 8}));
  const auto made = must(passes::put_channels_last(must(passes::run_pipeline(graph_of({y.permute({0, 2, 3, 1})})))));
  ASSERT_TRUE(made);
  std::vector<Shape> copies;
  for (const ir::Node& node : made->graph.nodes()) {
    if (node.op->role == ops::Role::copy) copies.push_back(node.type.shape);
  }
  EXPECT_EQ(copies.size(), 5U) << ir::print(made->graph);
  for (const Shape& shape : copies) EXPECT_EQ(shape.back(), Dim(8)) << ir::print(made->graph);
}

/// A value in the order of channels, read by windows in the order of rows: a copy that may be stored.
TEST(TurnedImages, AreCopiesThatAKernelMayStore) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 6, 6, 8}), w = Tensor::input("w", DType::f32, {8, 1, 3, 3});
  const auto copies = [&](const Tensor& image) {
    const ir::Graph graph = must(passes::run_pipeline(graph_of({conv(image, w, {.groups = 8}), image + 1.0})));
    const auto is_copy = [&](const ir::Node& node) {
      return node.op->role == ops::Role::copy && graph.node(node.operands[0]).op->role == ops::Role::permute;
    };
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), is_copy);
  };
  EXPECT_EQ(copies(relu(x).permute({0, 3, 1, 2})), 1);
  EXPECT_EQ(copies(relu(Tensor::input("y", DType::f32, {8, 2, 6, 6})).permute({1, 0, 2, 3})), 0) << "rows stay rows";
}

TEST(ChannelsLastPass, ChangesNoValueOfRandomNetworks) {
  int changed = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ir::Graph graph = must(passes::run_pipeline(RandomNetwork(seed).graph()));
    const auto made = must(passes::put_channels_last(graph));
    if (!made) continue;
    changed += convolutions_of_channels(made->graph) > 0 ? 1 : 0;
    must(ir::verify(made->graph));
    expect_same_values(graph, made->graph, data_for({graph, {}, seed, false}), fmt::format("seed {}", seed));
  }
  EXPECT_GT(changed, 100);
}

}  // namespace
}  // namespace vkfuse::test

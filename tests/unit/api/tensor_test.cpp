// Tensor handles: what is invalid stays so and says why; depth is no limit.
#include <gtest/gtest.h>

#include "api/tensor_node.hpp"
#include "support/device.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

TEST(Tensor, RemembersItsFirstError) {
  const Tensor x = Tensor::input("x", DType::f32, {3});
  const Tensor i = Tensor::input("i", DType::i32, {3});
  const Tensor bad = x + i;
  EXPECT_FALSE(bad.valid());
  EXPECT_EQ(bad.error().message, "The operands of 'add' must have one dtype, but they are f32 and i32.");
  const Tensor later = relu(exp(bad * 2.0) - x).cast(DType::f16);
  EXPECT_FALSE(later.valid());
  EXPECT_EQ(later.error().message, bad.error().message);
  const auto graph = api::to_graph(std::vector<Tensor>{x, later}, {}, "g");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().text(), bad.error().message + "\n  while building output 1");
}

TEST(Tensor, SentencesNameTheValues) {
  const Tensor x = Tensor::input("x", DType::f32, {3, 4});
  EXPECT_NE((x + Tensor::input("z", DType::f32, {5})).error().message.find("Shapes [3, 4] and [5] do not broadcast"),
            std::string::npos);
  EXPECT_EQ(Tensor::apply("frobnicate", {x}).error().message, "'frobnicate' is not the name of an elementwise op.");
  EXPECT_EQ(Tensor::apply("cast", {x}).error().message, "'cast' is not the name of an elementwise op.");
  EXPECT_NE(Tensor::apply("add", {x}).error().message.find("'add' takes 2 operands"), std::string::npos);
  EXPECT_NE(x.bitcast(DType::f16).error().message.find("would change the element size from 4 to 2 bytes"),
            std::string::npos);
  EXPECT_NE(Tensor::input("", DType::f32, {}).error().message.find("empty name"), std::string::npos);
  EXPECT_NE(Tensor::input("x", DType::f32, {-1}).error().message.find("negative dimension -1"), std::string::npos);
  EXPECT_NE(Tensor::iota(DType::u32, {4}, 1).error().message.find("axis 1"), std::string::npos);
  EXPECT_NE(Tensor::iota(DType::boolean, {4}, 0).error().message.find("bool"), std::string::npos);
  EXPECT_NE(bit_not(x).error().message.find("'bit_not' is not defined on f32"), std::string::npos);
  const std::vector<std::byte> three(3);
  EXPECT_NE(Tensor::constant(DType::f32, {1}, three).error().message.find("needs 4 bytes, but 3 were given"),
            std::string::npos);
  EXPECT_NE(Tensor::input("big", DType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40})
                .error()
                .message.find("more elements than 64 bits"),
            std::string::npos);
}

TEST(Tensor, MovedFromHandlesAreInvalid) {
  Tensor x = Tensor::input("x", DType::f32, {3});
  const Tensor kept = std::move(x);
  EXPECT_TRUE(kept.valid());
  EXPECT_FALSE(x.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE((x + kept).valid());
  EXPECT_EQ((x + kept).error().message, "The tensor handle was moved from.");
}

TEST(Tensor, DepthIsNoLimit) {
  Tensor value = Tensor::input("x", DType::f32, {3});
  for (int i = 0; i < 100000; ++i) value = -value;
  const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{value}, {}, "deep"));
  EXPECT_EQ(graph.size(), 100001U);
  Tensor shared = value;  // and a second owner in the middle
  value = relu(value);
  for (int i = 0; i < 100000; ++i) value = value + shared;
}

TEST(Tensor, SharedNodesAreOneNode) {
  const Tensor x = Tensor::input("x", DType::f32, {3});
  const Tensor y = exp(x);
  EXPECT_EQ(must(api::to_graph(std::vector<Tensor>{y + y, y}, {}, "g")).size(), 3U);
}

TEST(Tensor, NamesOfOutputs) {
  const Tensor x = Tensor::input("x", DType::f32, {3});
  const std::vector<Tensor> outputs = {x, -x};
  EXPECT_EQ(must(api::to_graph(outputs, {}, "g")).outputs()[1].name, "y1");
  const std::vector<std::string> twice = {"a", "a"};
  EXPECT_EQ(api::to_graph(outputs, twice, "g").error().message, "Two outputs are named 'a'.");
  const std::vector<std::string> three = {"a", "b", "c"};
  EXPECT_EQ(api::to_graph(outputs, three, "g").error().message, "3 output names were given for 2 outputs.");
  EXPECT_EQ(api::to_graph({}, {}, "g").error().message, "A program needs at least one output.");
  const std::vector<Tensor> clash = {x + Tensor::input("x", DType::f32, {3})};
  EXPECT_EQ(api::to_graph(clash, {}, "g").error().message, "Two inputs are named 'x'.");
}

}  // namespace
}  // namespace vkfuse::test

// Views, reductions and compositions through the handles: which nodes they make, and what is refused.
#include <gtest/gtest.h>

#include <limits>

#include "api/tensor_node.hpp"
#include "support/device.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Tensor x24() { return Tensor::input("x", DType::f32, {2, 4}); }
Tensor xn() { return Tensor::input("x", DType::f32, {Dim::any("n"), 12}); }

/// The statements after the inputs, without numbers of values: "permute axes=[1, 0] : f32[4, 2]; ...".
std::string made(const Tensor& tensor) {
  if (!tensor.valid()) return "error: " + tensor.error().message;
  const ir::Graph graph = must(api::to_graph(std::vector<Tensor>{tensor}, {}, "g"));
  must(ir::verify(graph));
  const std::string text = ir::print(graph);
  std::string all;
  for (std::size_t at = text.find('\n') + 1; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.find(" = input") != std::string::npos || line.find("%") != 2) continue;
    line = line.substr(line.find("= ") + 2);
    for (std::size_t id; (id = line.find(" %")) != std::string::npos;) line.erase(id, line.find(' ', id + 1) - id);
    all += (all.empty() ? "" : "; ") + line;
  }
  return all;
}

bool is_same(const Tensor& a, const Tensor& b) { return a.node() == b.node(); }

TEST(Views, ReshapeCompletesOneDimension) {
  EXPECT_EQ(made(x24().reshape({4, -1})), "reshape : f32[4, 2]");
  EXPECT_EQ(made(x24().reshape({-1})), "reshape : f32[8]");
  EXPECT_EQ(made(xn().reshape({-1, 3, 4})), "reshape : f32[n, 3, 4]");
  EXPECT_EQ(made(xn().reshape({Dim::any("n"), 3, -1})), "reshape : f32[n, 3, 4]");
  EXPECT_EQ(made(Tensor::input("x", DType::f32, {0, 4}).reshape({2, -1})), "reshape : f32[2, 0]");
  EXPECT_EQ(made(Tensor::input("x", DType::f32, {}).reshape({-1})), "reshape : f32[1]");
  EXPECT_EQ(made(x24().reshape({3, -1})), "error: 'reshape' of f32[2, 4] to [3, -1] cannot divide 8 elements by 3.");
  EXPECT_EQ(made(x24().reshape({-1, -1})),
            "error: 'reshape' of f32[2, 4] to [-1, -1] leaves more than one dimension open.");
  EXPECT_EQ(made(x24().reshape({0, -1})), "error: 'reshape' of f32[2, 4] to [0, -1] cannot divide 8 elements by 0.");
  EXPECT_EQ(made(xn().reshape({-1, 4})),
            "error: 'reshape' of f32[n, 12] to [-1, 4] leaves the product of [n] and 3 for one dimension, and there is "
            "no symbol for a product.");
  EXPECT_EQ(made(xn().reshape({-1})),
            "error: 'reshape' of f32[n, 12] to [-1] leaves the product of [n] and 12 for one dimension, and there is "
            "no symbol for a product.");
  EXPECT_EQ(made(x24().reshape({Dim::any("k"), -1})),
            "error: 'reshape' of f32[2, 4] to [k, -1] has no number for its open dimension.");
  EXPECT_EQ(made(x24().reshape({-2, -4})), "error: 'reshape' has a negative dimension -2 in its shape [-2, -4].");
  const std::int64_t large = std::int64_t{1} << 62;
  EXPECT_EQ(made(Tensor::input("x", DType::f32, {large, 0, large}).reshape({-1, 3})), "reshape : f32[0, 3]");
}

TEST(Views, AxesCountFromTheEndToo) {
  EXPECT_EQ(made(x24().permute({-1, 0})), "permute axes=[1, 0] : f32[4, 2]");
  EXPECT_EQ(made(x24().transpose()), "permute axes=[1, 0] : f32[4, 2]");
  EXPECT_EQ(made(Tensor::input("x", DType::f32, {2, 3, 4}).swap_dims(0, -1)), "permute axes=[2, 1, 0] : f32[4, 3, 2]");
  EXPECT_EQ(made(x24().reverse({-1})), "reverse axes=[1] : f32[2, 4]");
  EXPECT_EQ(made(x24().unsqueeze(-1)), "reshape : f32[2, 4, 1]");
  EXPECT_EQ(made(x24().unsqueeze(-3)), "reshape : f32[1, 2, 4]");
  EXPECT_EQ(made(x24().unsqueeze(1).squeeze(-2)), "reshape : f32[2, 1, 4]; reshape : f32[2, 4]");
  EXPECT_EQ(made(concat({x24(), Tensor::input("z", DType::f32, {2, 3})}, -1)), "concat axis=1 : f32[2, 7]");
  EXPECT_EQ(made(x24().unfold(-1, 2, 1, 2)), "unfold axes=[1] sizes=[2] strides=[1] dilations=[2] : f32[2, 2, 2]");
  EXPECT_EQ(made(x24().gather(Tensor::input("i", DType::i32, {}), -2)), "gather axis=0 : f32[4]");
  EXPECT_EQ(made(x24().take_along(Tensor::input("i", DType::i64, {1, 7}), -1)), "take_along axis=1 : f32[2, 7]");
  EXPECT_EQ(made(x24().permute({-3, 0})), "error: 'permute' names axis -3, but f32[2, 4] has 2 axes.");
  EXPECT_EQ(made(x24().swap_dims(0, 2)), "error: 'swap_dims' names axis 2, but f32[2, 4] has 2 axes.");
  EXPECT_EQ(made(x24().squeeze(1)), "error: 'squeeze' removes a dimension of 1, but dimension 1 of f32[2, 4] is 4.");
  EXPECT_EQ(made(x24().squeeze(-3)), "error: 'squeeze' names axis -3, but f32[2, 4] has 2 axes.");
  EXPECT_EQ(made(x24().unsqueeze(3)), "error: 'unsqueeze' puts an axis at 3, but f32[2, 4] takes one at 0 to 2.");
  EXPECT_EQ(made(Tensor::input("x", DType::f32, {4}).transpose()),
            "error: 'transpose' swaps the last two axes, but f32[4] has fewer.");
}

TEST(Views, StepsThatChangeNothingAreTheTensorItself) {
  const Tensor x = x24();
  EXPECT_TRUE(is_same(x, x.reshape({2, 4})));
  EXPECT_TRUE(is_same(x, x.reshape({-1, 4})));
  EXPECT_TRUE(is_same(x, x.permute({0, -1})));
  EXPECT_TRUE(is_same(x, x.swap_dims(1, -1)));
  EXPECT_TRUE(is_same(x, x.broadcast_to({2, 4})));
  EXPECT_TRUE(is_same(x, x.slice(1, 0, kMost)));
  EXPECT_TRUE(is_same(x, x.slice(1, -4, 4)));
  EXPECT_TRUE(is_same(x, x.reverse({})));
  EXPECT_TRUE(is_same(x, x.repeat({1, 1})));
  EXPECT_TRUE(is_same(x, x.pad({0, 0}, {0, 0})));
  EXPECT_TRUE(is_same(x, concat({x}, 1)));
  EXPECT_TRUE(is_same(x, dropout(x, 1, 7)));
  const Tensor scalar = Tensor::input("s", DType::f32, {});
  EXPECT_TRUE(is_same(scalar, scalar.sum()));
  EXPECT_TRUE(is_same(scalar, scalar.mean({}, true)));
  EXPECT_TRUE(is_same(scalar, scalar.permute({})));
}

// Against a list that is built by walking, as Python does it.
TEST(Views, SlicesClampAsNumPyDoes) {
  const std::vector<std::int64_t> bounds = {kLeast, -9, -5, -4, -3, -1, 0, 1, 2, 3, 4, 5, 9, kMost};
  for (std::int64_t size : {0, 1, 4, 5}) {
    const Tensor x = Tensor::input("x", DType::f32, {Dim(size)});
    for (std::int64_t step : {kLeast, std::int64_t{-7}, std::int64_t{-2}, std::int64_t{-1}, std::int64_t{1},
                              std::int64_t{2}, std::int64_t{3}, kMost}) {
      for (std::int64_t start : bounds) {
        for (std::int64_t end : bounds) {
          // Python's slice.indices().
          const std::int64_t low = step < 0 ? -1 : 0;
          const std::int64_t high = step < 0 ? size - 1 : size;
          const auto clip = [&](std::int64_t at) { return std::max(low, std::min(high, at < 0 ? at + size : at)); };
          std::vector<std::int64_t> wanted;
          for (std::int64_t at = clip(start); step > 0 ? at < clip(end) : at > clip(end);) {
            wanted.push_back(at);
            if (step > size || step < -size) break;
            at += step;
          }
          const Tensor y = x.slice(0, start, end, step);
          ASSERT_TRUE(y.valid()) << y.error().text();
          ASSERT_TRUE(y.shape() == Shape{Dim(static_cast<std::int64_t>(wanted.size()))})
              << size << ": " << start << ":" << end << ":" << step;
          if (is_same(x, y)) {
            for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(wanted[i], static_cast<std::int64_t>(i));
            continue;
          }
          const auto& payload = std::get<ir::SlicePayload>(y.node()->payload);
          for (std::size_t i = 0; i < wanted.size(); ++i)
            ASSERT_EQ(wanted[i], payload.starts[0] + static_cast<std::int64_t>(i) * payload.steps[0]);
        }
      }
    }
  }
}

TEST(Views, SymbolicAxesAreTakenWholeOrReversed) {
  const Tensor x = xn();
  EXPECT_TRUE(is_same(x, x.slice(0, 0, kMost)));
  EXPECT_TRUE(is_same(x, x.slice(0, kLeast, kMost)));
  EXPECT_EQ(made(x.slice(0, -1, kLeast, -1)), "reverse axes=[0] : f32[n, 12]");
  EXPECT_EQ(made(x.slice(1, 0, 6)), "slice starts=[0, 0] steps=[1, 1] : f32[n, 6]");
  EXPECT_EQ(made(x.slice(0, 1, kMost)),
            "error: 'slice' from 1 to 9223372036854775807 in steps of 1 along axis 0 of f32[n, 12] is neither the "
            "whole of the symbolic axis nor its reversal.");
  EXPECT_FALSE(x.slice(0, 0, 4096).valid());
  EXPECT_FALSE(x.slice(0, -1, 0, -1).valid());
  EXPECT_FALSE(x.slice(0, 0, kMost, 2).valid());
  const Tensor few = Tensor::input("x", DType::f32, {Dim::any("n", {1, 64})});
  EXPECT_TRUE(is_same(few, few.slice(0, 0, 64)));
  EXPECT_FALSE(few.slice(0, 0, 63).valid());
  EXPECT_EQ(made(few.slice(0, 63, -65, -1)), "reverse axes=[0] : f32[n]");
  EXPECT_FALSE(few.slice(0, 63, -64, -1).valid());
  EXPECT_FALSE(few.slice(0, 62, -65, -1).valid());
  EXPECT_EQ(made(x.select(0, 1)),
            "error: 'select' takes index 1 along axis 0 of f32[n, 12], but a symbolic axis can only be taken whole.");
}

TEST(Views, SelectRepeatPad) {
  EXPECT_EQ(made(x24().select(1, -1)), "slice starts=[0, 3] steps=[1, 1] : f32[2, 1]; reshape : f32[2]");
  EXPECT_EQ(made(xn().select(-1, 2)), "slice starts=[0, 2] steps=[1, 1] : f32[n, 1]; reshape : f32[n]");
  EXPECT_EQ(made(x24().select(1, 4)),
            "error: 'select' takes index 4 along axis 1 of f32[2, 4], which is out of range.");
  EXPECT_EQ(made(x24().select(1, -5)),
            "error: 'select' takes index -5 along axis 1 of f32[2, 4], which is out of range.");
  EXPECT_EQ(made(x24().select(2, 0)), "error: 'select' names axis 2, but f32[2, 4] has 2 axes.");
  EXPECT_EQ(made(x24().repeat({3, 1})), "reshape : f32[1, 2, 4]; broadcast : f32[3, 2, 4]; reshape : f32[6, 4]");
  EXPECT_EQ(made(xn().repeat({1, 2})), "reshape : f32[n, 1, 12]; broadcast : f32[n, 2, 12]; reshape : f32[n, 24]");
  EXPECT_EQ(made(x24().repeat({0, 1})), "reshape : f32[1, 2, 4]; broadcast : f32[0, 2, 4]; reshape : f32[0, 4]");
  EXPECT_EQ(made(xn().repeat({2, 1})), "error: 'repeat' of axis 0 of f32[n, 12] by 2 has no symbol for the product.");
  EXPECT_EQ(made(x24().repeat({-1, 1})), "error: 'repeat' cannot repeat axis 0 of f32[2, 4] -1 times.");
  EXPECT_EQ(made(x24().repeat({kMost, 1})),
            "error: 'repeat' cannot repeat axis 0 of f32[2, 4] 9223372036854775807 times.");
  EXPECT_EQ(made(x24().repeat({2})), "error: 'repeat' takes one number for each axis of f32[2, 4], but 1 were given.");
  EXPECT_EQ(made(x24().pad({0, 1}, {2, 0}, 0.5)), "constant {0.5} : f32[]; pad low=[0, 1] high=[2, 0] : f32[4, 5]");
  EXPECT_EQ(made(x24().pad({0, -1}, {0, -2})), "slice starts=[0, 1] steps=[1, 1] : f32[2, 1]");
  EXPECT_EQ(
      made(x24().pad({-1, -4}, {0, 3})),
      "slice starts=[1, 4] steps=[1, 1] : f32[1, 0]; constant {0} : f32[]; pad low=[0, 0] high=[0, 3] : f32[1, 3]");
  EXPECT_EQ(made(x24().pad({0, -3}, {0, -2})),
            "error: 'pad' of axis 1 of f32[2, 4] by -3 and -2 cuts more elements than are known to be there.");
  EXPECT_EQ(made(x24().pad({kLeast, 0}, {kLeast, 0})),
            "error: 'pad' of axis 0 of f32[2, 4] by -9223372036854775808 and -9223372036854775808 cuts more elements "
            "than are known to be there.");
  EXPECT_EQ(made(xn().pad({-1, 0}, {0, 0})),
            "error: 'pad' of axis 0 of f32[n, 12] by -1 and 0 cuts more elements than are known to be there.");
  EXPECT_EQ(made(x24().pad({0}, {0, 1})),
            "error: 'pad' takes a low and a high amount for each axis of f32[2, 4], but 1 and 2 were given.");
}

TEST(Views, PositionsInData) {
  const Tensor i = Tensor::input("i", DType::i32, {3});
  const Tensor updates = Tensor::input("u", DType::f32, {3, 4});
  EXPECT_EQ(made(x24().scatter(i, updates)), "scatter mode=set : f32[2, 4]");
  EXPECT_EQ(made(x24().scatter(i, updates, "max")), "scatter mode=max : f32[2, 4]");
  EXPECT_EQ(made(x24().scatter(i, updates, "sub")),
            "error: 'sub' is not a mode of scatter: set, add, mul, max or min.");
  EXPECT_EQ(made(x24().slice_assign(Tensor::input("u", DType::f32, {1, 2}), {1, 1})),
            "slice_assign starts=[1, 1] steps=[1, 1] : f32[2, 4]");
  EXPECT_EQ(made(x24().slice_assign(Tensor::input("u", DType::f32, {2, 2}), {1, 0}, {-1, 3})),
            "slice_assign starts=[1, 0] steps=[-1, 3] : f32[2, 4]");
  EXPECT_EQ(made(x24().gather(Tensor::input("i", DType::f32, {3}), 0)),
            "error: The positions that 'gather' takes must be i32, u32 or i64, but they are f32.");
}

TEST(Reductions, AxesAreSortedKeptOrRemoved) {
  const Tensor x = Tensor::input("x", DType::f32, {2, Dim::any("n"), 4});
  EXPECT_EQ(made(x.sum()), "reduce_sum axes=[0, 1, 2] : f32[]");
  EXPECT_EQ(made(x.sum({-1, 0})), "reduce_sum axes=[0, 2] : f32[n]");
  EXPECT_EQ(made(x.prod({1}, true)), "reduce_prod axes=[1] : f32[2, 4]; reshape : f32[2, 1, 4]");
  EXPECT_EQ(made(x.mean({1})), "reduce_mean axes=[1] : f32[2, 4]");
  EXPECT_EQ(made(x.max({2})), "reduce_max axes=[2] : f32[2, n]");
  EXPECT_EQ(made(x.min({}, true)), "reduce_min axes=[0, 1, 2] : f32[]; reshape : f32[1, 1, 1]");
  EXPECT_EQ(made(x.argmax(-1)), "argmax axes=[2] : i32[2, n]");
  EXPECT_EQ(made(x.argmin(0, true)), "argmin axes=[0] : i32[n, 4]; reshape : i32[1, n, 4]");
  EXPECT_EQ(made(Tensor::input("b", DType::boolean, {4}).any()), "reduce_any axes=[0] : bool[]");
  EXPECT_EQ(made(Tensor::input("b", DType::boolean, {4}).all({0}, true)),
            "reduce_all axes=[0] : bool[]; reshape : bool[1]");
  EXPECT_EQ(made(x.sum({0, -3})), "error: 'reduce_sum' names axis 0 twice.");
  EXPECT_EQ(made(x.sum({3})), "error: 'reduce_sum' names axis 3, but f32[2, n, 4] has 3 axes.");
  EXPECT_EQ(made(x.any()), "error: 'reduce_any' is not defined on f32; it takes bool.");
  EXPECT_EQ(made(x.reduce("add")), "error: 'add' is not the name of a reduction.");
  EXPECT_EQ(made(x.reduce("argmax")), "error: 'argmax' runs along one axis, but 3 were given.");
  EXPECT_EQ(made(Tensor::input("s", DType::i32, {}).mean()),
            "error: 'reduce_mean' is not defined on i32; it takes f32, f16, bf16 and f64.");
  EXPECT_EQ(made(Tensor::input("s", DType::i32, {}).argmax(0)), "error: 'argmax' names axis 0, but i32[] has 0 axes.");
  EXPECT_EQ(made(Tensor::input("e", DType::i32, {3, 0}).max({1})),
            "error: 'reduce_max' along axis 1 of i32[3, 0] has no elements to choose from.");
  EXPECT_EQ(made(x.cumsum(-1, true)), "cumsum axis=2 exclusive=true reverse=false : f32[2, n, 4]");
  EXPECT_EQ(made(x.cumprod(0, false, true)), "cumprod axis=0 exclusive=false reverse=true : f32[2, n, 4]");
  EXPECT_EQ(made(x.cummax(1)), "cummax axis=1 exclusive=false reverse=false : f32[2, n, 4]");
  EXPECT_EQ(made(x.cummin(1, true, true)), "cummin axis=1 exclusive=true reverse=true : f32[2, n, 4]");
  EXPECT_EQ(made(x.argsort(-1)), "argsort axis=2 descending=false count=4 : i32[2, n, 4]");
  EXPECT_EQ(made(x.argsort(2, true, 3)), "argsort axis=2 descending=true count=3 : i32[2, n, 3]");
  EXPECT_EQ(made(x.argsort(1)), "argsort axis=1 descending=false count=0 : i32[2, n, 4]");
  EXPECT_EQ(made(x.argsort(5)), "error: 'argsort' names axis 5, but f32[2, n, 4] has 3 axes.");
}

TEST(Compositions, AreTheirPrimitives) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 8});
  EXPECT_EQ(made(softmax(x)),
            "reduce_max axes=[1] : f32[n]; reshape : f32[n, 1]; sub : f32[n, 8]; exp : f32[n, 8]; "
            "reduce_sum axes=[1] : f32[n]; reshape : f32[n, 1]; div : f32[n, 8]");
  EXPECT_EQ(made(cross_entropy(x, Tensor::input("l", DType::i64, {Dim::any("n")}))),
            "reduce_max axes=[1] : f32[n]; reshape : f32[n, 1]; sub : f32[n, 8]; exp : f32[n, 8]; reduce_sum axes=[1] "
            ": f32[n]; log : f32[n]; "
            "reshape : i64[n, 1]; take_along axis=1 : f32[n, 1]; sub : f32[n, 1]; reshape : f32[n]; sub : f32[n]");
  EXPECT_EQ(made(top_k(x, 3).values),
            "argsort axis=1 descending=true count=3 : i32[n, 3]; take_along axis=1 : f32[n, 3]");
  EXPECT_EQ(made(top_k(x, 3, -1, false).positions), "argsort axis=1 descending=false count=3 : i32[n, 3]");
  EXPECT_EQ(normalize(x, {-1}, 1e-5).shape(), x.shape());
  EXPECT_EQ(made(cross_entropy(x, Tensor::input("l", DType::i64, {3}))),
            "error: 'cross_entropy' takes logits of [rows, classes] and labels of [rows], but they are f32[n, 8] and "
            "i64[3].");
  EXPECT_EQ(made(top_k(x, 0).values),
            "error: 'top_k' takes the best 0 elements of f32[n, 8], but it takes at least 1.");
  EXPECT_EQ(made(top_k(x, 9).values), "error: 'argsort' gives 9 positions of axis 1 of f32[n, 8]; it can give 1 to 8.");
  EXPECT_EQ(made(dropout(x, 0, 1)),
            "error: 'dropout' keeps elements with a probability above 0 and up to 1, but it is 0.");
  EXPECT_EQ(made(dropout(Tensor::input("i", DType::i32, {3}), 0.5, 1)),
            "error: 'dropout' is not defined on i32; it takes floats.");
}

TEST(Compositions, AnInvalidOperandGivesItsOwnError) {
  const Tensor bad = x24() + Tensor::input("z", DType::i32, {2, 4});
  const Tensor x = x24();
  const Tensor i = Tensor::input("i", DType::i32, {2});
  const std::vector<Tensor> results = {bad.reshape({8}),
                                       bad.permute({1, 0}),
                                       bad.swap_dims(0, 1),
                                       bad.transpose(),
                                       bad.broadcast_to({3, 2, 4}),
                                       bad.unsqueeze(0),
                                       bad.squeeze(0),
                                       bad.slice(0, 0, 1),
                                       bad.select(0, 0),
                                       bad.reverse({0}),
                                       bad.repeat({2, 2}),
                                       bad.pad({1, 1}, {0, 0}),
                                       bad.unfold(0, 2),
                                       bad.slice_assign(x, {0, 0}),
                                       x.slice_assign(bad, {0, 0}),
                                       bad.gather(i, 0),
                                       x.gather(bad, 0),
                                       bad.take_along(i, 0),
                                       bad.scatter(i, x),
                                       bad.scatter(i, x, "sub"),
                                       x.scatter(bad, x),
                                       x.scatter(i, bad),
                                       bad.sum(),
                                       bad.argmax(0),
                                       bad.reduce("nothing"),
                                       bad.cumsum(0),
                                       bad.argsort(0),
                                       concat({x, bad}, 0),
                                       softmax(bad),
                                       log_softmax(bad),
                                       normalize(bad, {0}, 0.1),
                                       rms_normalize(bad, {0}, 0.1),
                                       cross_entropy(bad, i),
                                       cross_entropy(x, bad),
                                       silu(bad),
                                       top_k(bad, 1).values,
                                       top_k(bad, 0).positions,
                                       dropout(bad, 0.5, 1),
                                       dropout(bad, 7, 1)};
  for (std::size_t k = 0; k < results.size(); ++k) {
    ASSERT_FALSE(results[k].valid()) << k;
    EXPECT_EQ(results[k].error().message, bad.error().message) << k;
  }
}

}  // namespace
}  // namespace vkfuse::test

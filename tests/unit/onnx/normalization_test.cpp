// Normalisations that ONNX 1.12's node tests lack, and arguments they do not try.
#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kHalf = pb::TensorProto::FLOAT16;
const List kFour{1, 3, 5, 11};

/// (x - mean) / sqrt(variance + epsilon) of each run of `length` elements.
List normalised(const List& x, std::size_t length, double epsilon = 1e-5) {
  List result;
  for (std::size_t start = 0; start < x.size(); start += length) {
    double mean = 0, square = 0;
    for (std::size_t i = start; i < start + length; ++i) mean += x[i] / static_cast<double>(length);
    for (std::size_t i = start; i < start + length; ++i) {
      square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(length);
    }
    for (std::size_t i = start; i < start + length; ++i) {
      result.push_back((x[i] - mean) / std::sqrt(square + epsilon));
    }
  }
  return result;
}

TEST(OnnxNormalization, LayerNormStaysExactFarFromZero) {
  // The mean of the squares minus the square of the mean would have no bit left here.
  const List far{4001, 4003, 4005, 4011};
  expect_near(OneNode("LayerNormalization").input({1, 4}, far).input({4}, List(4, 1.0)).value(), normalised(far, 4),
              1e-3);
}

TEST(OnnxNormalization, LayerNormOfHalvesKeepsItsStatisticsInF32) {
  OneNode node("LayerNormalization");
  node.input({1, 4}, kFour, kHalf).input({4}, {1, 1, 1, 2}, kHalf).input({4}, {0, 0, 0, 1}, kHalf);
  const std::vector<Computed> y = node.outputs(3);
  EXPECT_EQ(y[0].dtype, DType::f16);
  EXPECT_EQ(y[1].dtype, DType::f32);
  List want = normalised(kFour, 4);
  want[3] = want[3] * 2 + 1;
  expect_near(y[0].values, want, 5e-3);
  expect_near(y[1].values, {5});
}

TEST(OnnxNormalization, SquaresOfHalvesDoNotOverflow) {
  OneNode node("InstanceNormalization");
  node.input({1, 1, 2}, {-300, 300}, kHalf).input({1}, {1}, kHalf).input({1}, {0}, kHalf);
  expect_near(node.value(), {-1, 1}, 1e-3);
}

TEST(OnnxNormalization, AnEvenNumberOfChannelsReachesForward) {
  OneNode node = OneNode("LRN").input({1, 2}, {1, 2}).integer("size", 2).real("alpha", 2).real("beta", 1);
  expect_near(node.real("bias", 0).value(), {1.0 / 5, 2.0 / 4});
}

TEST(OnnxNormalization, RmsNorm) {
  OneNode node = OneNode("RMSNormalization", 23).input({2, 2}, kFour).input({2}, {1, 10}).real("epsilon", 0);
  const double first = std::sqrt(5.0), second = std::sqrt(73.0);
  expect_near(node.value(), {1 / first, 30 / first, 5 / second, 110 / second});
}

TEST(OnnxNormalization, GroupNormScalesGroupsThenChannels) {
  // Four channels of one element in two groups.
  const List plain = normalised(kFour, 2);
  OneNode old = OneNode("GroupNormalization", 18).input({1, 4, 1}, kFour).input({2}, {1, 10}).input({2}, {0, 5});
  expect_near(old.integer("num_groups", 2).value(), {plain[0], plain[1], plain[2] * 10 + 5, plain[3] * 10 + 5}, 1e-4);
  OneNode per_channel("GroupNormalization", 21);
  per_channel.input({1, 4, 1}, kFour).input({4}, {1, 2, 3, 4}).input({4}, {0, 0, 0, 7}).integer("num_groups", 2);
  expect_near(per_channel.value(), {plain[0], plain[1] * 2, plain[2] * 3, plain[3] * 4 + 7}, 1e-4);
}

TEST(OnnxNormalization, LpNormLeavesZerosAlone) {
  expect_near(OneNode("LpNormalization").input({2, 2}, {3, 4, 0, 0}).value(), {0.6, 0.8, 0, 0});
  expect_near(OneNode("LpNormalization").input({2, 1}, {3, -1}).integer("p", 1).integer("axis", 0).value(),
              {0.75, -0.25});
}

TEST(OnnxNormalization, BatchNormOfAVectorHasOneChannel) {
  OneNode node("BatchNormalization");
  for (const List& channel : {List{2}, List{1}, List{3}, List{4}}) {
    if (channel[0] == 2) node.input({4}, kFour);
    node.input({1}, channel);
  }
  expect_near(node.real("epsilon", 0).value(), {-1, 1, 3, 9});
}

OneNode batch_norm(std::int64_t opset) {
  OneNode node("BatchNormalization", opset);
  node.input({1, 2, 2}, kFour).input({2}, {1, 1}).input({2}, {0, 0}).input({2}, {1, 5}).input({2}, {1, 1});
  return node;
}

TEST(OnnxNormalization, BatchNormTrainsFromOpset14Only) {
  expect_near(batch_norm(9).real("epsilon", 0).value(), {0, 2, 0, 6});
  expect_near(batch_norm(6).integer("is_test", 1).real("epsilon", 0).value(), {0, 2, 0, 6});
  expect_unsupported(batch_norm(6).integer("is_test", 0).error(), "training mode is not supported before opset 14");
  expect_unsupported(batch_norm(9).error(5), "training mode is not supported before opset 14");
  expect_unsupported(batch_norm(7).integer("spatial", 0).error(), "'spatial' is 0");
}

TEST(OnnxNormalization, RefusesBadOperands) {
  expect_invalid(
      OneNode("InstanceNormalization").input({1, 2, 1}, {1, 2}).input({3}, {1, 1, 1}).input({2}, {0, 0}).error(),
      "Operand 1 has the shape [3], but axis 1 of the input [1, 2, 1] asks for [2].");
  expect_invalid(OneNode("InstanceNormalization").input({2}, {1, 2}).input({1}, {1}).input({1}, {0}).error(),
                 "has rank 1");
  expect_invalid(OneNode("LayerNormalization").input({4}, kFour).input({4}, kFour).integer("axis", 2).error(),
                 "'axis' is 2");
  expect_invalid(OneNode("LayerNormalization").input({4}, kFour).input({4}, kFour).integer("stash_type", 7).error(),
                 "Attribute 'stash_type' is i64");
  OneNode groups("GroupNormalization", 21);
  groups.input({1, 4, 1}, kFour).input({4}, kFour).input({4}, kFour).integer("num_groups", 3);
  expect_invalid(groups.error(), "Attribute 'num_groups' is 3; it must divide the 4 channels.");
  expect_invalid(OneNode("LRN").input({1, 1}, {1}).error(), "Attribute 'size' is missing.");
  expect_invalid(OneNode("LRN").input({1, 1}, {1}).integer("size", 0).error(), "Attribute 'size' is 0");
  expect_invalid(OneNode("LpNormalization").input({1}, {1}).integer("p", 3).error(), "Attribute 'p' is 3");
  expect_invalid(OneNode("MeanVarianceNormalization").input({4}, kFour).error(), "is 2; the input has rank 1");
}

}  // namespace
}  // namespace vkfuse::onnx

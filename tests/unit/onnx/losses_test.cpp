// Losses and Einsum, beyond what ONNX 1.12's node tests try.
#include <cmath>
#include <limits>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kInt32 = pb::TensorProto::INT32;
const auto kInt64 = pb::TensorProto::INT64;
const List kLogs{-1, -2, -3, -4, -5, -6};  // two rows of three classes

OneNode likelihood(const List& labels) {
  return OneNode("NegativeLogLikelihoodLoss").input({2, 3}, kLogs).input({2}, labels, kInt64);
}

TEST(OnnxLosses, IgnoredLabelsNeedNotBeClasses) {
  EXPECT_EQ(likelihood({2, -100}).integer("ignore_index", -100).value(), (List{3}));
  EXPECT_EQ(likelihood({2, -100}).integer("ignore_index", -100).text("reduction", "none").value(), (List{3, 0}));
}

TEST(OnnxLosses, IgnoresWhatClassZeroLost) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  OneNode node("NegativeLogLikelihoodLoss");
  node.input({2, 2}, {-1, -2, -kInfinity, -2}).input({2}, {1, 7}, kInt32).integer("ignore_index", 7);
  EXPECT_EQ(node.text("reduction", "sum").value(), (List{2}));
}

TEST(OnnxLosses, WeighsTheMean) {
  EXPECT_EQ(likelihood({0, 2}).input({3}, {1, 1, 3}).value(), (List{(1 + 3 * 6) / 4.0}));
  EXPECT_EQ(likelihood({0, 2}).text("reduction", "sum").value(), (List{7}));
}

TEST(OnnxLosses, SoftmaxCrossEntropyReturnsItsLogarithms) {
  OneNode node = OneNode("SoftmaxCrossEntropyLoss").input({1, 2}, {0, 0}).input({1}, {1}, kInt64);
  const std::vector<Computed> y = node.outputs(2);
  expect_near(y[0].values, {std::log(2.0)});
  expect_near(y[1].values, {-std::log(2.0), -std::log(2.0)});
}

TEST(OnnxLosses, RefuseBadOperands) {
  expect_invalid(likelihood({0, 1}).text("reduction", "max").error(), "Attribute 'reduction' is 'max'");
  expect_invalid(likelihood({0, 1}).input({2}, {1, 1}).error(), "The weights are f32[2]; the input asks for f32[3].");
  OneNode few = OneNode("NegativeLogLikelihoodLoss").input({2, 3}, kLogs).input({3}, {0, 1, 2}, kInt64);
  expect_invalid(few.error(), "The labels are i64[3]; an input of [2, 3] asks for integers of [2].");
  OneNode vector = OneNode("SoftmaxCrossEntropyLoss").input({2}, {0, 0}).input({2}, {0, 0}, kInt64);
  expect_invalid(vector.error(), "has rank 1; it must be at least 2.");
}

OneNode einsum(const std::string& equation) { return OneNode("Einsum").text("equation", equation); }

TEST(OnnxEinsum, DiagonalsSumsAndOuterProducts) {
  const List x{1, 2, 3, 4};
  EXPECT_EQ(einsum("ii->i").input({2, 2}, x).value(), (List{1, 4}));
  EXPECT_EQ(einsum("ii").input({2, 2}, x).value(), (List{5}));
  EXPECT_EQ(einsum("iii->i").input({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).value(), (List{1, 8}));
  EXPECT_EQ(einsum("ba").input({2, 2}, x).value(), (List{1, 3, 2, 4}));
  EXPECT_EQ(einsum("i,j->ji").input({2}, {1, 2}).input({2}, {3, 4}).value(), (List{3, 6, 4, 8}));
  EXPECT_EQ(einsum("i...->...").input({2, 2}, x).value(), (List{4, 6}));
  EXPECT_EQ(einsum("...j,...j->...j").input({2, 2}, x).input({2}, {1, 10}).value(), (List{1, 20, 3, 40}));
}

TEST(OnnxEinsum, RefusesWhatItCannot) {
  const List x{1, 2, 3, 4};
  expect_invalid(einsum("ij,jk->ik").input({2, 2}, x).input({3, 2}, {1, 2, 3, 4, 5, 6}).error(),
                 "contracts axis 1 of f32[2, 2] with axis 0 of f32[3, 2]");
  expect_invalid(einsum("ij->i").input({4}, x).error(), "Term 0 of the equation 'ij->i' has 2 letters");
  expect_invalid(einsum("i,i->i").input({4}, x).error(), "of 2 terms; the node has 1 operands.");
  expect_invalid(einsum("i->j").input({4}, x).error(), "which is not an equation");
  expect_invalid(einsum("i->ii").input({4}, x).error(), "which is not an equation");
  expect_invalid(einsum("1->1").input({4}, x).error(), "which is not an equation");
  expect_invalid(einsum("ii->i").input({1, 4}, x).error(), "Letter 'i' stands for dimensions 1 and 4");
}

}  // namespace
}  // namespace vkfuse::onnx

// Reductions, positions of extremes, running sums, order and softmax, beyond ONNX 1.12's node tests.
#include <cmath>
#include <limits>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kBool = pb::TensorProto::BOOL;
const auto kInt32 = pb::TensorProto::INT32;
const auto kInt64 = pb::TensorProto::INT64;
const List kSix{1, 2, 3, 4, 5, 6};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(OnnxReductions, AxesAreAnOperandFromOpset18) {
  OneNode sum = OneNode("ReduceSum", 18).input({2, 3}, kSix).known({1}, {-1}).integer("keepdims", 0);
  EXPECT_EQ(sum.value(), (List{6, 15}));
  EXPECT_EQ(OneNode("ReduceMax", 18).input({2, 3}, kSix).known({1}, {0}).value(), (List{4, 5, 6}));
  EXPECT_EQ(OneNode("ReduceMax", 18).input({2, 3}, kSix).known({0}, {}).output().sizes, (Sizes{1, 1}));
}

TEST(OnnxReductions, NoAxesMayMeanNone) {
  OneNode square = OneNode("ReduceSumSquare", 18).input({2, 3}, kSix).integer("noop_with_empty_axes", 1);
  EXPECT_EQ(square.value(), (List{1, 4, 9, 16, 25, 36}));
  EXPECT_EQ(OneNode("ReduceSum").input({}, {3}).value(), (List{3}));
}

TEST(OnnxReductions, IntegersStayIntegers) {
  EXPECT_EQ(OneNode("ReduceMean").input({3}, {1, 2, 4}, kInt32).value(), (List{2}));
  EXPECT_EQ(OneNode("ReduceL2").input({2}, {3, 4}, kInt32).value(), (List{5}));
  EXPECT_EQ(OneNode("ReduceL1").input({2}, {-3, 4}, kInt32).value(), (List{7}));
}

TEST(OnnxReductions, BooleansHaveExtremes) {
  EXPECT_EQ(OneNode("ReduceMax", 20).input({2}, {0, 1}, kBool).value(), (List{1}));
  EXPECT_EQ(OneNode("ReduceMin", 20).input({2}, {0, 1}, kBool).value(), (List{0}));
}

TEST(OnnxReductions, ExtremesOfNothing) {
  EXPECT_EQ(OneNode("ReduceMax", 20).input({2, 0}, {}).known({1}, {1}).value(), (List{-kInfinity, -kInfinity}));
  EXPECT_EQ(OneNode("ReduceMin", 20).input({0}, {}, pb::TensorProto::INT8).value(), (List{127}));
  EXPECT_EQ(OneNode("ReduceMax", 20).input({0}, {}, kInt32).integer("keepdims", 0).output().sizes, (Sizes{}));
  EXPECT_EQ(OneNode("ReduceMin", 20).input({0}, {}, pb::TensorProto::UINT32).value(), (List{4294967295}));
  EXPECT_EQ(OneNode("ReduceLogSumExp", 18).input({0}, {}).value(), (List{-kInfinity}));
}

TEST(OnnxReductions, LogSumExpDoesNotOverflow) {
  expect_near(OneNode("ReduceLogSumExp").input({2}, {1000, 1000}).value(), {1000 + std::log(2.0)}, 1e-3);
  EXPECT_EQ(OneNode("ReduceLogSumExp").input({2}, {-kInfinity, -kInfinity}).value(), (List{-kInfinity}));
  EXPECT_EQ(OneNode("ReduceLogSumExp").input({2}, {kInfinity, 0}).value(), (List{kInfinity}));
}

TEST(OnnxReductions, RefusesBadAxes) {
  expect_invalid(OneNode("ReduceSum").input({2, 3}, kSix).known({1}, {2}).error(), "A reduced axis is 2");
  expect_invalid(OneNode("ReduceMin").input({2, 3}, kSix).integers("axes", {0, -2}).error(), "listed twice in [0, -2]");
  expect_invalid(OneNode("ArgMax").input({2, 3}, kSix).integer("axis", -3).error(), "Attribute 'axis' is -3");
  expect_invalid(OneNode("CumSum").input({2, 3}, kSix).known({}, {2}).error(), "The axis (operand 1) is 2");
  expect_invalid(OneNode("CumSum").input({2, 3}, kSix).known({2}, {0, 1}).error(), "must be one integer");
  expect_unsupported(OneNode("CumSum").input({2, 3}, kSix).input({}, {0}, kInt64).error(), "The axis (operand 1)");
}

TEST(OnnxReductions, TopKTakesItsCountFromEitherPlace) {
  const std::vector<Computed> best = OneNode("TopK", 9).input({4}, {3, 1, 4, 1}).integer("k", 2).outputs(2);
  EXPECT_EQ(best[0].values, (List{4, 3}));
  EXPECT_EQ(best[1].values, (List{2, 0}));
  EXPECT_EQ(best[1].dtype, DType::i64);
  EXPECT_EQ(OneNode("TopK").input({2}, {1, 2}).known({1}, {0}).outputs(2)[1].sizes, (Sizes{0}));
  expect_invalid(OneNode("TopK", 9).input({2}, {1, 2}).error(2), "Attribute 'k' is missing.");
  expect_invalid(OneNode("TopK").input({2}, {1, 2}).known({1}, {3}).error(2), "keep is 3; axis 0 has 2.");
}

TEST(OnnxReductions, SoftmaxSawAMatrixBeforeOpset13) {
  // Four elements of one row, although the last axis has two.
  const List y = OneNode("Softmax", 11).input({1, 2, 2}, {0, 0, 0, 0}).value();
  expect_near(y, {0.25, 0.25, 0.25, 0.25});
  expect_near(OneNode("Softmax", 13).input({1, 2, 2}, {0, 0, 0, 0}).value(), {0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(OneNode("Hardmax", 11).input({1, 2, 2}, {1, 3, 3, 2}).value(), (List{0, 1, 0, 0}));
  EXPECT_EQ(OneNode("Hardmax", 13).input({1, 2, 2}, {1, 3, 3, 2}).value(), (List{0, 1, 1, 0}));
  expect_near(OneNode("LogSoftmax", 11).input({1, 2, 2}, {0, 0, 0, 0}).value(), List(4, -std::log(4.0)));
  expect_invalid(OneNode("Softmax").input({}, {0}).error(), "has rank 0; it must be at least 1.");
  expect_invalid(OneNode("Softmax").input({2}, {0, 0}).integer("axis", 1).error(), "Attribute 'axis' is 1");
}

}  // namespace
}  // namespace vkfuse::onnx

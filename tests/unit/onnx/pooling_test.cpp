// Pooling, beyond what ONNX 1.12's node tests try.
#include <cmath>
#include <limits>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kInt8 = pb::TensorProto::INT8;
const auto kInt64 = pb::TensorProto::INT64;
const List kFive{1, -2, 3, 4, 5};

OneNode pool(const std::string& op, const List& x, std::int64_t size, std::int64_t opset = 19) {
  return OneNode(op, opset).input({1, 1, static_cast<std::int64_t>(x.size())}, x).integers("kernel_shape", {size});
}

TEST(OnnxPooling, RoundsUpAndAveragesWhatIsThere) {
  EXPECT_EQ(pool("AveragePool", kFive, 2).integers("strides", {2}).integer("ceil_mode", 1).value(),
            (List{-0.5, 3.5, 5}));
  // Padding counts where it is asked to, but what the last window hangs over never does.
  OneNode padded = pool("AveragePool", kFive, 2).integers("strides", {2}).integers("pads", {1, 1});
  EXPECT_EQ(padded.integer("count_include_pad", 1).value(), (List{0.5, 0.5, 4.5}));
  OneNode hanging = pool("AveragePool", {1, 2, 3, 4}, 3).integers("strides", {2}).integer("ceil_mode", 1);
  EXPECT_EQ(hanging.integer("count_include_pad", 1).value(), (List{2, 3.5}));
}

TEST(OnnxPooling, DropsAWindowThatStartsInThePadding) {
  // (4 + 2 - 2) / 3, rounded up, asks for a third window: it would start at the padding behind the end.
  OneNode node =
      pool("MaxPool", {1, 2, 3, 4}, 2).integers("strides", {3}).integers("pads", {1, 1}).integer("ceil_mode", 1);
  EXPECT_EQ(node.value(), (List{1, 4}));
}

TEST(OnnxPooling, DilatedAverages) {
  EXPECT_EQ(pool("AveragePool", kFive, 2).integers("dilations", {3}).value(), (List{2.5, 1.5}));
  OneNode padded = pool("AveragePool", {1, 2, 3}, 2).integers("dilations", {2}).integers("pads", {1, 1});
  EXPECT_EQ(padded.value(), (List{2, 2, 2}));
}

TEST(OnnxPooling, IndicesStayInside) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  OneNode node = pool("MaxPool", {-kInfinity, -kInfinity, 1}, 2).integers("pads", {1, 0});
  const std::vector<Computed> y = node.outputs(2);
  EXPECT_EQ(y[0].values, (List{-kInfinity, -kInfinity, 1}));
  EXPECT_EQ(y[1].values, (List{0, 0, 2}));
}

TEST(OnnxPooling, IndicesOfSmallIntegersInThreeDimensions) {
  OneNode node("MaxPool");
  node.input({1, 2, 1, 2, 2}, {-1, -2, -3, -4, 8, 7, 10, 9}, kInt8).integers("kernel_shape", {1, 2, 2});
  EXPECT_EQ(node.outputs(2)[1].values, (List{0, 6}));
  const std::vector<Computed> transposed = node.integer("storage_order", 1).outputs(2);
  EXPECT_EQ(transposed[0].values, (List{-1, 10}));
  EXPECT_EQ(transposed[1].values, (List{0, 5}));
}

TEST(OnnxPooling, Norms) {
  EXPECT_EQ(pool("LpPool", {3, -4, 0}, 2).value(), (List{5, 4}));
  EXPECT_EQ(pool("LpPool", {3, -4, 0}, 2).integer("p", 1).value(), (List{7, 4}));
  expect_near(pool("LpPool", {1, -2}, 2).integer("p", 3).value(), {std::cbrt(9.0)});
  EXPECT_EQ(OneNode("GlobalLpPool").input({1, 1, 2}, {3, 4}).value(), (List{5}));
}

TEST(OnnxPooling, UnpoolsToZeros) {
  OneNode node("MaxUnpool");
  node.input({1, 1, 2}, {7, 8}).known({1, 1, 2}, {1, 2}, kInt64).integers("kernel_shape", {2}).integers("strides", {2});
  EXPECT_EQ(node.value(), (List{0, 7, 8, 0}));
}

TEST(OnnxPooling, RefusesBadWindows) {
  expect_invalid(OneNode("MaxPool").input({1, 1, 3}, {1, 2, 3}).error(), "Attribute 'kernel_shape' is missing.");
  expect_invalid(OneNode("MaxPool").input({1, 3}, {1, 2, 3}).integers("kernel_shape", {1}).error(), "has rank 2");
  expect_invalid(pool("MaxPool", kFive, 0).error(), "Attribute 'kernel_shape' holds 0");
  expect_invalid(pool("MaxPool", kFive, 6).error(), "A window over 6 elements does not fit axis 2 of 5 elements");
  expect_invalid(pool("MaxPool", kFive, 2).integers("strides", {1, 1}).error(), "Attribute 'strides' has 2 entries");
  expect_invalid(pool("MaxPool", kFive, 2).integers("pads", {-1, 0}).error(), "Attribute 'pads' holds -1");
  expect_invalid(pool("MaxPool", kFive, 2).text("auto_pad", "SAME").error(), "Attribute 'auto_pad' is 'SAME'");
  OneNode huge = OneNode("AveragePool").input({1, 1, 1 << 23}, {}).integers("kernel_shape", {2});
  expect_unsupported(huge.integers("pads", {1, 0}).error(), "There are 8388608 windows along one axis");
  expect_invalid(pool("LpPool", kFive, 2).integer("p", 0).error(), "Attribute 'p' is 0");
  expect_invalid(OneNode("MaxUnpool").input({1, 1, 1}, {7}).known({1}, {1}).integers("kernel_shape", {2}).error(),
                 "The input is [1, 1, 1] and the indices [1]");
  expect_invalid(OneNode("MaxUnpool").input({1, 1, 1}, {7}).known({1, 1, 1}, {2}).integers("kernel_shape", {2}).error(),
                 "The index 2 lies outside an axis of 2 elements.");
}

}  // namespace
}  // namespace vkfuse::onnx

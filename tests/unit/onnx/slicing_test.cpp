// Slices, parts and padding, beyond what ONNX 1.12's node tests try.
#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kFloat = pb::TensorProto::FLOAT;
const auto kInt64 = pb::TensorProto::INT64;

OneNode slice(const List& starts, const List& ends, const List& axes, const List& steps) {
  const auto length = static_cast<std::int64_t>(starts.size());
  OneNode node("Slice");
  node.input({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}).known({length}, starts).known({length}, ends);
  node.known({static_cast<std::int64_t>(axes.size())}, axes).known({static_cast<std::int64_t>(steps.size())}, steps);
  return node;
}

TEST(OnnxSlicing, SlicesBackwardsToTheFirstElement) {
  // An end before the first element is how ONNX says "and element 0 too".
  EXPECT_EQ(slice({-1}, {-1000000}, {1}, {-1}).value(), (List{3, 2, 1, 0, 7, 6, 5, 4}));
  EXPECT_EQ(slice({-1}, {0}, {1}, {-2}).value(), (List{3, 1, 7, 5}));
  EXPECT_EQ(slice({3}, {1}, {1}, {1}).output().sizes, (Sizes{2, 0}));
}

TEST(OnnxSlicing, BoundsAreAttributesBeforeOpset10) {
  OneNode node = OneNode("Slice", 9).input({4}, {0, 1, 2, 3}).integers("starts", {1}).integers("ends", {-1});
  EXPECT_EQ(node.value(), (List{1, 2}));
}

TEST(OnnxSlicing, RefusesBadBounds) {
  expect_invalid(slice({0}, {1}, {2}, {1}).error(), "An axis is 2; the input has rank 2.");
  expect_invalid(slice({0, 0}, {1, 1}, {1, -1}, {1, 1}).error(), "listed twice");
  expect_invalid(slice({0}, {1}, {0, 1}, {1}).error(), "The list of starts has 1 entries; it must have 2.");
  expect_invalid(slice({0}, {1}, {0}, {1, 1}).error(), "The list of steps has 2 entries");
  expect_invalid(slice({0}, {1}, {0}, {0}).error(), "The step of axis 0 is 0.");
  expect_invalid(OneNode("Slice", 9).input({1}, {0}).integers("starts", {1}).error(), "The list of ends is missing.");
}

TEST(OnnxSlicing, SplitsUnevenlyFromOpset18) {
  const List x{0, 1, 2, 3, 4};
  std::vector<Computed> parts = OneNode("Split", 18).input({5}, x).integer("num_outputs", 2).outputs(2);
  EXPECT_EQ(parts[0].values, (List{0, 1, 2}));
  EXPECT_EQ(parts[1].values, (List{3, 4}));
  parts = OneNode("Split", 11).input({5}, x).integers("split", {4, 1}).outputs(2);
  EXPECT_EQ(parts[1].values, (List{4}));
  expect_invalid(OneNode("Split").input({5}, x).error(2), "An axis of 5 elements cannot be split into 2 equal parts.");
  expect_invalid(OneNode("Split").input({5}, x).known({2}, {4, 2}).error(2), "[4, 2]; they must add up to the 5");
  expect_invalid(OneNode("Split").input({5}, x).known({2}, {6, -1}).error(2), "[6, -1]; they must add up to the 5");
  expect_invalid(OneNode("Split").input({5}, x).known({1}, {5}).error(2), "The parts are [5], but the node has 2");
  expect_invalid(OneNode("Split", 18).input({5}, x).integer("num_outputs", 3).error(2), "'num_outputs' is 3");
}

TEST(OnnxSlicing, ConcatNamesItsAxis) {
  expect_invalid(OneNode("Concat").input({1}, {0}).input({1}, {0}).error(), "Attribute 'axis' is missing.");
  expect_invalid(OneNode("Concat").input({1}, {0}).input({1}, {0}).integer("axis", 1).error(), "'axis' is 1");
  expect_invalid(OneNode("Concat").input({1, 2}, {0, 0}).input({1, 3}, {0, 0, 0}).integer("axis", 0).error(), "3");
}

OneNode pad(const std::string& mode, const List& amounts, std::int64_t opset = 19) {
  return OneNode("Pad", opset).input({3}, {1, 2, 3}).known({2}, amounts).text("mode", mode);
}

TEST(OnnxSlicing, PadsInEveryMode) {
  EXPECT_EQ(pad("constant", {1, 2}).value(), (List{0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(pad("edge", {2, 1}).value(), (List{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(pad("reflect", {2, 1}).value(), (List{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(pad("wrap", {2, 1}).value(), (List{2, 3, 1, 2, 3, 1}));
}

TEST(OnnxSlicing, PadsFurtherThanTheAxis) {
  EXPECT_EQ(pad("reflect", {5, 4}).value(), (List{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3}));
  EXPECT_EQ(pad("wrap", {4, 0}).value(), (List{3, 1, 2, 3, 1, 2, 3}));
}

TEST(OnnxSlicing, CutsWithNegativeAmounts) {
  EXPECT_EQ(pad("constant", {-1, 1}).value(), (List{2, 3, 0}));
  // What is cut is not there to be repeated.
  EXPECT_EQ(pad("wrap", {-1, 2}).value(), (List{2, 3, 2, 3}));
  EXPECT_EQ(pad("edge", {1, -2}).value(), (List{1, 1}));
}

TEST(OnnxSlicing, PadsWithAValueThatOnlyTheProgramKnows) {
  OneNode node = OneNode("Pad").input({2}, {1, 2}).known({2}, {1, 0}).input({}, {7});
  EXPECT_EQ(node.value(), (List{7, 1, 2}));
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
  OneNode wide = OneNode("Pad").input({1}, {1}, kInt64).known({2}, {1, 0}).known_integers({}, {kOdd});
  EXPECT_EQ(wide.output().integers, (std::vector<std::int64_t>{kOdd, 1}));
}

TEST(OnnxSlicing, PadsTheAxesItIsTold) {
  OneNode node = OneNode("Pad", 18).input({1, 2}, {1, 2}).known({2}, {0, 1}).absent().known({1}, {-1});
  EXPECT_EQ(node.value(), (List{1, 2, 0}));
  OneNode old = OneNode("Pad", 10).input({2}, {1, 2}).integers("pads", {1, 0}).real("value", 5);
  EXPECT_EQ(old.value(), (List{5, 1, 2}));
}

TEST(OnnxSlicing, RefusesBadPadding) {
  expect_invalid(pad("mirror", {1, 1}).error(), "Attribute 'mode' is 'mirror'");
  expect_invalid(OneNode("Pad").input({3}, {1, 2, 3}).known({1}, {1}).error(), "The list of pads has 1 entries");
  expect_invalid(OneNode("Pad", 10).input({3}, {1, 2, 3}).error(), "Attribute 'pads' is missing.");
  expect_invalid(pad("constant", {std::ldexp(1, 50), 1}).error(), "more than any axis");
  expect_unsupported(pad("edge", {std::ldexp(1, 40), 1}).error(), "more than the");
  expect_invalid(OneNode("Pad").input({0}, {}).known({2}, {1, 1}).text("mode", "edge").error(), "Axis 0 is empty");
  expect_invalid(OneNode("Pad").input({1}, {1}).known({2}, {1, 0}).known({}, {1}, kInt64).error(),
                 "The padding value (operand 2) is i64");
}

TEST(OnnxSlicing, CropsAndPadsAboutTheCentre) {
  const List x{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(OneNode("CenterCropPad", 18).input({6}, x).known({1}, {3}).value(), (List{1, 2, 3}));
  EXPECT_EQ(OneNode("CenterCropPad", 18).input({2}, {1, 2}).known({1}, {5}).value(), (List{0, 1, 2, 0, 0}));
  EXPECT_EQ(OneNode("CenterCropPad", 18).input({2, 3}, x).known({1}, {1}).integers("axes", {1}).value(), (List{1, 4}));
  expect_invalid(OneNode("CenterCropPad", 18).input({2, 3}, x).known({1}, {1}).error(), "The list of target sizes");
}

TEST(OnnxSlicing, TriangleFarFromTheDiagonal) {
  const List x{1, 2, 3, 4};
  EXPECT_EQ(OneNode("Trilu").input({2, 2}, x).known({}, {-1e12}).value(), x);
  EXPECT_EQ(OneNode("Trilu").input({2, 2}, x).input({}, {1}, kInt64).value(), (List{0, 2, 0, 0}));
  expect_invalid(OneNode("Trilu").input({4}, x, kFloat).error(), "has rank 1; it must be at least 2.");
}

}  // namespace
}  // namespace vkfuse::onnx

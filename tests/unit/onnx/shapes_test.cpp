// Reshape and its kin, beyond what ONNX 1.12's node tests try.
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kBool = pb::TensorProto::BOOL;

TEST(OnnxShapes, ReshapeCopiesZerosUnlessTheyAreSizes) {
  const List x{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(OneNode("Reshape").input({2, 3}, x).known({3}, {0, -1, 1}).output().sizes, (Sizes{2, 3, 1}));
  const Computed empty = OneNode("Reshape").input({0, 3}, {}).known({2}, {3, 0}).integer("allowzero", 1).output();
  EXPECT_EQ(empty.sizes, (Sizes{3, 0}));
}

TEST(OnnxShapes, ReshapeKeepsSymbols) {
  pb::ModelProto model = empty_model();
  auto* shape = add_input(model, "x", {}).mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("n");
  shape->add_dim()->set_dim_value(6);
  add_int64s(model, "s", {0, 2, -1});
  add_node(model, "Reshape", {"x", "s"}, {"y"});
  add_node(model, "Flatten", {"y"}, {"z"});
  add_output(model, "y");
  add_output(model, "z");
  const Result<OnnxModel> imported = import(model);
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  EXPECT_EQ(imported->outputs[0].shape(), (Shape{Dim::any("n"), 2, 3}));
  EXPECT_EQ(imported->outputs[1].shape(), (Shape{Dim::any("n"), 6}));
}

TEST(OnnxShapes, AxesAreAttributesBeforeOpset13) {
  const List x{1, 2, 3};
  EXPECT_EQ(OneNode("Squeeze", 11).input({1, 3, 1}, x).integers("axes", {-1}).output().sizes, (Sizes{1, 3}));
  EXPECT_EQ(OneNode("Squeeze", 11).input({1, 3, 1}, x).output().sizes, (Sizes{3}));
  EXPECT_EQ(OneNode("Unsqueeze", 11).input({3}, x).integers("axes", {2, 0}).output().sizes, (Sizes{1, 3, 1}));
}

TEST(OnnxShapes, ExpandStretchesEitherOperand) {
  // The target has a 1 where the input has 2.
  const Computed y = OneNode("Expand").input({2, 1}, {1, 2}).known({2}, {1, 3}).output();
  EXPECT_EQ(y.sizes, (Sizes{2, 3}));
  EXPECT_EQ(y.values, (List{1, 1, 1, 2, 2, 2}));
}

TEST(OnnxShapes, TileRepeatsWholeAxes) {
  EXPECT_EQ(OneNode("Tile").input({2, 2}, {1, 2, 3, 4}).known({2}, {1, 2}).value(), (List{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST(OnnxShapes, DepthToSpaceInBothOrders) {
  const List x{0, 1, 2, 3, 4, 5, 6, 7};  // [1, 8, 1, 1]
  EXPECT_EQ(OneNode("DepthToSpace").input({1, 8, 1, 1}, x).integer("blocksize", 2).value(),
            (List{0, 2, 4, 6, 1, 3, 5, 7}));
  OneNode columns = OneNode("DepthToSpace").input({1, 8, 1, 1}, x).integer("blocksize", 2).text("mode", "CRD");
  EXPECT_EQ(columns.value(), x);
}

TEST(OnnxShapes, RefusesWhatIsNoShape) {
  const List x{1, 2, 3, 4, 5, 6};
  expect_invalid(OneNode("Reshape").input({2, 3}, x).known({2}, {-2, 3}).error(), "The shape operand holds -2");
  expect_invalid(OneNode("Reshape").input({2, 3}, x).known({2}, {-1, -1}).error(),
                 "[-1, -1]; only one entry may be -1");
  expect_invalid(OneNode("Reshape").input({2, 3}, x).known({3}, {2, 3, 0}).error(), "Entry 2 of the shape operand");
  expect_invalid(OneNode("Reshape").input({2, 3}, x).known({2}, {4, 2}).error(), "number of elements");
  expect_invalid(OneNode("Flatten").input({2, 3}, x).integer("axis", 3).error(), "Attribute 'axis' is 3");
  expect_unsupported(OneNode("Reshape").input({2, 3}, x).input({1}, {6}, pb::TensorProto::INT64).error(),
                     "only known when the program runs");
}

TEST(OnnxShapes, RefusesBadAxes) {
  const List x{1, 2, 3};
  expect_invalid(OneNode("Squeeze").input({1, 3}, x).known({1}, {2}).error(), "An axis to squeeze is 2");
  expect_invalid(OneNode("Squeeze").input({1, 3}, x).known({1}, {1}).error(), "3");
  expect_invalid(OneNode("Unsqueeze").input({3}, x).known({2}, {0, -3}).error(), "is -3, which is listed twice");
  expect_invalid(OneNode("Unsqueeze", 11).input({3}, x).error(), "Attribute 'axes' is missing.");
  expect_invalid(OneNode("Transpose").input({1, 3}, x).integers("perm", {0}).error(), "'perm' has 1 entries");
  expect_invalid(OneNode("Transpose").input({1, 3}, x).integers("perm", {1, 1}).error(), "listed twice in [1, 1]");
  expect_invalid(OneNode("Tile").input({1, 3}, x).known({1}, {2}).error(), "The repeats (operand 1) have 1 entries");
  expect_invalid(OneNode("Tile").input({3}, x).known({1}, {-2}).error(), "hold -2");
  expect_invalid(OneNode("Tile").input({3}, x).known({1}, {1}, kBool).error(), "must be a list of integers");
}

TEST(OnnxShapes, RefusesBadBlocks) {
  const List x(8, 0.0);
  expect_invalid(OneNode("DepthToSpace").input({1, 8, 1, 1}, x).error(), "Attribute 'blocksize' is missing.");
  expect_invalid(OneNode("DepthToSpace").input({1, 8, 1, 1}, x).integer("blocksize", 3).error(), "not a multiple of 9");
  expect_invalid(OneNode("SpaceToDepth").input({1, 8, 1, 1}, x).integer("blocksize", 2).error(), "not a multiple of 2");
  expect_invalid(OneNode("SpaceToDepth").input({1, 8, 1, 1}, x).integer("blocksize", 0).error(), "is 0; it must be 1");
  expect_invalid(OneNode("SpaceToDepth").input({8}, x).integer("blocksize", 2).error(), "The input has rank 1");
  expect_invalid(OneNode("DepthToSpace").input({1, 8, 1, 1}, x).integer("blocksize", 2).text("mode", "X").error(),
                 "Attribute 'mode' is 'X'");
}

}  // namespace
}  // namespace vkfuse::onnx

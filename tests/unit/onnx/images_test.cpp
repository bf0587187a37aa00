// Col2Im, AffineGrid and the training steps.
#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxImages, BlocksAddUpWhereTheyOverlap) {
  OneNode line = OneNode("Col2Im", 18).input({1, 2, 3}, {1, 2, 3, 10, 20, 30}).known({1}, {4}).known({1}, {2});
  EXPECT_EQ(line.value(), (List{1, 12, 23, 30}));
  OneNode apart = OneNode("Col2Im", 18).input({1, 2, 2}, {1, 2, 10, 20}).known({1}, {4}).known({1}, {2});
  EXPECT_EQ(apart.integers("dilations", {2}).value(), (List{1, 2, 10, 20}));
}

TEST(OnnxImages, BlocksInThePaddingAreDropped) {
  // Three windows of two pixels along each padded axis: every pixel lies in two of them, twice over.
  List columns(2 * 4 * 9, 1.0);
  std::fill(columns.begin() + 36, columns.end(), 2.0);
  OneNode node = OneNode("Col2Im", 18).input({1, 8, 9}, columns).known({2}, {2, 2}).known({2}, {2, 2});
  const Computed image = node.integers("pads", {1, 1, 1, 1}).output();
  EXPECT_EQ(image.sizes, (Sizes{1, 2, 2, 2}));
  EXPECT_EQ(image.values, (List{4, 4, 4, 4, 8, 8, 8, 8}));
}

TEST(OnnxImages, GridsOfPixelCentresAndCorners) {
  OneNode corners = OneNode("AffineGrid", 20).input({1, 2, 3}, {1, 0, 10, 0, 3, 0}).known({4}, {1, 1, 2, 2});
  expect_near(OneNode(corners).value(), {9.5, -1.5, 10.5, -1.5, 9.5, 1.5, 10.5, 1.5});
  expect_near(corners.integer("align_corners", 1).value(), {9, -3, 11, -3, 9, 3, 11, 3});
}

TEST(OnnxImages, RefuseBadOperands) {
  const auto col2im = [](const List& image, const List& block) {
    OneNode node = OneNode("Col2Im", 18).input({1, 2, 3}, {1, 2, 3, 10, 20, 30});
    node.known({static_cast<std::int64_t>(image.size())}, image);
    return node.known({static_cast<std::int64_t>(block.size())}, block);
  };
  expect_invalid(col2im({4}, {2, 1}).error(), "The block shape is [2, 1]; the image is [4].");
  expect_invalid(col2im({4}, {5}).error(), "A block of 5 elements does not fit axis 0 of 4 elements");
  expect_invalid(col2im({4}, {0}).error(), "A block of 0 elements");
  expect_invalid(col2im({5}, {2}).error(), "4 blocks of 2 elements ask for [n, channels * 2, 4].");
  OneNode grid = OneNode("AffineGrid", 20).input({1, 2, 2}, {1, 0, 0, 1}).known({4}, {1, 1, 2, 2});
  expect_invalid(grid.error(), "Theta is [1, 2, 2]; a grid for [1, 1, 2, 2] asks for [1, 2, 3].");
}

}  // namespace
}  // namespace vkfuse::onnx

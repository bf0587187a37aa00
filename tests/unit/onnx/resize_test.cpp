// Resize, Upsample and GridSample, beyond what ONNX 1.12's node tests try.
#include <numeric>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

const auto kFloat = pb::TensorProto::FLOAT;
const auto kInt32 = pb::TensorProto::INT32;
const auto kInt64 = pb::TensorProto::INT64;

List counting(std::size_t count) {
  List values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

OneNode scaled(const Sizes& sizes, const List& scales, const std::string& mode, std::int64_t opset = 19) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  OneNode node("Resize", opset);
  node.input(sizes, counting(static_cast<std::size_t>(count))).absent();
  return node.known({static_cast<std::int64_t>(scales.size())}, scales, kFloat).text("mode", mode);
}

TEST(OnnxResize, StretchesKernelsWhenTheAxisShrinks) {
  // The numbers of ONNX's own test of antialiasing (opset 18).
  OneNode linear = scaled({4, 4}, {0.6F, 0.6F}, "linear").integer("antialias", 1);
  expect_near(linear.value(), {2.875, 4.5, 9.375, 11.0});
  // Without what lies outside: the weights 0.8 and 0.6, of positions 1 and 2, add up to 1.4.
  OneNode inside = scaled({4}, {0.6F}, "linear").integer("antialias", 1).integer("exclude_outside", 1);
  expect_near(inside.value(), {2.0 / 1.4, 3.0});
}

TEST(OnnxResize, ImagesOfOneColourKeepIt) {
  // Weights in f32 add up to a little less than 1, and a cast to integers cuts off what follows the point.
  const auto kByte = pb::TensorProto::UINT8;
  for (const char* mode : {"linear", "cubic"}) {
    for (std::int64_t size = 2; size < 24; ++size) {
      OneNode node("Resize", 18);
      node.input({5}, List(5, 255), kByte).absent().absent().known({1}, {static_cast<double>(size)});
      EXPECT_EQ(node.text("mode", mode).value(), List(static_cast<std::size_t>(size), 255)) << mode << size;
    }
  }
}

TEST(OnnxGridSample, ImagesOfOneColourKeepIt) {
  List grid;
  for (int i = 0; i < 60; ++i) grid.push_back(0.013 * i - 0.41);
  for (const char* mode : {"linear", "cubic"}) {
    OneNode node("GridSample", 20);
    node.input({1, 1, 5, 5}, List(25, 100), kInt32).input({1, 5, 6, 2}, grid);
    EXPECT_EQ(node.text("mode", mode).value(), List(30, 100)) << mode;
  }
}

TEST(OnnxResize, KeepsTheCentreWhereTheScaleIsNoRatio) {
  OneNode node = scaled({1, 4}, {1, 0.6F}, "linear").text("coordinate_transformation_mode", "half_pixel_symmetric");
  expect_near(node.value(), {1.0 + 2.0 / 3, 3.0 + 1.0 / 3});
}

TEST(OnnxResize, KeepsTheAspectRatio) {
  const auto resize = [](const std::string& policy) {
    OneNode node("Resize", 18);
    node.input({1, 2, 4}, counting(8)).absent().absent().known({2}, {1, 3}).integers("axes", {1, -1});
    return node.text("keep_aspect_ratio_policy", policy).output();
  };
  EXPECT_EQ(resize("not_larger").sizes, (Sizes{1, 1, 2}));
  EXPECT_EQ(resize("not_larger").values, (List{1, 3}));
  EXPECT_EQ(resize("not_smaller").sizes, (Sizes{1, 2, 3}));
  EXPECT_EQ(resize("stretch").sizes, (Sizes{1, 1, 3}));
}

TEST(OnnxResize, OneElementIsTheFirst) {
  const auto resize = [](const Sizes& from, const std::string& mode) {
    OneNode node("Resize", 18);
    node.input(from, counting(4))
        .absent()
        .absent()
        .known({static_cast<std::int64_t>(from.size())}, List(from.size(), 1))
        .text("mode", mode);
    return node.text("coordinate_transformation_mode", "pytorch_half_pixel").value();
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    EXPECT_EQ(resize({1, 1, 1, 4}, mode), (List{1})) << mode;
    EXPECT_EQ(resize({1, 4}, mode), (List{1})) << mode;
  }
  // What ONNX Runtime does not do, ONNX's reference does at -0.5.
  expect_near(resize({1, 1, 4}, "cubic"), {0.90625});
  OneNode more =
      scaled({1, 1, 1, 4}, {1, 1, 1, 0.375F}, "cubic", 18).text("coordinate_transformation_mode", "pytorch_half_pixel");
  EXPECT_EQ(more.value(), (List{1}));
}

TEST(OnnxResize, OldOpsetsTakeTheElementBefore) {
  OneNode upsample = OneNode("Upsample", 7).input({2}, {1, 2}).reals("scales", {2.5F});
  EXPECT_EQ(upsample.value(), (List{1, 1, 1, 2, 2}));
  OneNode resize = OneNode("Resize", 10).input({2}, {1, 2}).known({1}, {1.5}, kFloat).text("mode", "linear");
  expect_near(resize.value(), {1, 1 + 2.0 / 3, 2});
}

TEST(OnnxResize, IntegersArePickedOrInterpolated) {
  OneNode nearest("Resize");
  nearest.input({2}, {1, 5}, kInt32).absent().absent().known({1}, {4}).text("mode", "nearest");
  EXPECT_EQ(nearest.output().dtype, DType::i32);
  EXPECT_EQ(nearest.value(), (List{1, 1, 5, 5}));
  OneNode linear("Resize");
  linear.input({2}, {1, 5}, kInt32).absent().absent().known({1}, {4}).text("mode", "linear");
  EXPECT_EQ(linear.value(), (List{1, 2, 4, 5}));
}

TEST(OnnxResize, RefusesBadOperands) {
  OneNode both = OneNode("Resize").input({2}, {1, 2}).absent().known({1}, {2}, kFloat).known({1}, {4});
  expect_invalid(both.error(), "Resize has 1 scales and 1 sizes");
  expect_invalid(OneNode("Resize").input({2}, {1, 2}).error(), "Resize has 0 scales and 0 sizes");
  expect_invalid(scaled({2}, {2, 2}, "linear").error(), "The list of scales has 2 entries; it must have 1.");
  expect_invalid(scaled({2}, {-1}, "linear").error(), "A scale is -1");
  expect_invalid(scaled({2}, {1e30}, "linear").error(), "A scale is 1.0000000150474662e+30");
  expect_invalid(scaled({2}, {2}, "lanczos").error(), "Attribute 'mode' is 'lanczos'");
  expect_invalid(scaled({2}, {2}, "nearest").text("nearest_mode", "up").error(), "Attribute 'nearest_mode' is 'up'");
  expect_invalid(scaled({2}, {2}, "linear").integers("axes", {1}).error(), "An axis of attribute 'axes' is 1");
  OneNode crop = scaled({2}, {2}, "linear").text("coordinate_transformation_mode", "tf_crop_and_resize");
  expect_invalid(crop.error(), "The list of the region of interest has 0 entries");
  OneNode empty = OneNode("Resize").input({0}, {}).absent().absent().known({1}, {4});
  expect_invalid(empty.error(), "Axis 0 is empty");
  OneNode negative = OneNode("Resize").input({1}, {1}).absent().absent().known({1}, {-4});
  expect_invalid(negative.error(), "A size is -4");
  OneNode huge = OneNode("Resize", 18).input({1 << 23}, {}).absent().absent().known({1}, {4}).text("mode", "linear");
  expect_unsupported(huge.integer("antialias", 1).error(), "Axis 0 has 8388608 elements");
  OneNode policy = OneNode("Resize", 18).input({1}, {1}).absent().absent().known({1}, {4});
  expect_invalid(policy.text("keep_aspect_ratio_policy", "fit").error(), "'keep_aspect_ratio_policy' is 'fit'");
  expect_unsupported(OneNode("Resize").input({1}, {1}).absent().input({1}, {2}).error(), "The scales (operand 2)");
}

/// One row of pixels, read at these x.
OneNode sampled(const List& row, const List& xs, const std::string& mode, std::int64_t opset = 16) {
  List grid;
  for (const double x : xs) grid.insert(grid.end(), {x, 0});
  OneNode node("GridSample", opset);
  node.input({1, 1, 1, static_cast<std::int64_t>(row.size())}, row);
  node.input({1, 1, static_cast<std::int64_t>(xs.size()), 2}, grid);
  return node.text("mode", mode);
}

TEST(OnnxGridSample, ReflectsAsOftenAsItTakes) {
  // Four pixels from -1 to 1: 0 is between the second and the third, 3.25 is pixel 8 and -3.25 pixel -5.
  OneNode node = sampled({1, 2, 3, 4}, {0, -0.75, 3.25, -3.25}, "bilinear").text("padding_mode", "reflection");
  expect_near(node.value(), {2.5, 1, 1, 4});
}

TEST(OnnxGridSample, ClampsTheNeighboursOfACubicKernelOneByOne) {
  // -1.05 is pixel -0.6: three of its neighbours are the first pixel, and the second one has the weight -0.072.
  OneNode node = sampled({1, 2, 3, 4}, {-1.05, -9, 1.05, 9}, "bicubic").text("padding_mode", "border");
  expect_near(node.value(), {0.928, 1, 4.072, 4});
}

TEST(OnnxGridSample, ZerosOutsideEvenNextToInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sampled({kInfinity, 2}, {-3, 0.5, 3}, "nearest").value(), (List{0, 2, 0}));
  EXPECT_EQ(sampled({kInfinity, 2}, {-9}, "bilinear").value(), (List{0}));
}

TEST(OnnxGridSample, SamplesVolumes) {
  OneNode node("GridSample", 20);
  node.input({1, 1, 2, 2, 2}, counting(8)).input({1, 1, 1, 2, 3}, {0, 0, 0, 1, -1, 1}).text("mode", "linear");
  expect_near(node.integer("align_corners", 1).value(), {4.5, 6});
}

TEST(OnnxGridSample, RefusesBadOperands) {
  expect_invalid(sampled({1}, {0}, "lanczos").error(), "Attribute 'mode' is 'lanczos'");
  expect_invalid(sampled({1}, {0}, "linear").text("padding_mode", "wrap").error(),
                 "Attribute 'padding_mode' is 'wrap'");
  OneNode flat = OneNode("GridSample", 16).input({1, 1, 1, 1}, {1}).input({1, 1, 1, 3}, {0, 0, 0});
  expect_invalid(flat.error(), "The grid is f32[1, 1, 1, 3]");
  OneNode low = OneNode("GridSample", 16).input({1, 1, 1}, {1}).input({1, 1, 1}, {0});
  expect_invalid(low.error(), "has rank 3; it must be at least 4.");
  OneNode whole = OneNode("GridSample", 16).input({1, 1, 1, 1}, {1}).input({1, 1, 1, 2}, {0, 0}, kInt64);
  expect_invalid(whole.error(), "The grid is i64");
}

TEST(OnnxResize, TakesScalesThatLeaveNothing) {
  const Computed none = OneNode("Resize", 18)
                            .input({1, 4}, {1, 2, 3, 4})
                            .absent()
                            .known({2}, {1, 1e-40}, pb::TensorProto::FLOAT)
                            .text("mode", "linear")
                            .integer("antialias", 1)
                            .output();
  EXPECT_EQ(none.sizes, (Sizes{1, 0}));
}

}  // namespace
}  // namespace vkfuse::onnx

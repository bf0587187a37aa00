// Regions of interest, deformed convolutions and determinants, against ONNX Runtime and the ONNX reference.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxRegions, MeanOfSamples) {
  const std::vector<Computed> got = OneNode("RoiAlign", 18)
                                        .input({1, 1, 4, 4}, {-1.13, -0.9, -1.11, 0.83, -0.17, -2.26, 0.73, 2.06, 1.79,
                                                              -0.58, 0.07, 0.5, 0.88, 0.03, -1.1, 0.74})
                                        .input({2, 4}, {0, 0, 3, 3, 1, 0.5, 2.5, 4})
                                        .input({2}, {0, 0}, pb::TensorProto::INT64)
                                        .integer("output_height", 2)
                                        .integer("output_width", 2)
                                        .integer("sampling_ratio", 2)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 1, 2, 2}));
  expect_near(got[0].values,
              {-0.9846875, -0.67253906, 0.43703127, -0.14378905, -1.3296679, -0.53726566, -0.0012304625, -0.47210938},
              2e-5);
}

TEST(OnnxRegions, AsManySamplesAsPixels) {
  const std::vector<Computed> got = OneNode("RoiAlign", 18)
                                        .input({1, 1, 4, 4}, {-1.13, -0.9, -1.11, 0.83, -0.17, -2.26, 0.73, 2.06, 1.79,
                                                              -0.58, 0.07, 0.5, 0.88, 0.03, -1.1, 0.74})
                                        .input({2, 4}, {0, 0, 3, 3, 1, 0.5, 2.5, 3})
                                        .input({2}, {0, 0}, pb::TensorProto::INT64)
                                        .integer("output_height", 2)
                                        .integer("output_width", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 1, 2, 1}));
  expect_near(got[0].values, {-0.8966667, 0.085625, -1.114375, -0.4439844}, 2e-5);
}

TEST(OnnxRegions, LargestShare) {
  const std::vector<Computed> got = OneNode("RoiAlign", 18)
                                        .input({1, 1, 4, 4}, {-1.13, -0.9, -1.11, 0.83, -0.17, -2.26, 0.73, 2.06, 1.79,
                                                              -0.58, 0.07, 0.5, 0.88, 0.03, -1.1, 0.74})
                                        .input({1, 4}, {0, 0, 3, 3})
                                        .input({1}, {0}, pb::TensorProto::INT64)
                                        .text("mode", "max")
                                        .text("coordinate_transformation_mode", "output_half_pixel")
                                        .integer("output_height", 2)
                                        .integer("output_width", 2)
                                        .integer("sampling_ratio", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 1, 2, 2}));
  expect_near(got[0].values, {-0.031875, 0.410625, 0.335625, 0.09375}, 2e-5);
}

TEST(OnnxRegions, DeformedConvolution) {
  const std::vector<Computed> got =
      OneNode("DeformConv", 19)
          .input({1, 2, 3, 3}, {0.61, -1.34, -0.38, 0.26, -0.01, 0.51, 0.78, 0.53, -0.13, -1.36, 0.6, 1.39, 1.96, -0.05,
                                -0.05, 1.43, 1.43, 0.33})
          .input({2, 1, 2, 2}, {0.7, -0.77, 0.57, -0.84, -0.16, -0.14, -0.48, -2.13})
          .input({1, 16, 2, 2},
                 {-0.84, 0.32,  -0.07, -0.41, 0.41,  0.67,  0.83,  -0.82, 0.01,  -0.35, -0.89, -1.51, -0.11,
                  -0.89, 2.14,  -0.12, -0.24, -0.41, 1.86,  -0.96, -0.18, -0.79, -0.14, -0.05, 1.08,  -1.43,
                  -0.04, 1.6,   -0.53, -0.19, -0.9,  -2.64, -0.12, 1.16,  -0.48, -1.86, 0.25,  0.06,  0.98,
                  0.89,  -0.29, 0.38,  -1.82, 1.1,   0.17,  1.07,  1.05,  -0.3,  -0.17, -0.89, -2.08, -0.15,
                  0.14,  -1.1,  0.69,  0.08,  0.44,  -0.79, -1.78, 0.76,  0.59,  -0.13, -0.44, -0.29})
          .input({2}, {-0.15, -0.53})
          .input({1, 8, 2, 2}, {-2.03, 0.77,  -1.51, -0.35, -0.32, 0.24,  -1.63, 1.19, 0.64,  0.75,  1.25,
                                -0.81, -3.15, 0.32,  1.3,   1.15,  -0.55, -0.1,  0.28, -1.82, -0.67, -0.64,
                                1.58,  -0.66, 1.57,  0.01,  -1.68, 2.21,  -0.97, 0.62, 1.71,  -0.54})
          .integer("group", 2)
          .integer("offset_group", 2)
          .integers("kernel_shape", {2, 2})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2, 2, 2}));
  expect_near(got[0].values,
              {1.3342232, -0.026159085, -0.91233015, 0.004193738, -0.80719167, -1.8520231, -0.52317965, -1.4449329},
              2e-5);
}

TEST(OnnxRegions, Determinants) {
  const std::vector<Computed> got = OneNode("Det", 18)
                                        .input({2, 3, 3}, {-1.23, 1.04, 0.07, -1.23, -1.08, -0.39, 0.96, -0.29, 0.65,
                                                           1.65, 1.27, 1.44, 1.23, -1.61, 1.22, 0.33, -0.12, -1.08})
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2}));
  expect_near(got[0].values, {1.542222, 5.861479}, 2e-5);
}

TEST(OnnxRegions, DeterminantOfASingularMatrix) {
  const std::vector<Computed> got = OneNode("Det", 18).input({2, 2}, {1, 2, 2, 4}).outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{}));
  expect_near(got[0].values, {0}, 2e-5);
}

TEST(OnnxRegions, DeterminantThatNeedsARowAbove) {
  const std::vector<Computed> got = OneNode("Det", 18).input({2, 2}, {0, 1, 2, 3}).outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{}));
  expect_near(got[0].values, {-2}, 2e-5);
}

}  // namespace
}  // namespace vkfuse::onnx

// Fourier transforms and mel filters, against ONNX Runtime and the ONNX reference.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxSignals, TransformOfComplexNumbers) {
  const std::vector<Computed> got =
      OneNode("DFT", 17)
          .input({1, 5, 2}, {0.16, -0.85, 0.21, 0.73, -1.19, -0.08, -0.38, -1.94, -0.19, -0.8})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 5, 2}));
  expect_near(got[0].values,
              {-1.3900003, -2.9399998, 3.9847357, 0.8582649, -1.2109921, -2.4230523, 0.52831703, -0.41211343,
               -1.1120592, 0.6669004},
              2e-5);
}

TEST(OnnxSignals, OneSideOfALongerTransform) {
  const std::vector<Computed> got = OneNode("DFT", 17)
                                        .input({1, 5, 1}, {1.34, -0.88, 1.7, -0.53, 1.94})
                                        .known({}, {8}, pb::TensorProto::INT64)
                                        .integer("onesided", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 5, 2}));
  expect_near(got[0].values,
              {3.5700006, 0, -0.84748745, -0.70297945, 1.5800002, 0.35000017, -0.35251263, 2.6970205, 6.3900003,
               -1.2326611908974883e-07},
              2e-5);
}

/// 1025 x 1025 cosines are no constant: f64 computes them as exactly.
TEST(OnnxSignals, LongTransformOf64Bits) {
  constexpr int kLength = 1025;
  std::vector<double> impulse(kLength);
  impulse[1] = 1;
  const std::vector<Computed> got =
      OneNode("DFT", 17).input({1, kLength, 1}, impulse, pb::TensorProto::DOUBLE).outputs(1);
  ASSERT_EQ(got[0].sizes, (Sizes{1, kLength, 2}));
  std::vector<double> want;
  for (int i = 0; i < kLength; ++i) {
    const double angle = 2 * std::acos(-1.0) * i / kLength;
    want.insert(want.end(), {std::cos(angle), -std::sin(angle)});
  }
  expect_near(got[0].values, want, 1e-13);
}

TEST(OnnxSignals, InverseTransform) {
  const std::vector<Computed> got =
      OneNode("DFT", 20)
          .input({1, 5, 2}, {0.54, 0.45, 0.81, 0.9, 1.4, 1.73, -0.35, -1.25, -2.67, -0.39})
          .absent()
          .known({}, {1}, pb::TensorProto::INT64)
          .integer("inverse", 1)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 5, 2}));
  expect_near(got[0].values,
              {-0.054000046, 0.28800002, -0.7725405, 0.9115144, 0.88902897, 0.11337464, 0.05866685, -0.03908284,
               0.4188447, -0.8238061},
              2e-5);
}

TEST(OnnxSignals, RealSignalOfOneSide) {
  const std::vector<Computed> got =
      OneNode("DFT", 20)
          .input({1, 5, 2}, {0.76, 0.38, 0.12, -0.35, -0.64, -0.28, 0.39, -1.76, 0.73, -1.46})
          .absent()
          .known({}, {1}, pb::TensorProto::INT64)
          .integer("inverse", 1)
          .integer("onesided", 1)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 8, 1}));
  expect_near(got[0].values,
              {0.15375, 0.3990191, -0.006249994, 0.3544785, -0.10124999, -0.2515191, 0.69875, -0.4869785}, 2e-5);
}

TEST(OnnxSignals, FramesWithWindow) {
  const std::vector<Computed> got =
      OneNode("STFT", 17)
          .input({1, 12, 1}, {-0.16, -0.63, -0.37, -1.05, -1.16, -0.23, -1.09, 2.46, -0.42, -0.66, -0.56, -1.08})
          .known({}, {3}, pb::TensorProto::INT64)
          .input({6}, {-2.46, -0.26, 0.3, -1.51, 0, -1.22})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4, 2}));
  expect_near(got[0].values, {2.3124998,   -7.152557373046875e-07,
                              -0.91419995, 0.19728182,
                              1.8124003,   0.0050218105,
                              -1.7472994,  8.851037023305253e-07,
                              4.9738994,   -8.046627044677734e-07,
                              1.3786001,   0.2423147,
                              3.8564005,   0.12280083,
                              0.054099858, -6.451343348423677e-10,
                              4.23,        -4.76837158203125e-07,
                              2.086801,    1.8041043,
                              3.4020014,   1.5858651,
                              0.8807992,   -1.2971271701189835e-07},
              1e-4);
}

TEST(OnnxSignals, FramesOfAllFrequencies) {
  const std::vector<Computed> got =
      OneNode("STFT", 17)
          .input({1, 12, 1}, {-0.04, 0.35, 0.48, 0.43, -0.71, 0.87, -0.46, 0.34, 0.7, -0.31, -1.29, 0.61})
          .known({}, {4}, pb::TensorProto::INT64)
          .absent()
          .known({}, {4}, pb::TensorProto::INT64)
          .integer("onesided", 0)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4, 2}));
  expect_near(got[0].values,
              {1.22,        0, -0.5199999,  0.08000006,  -0.33999997, 6.818976316935732e-08,  -0.52000004, -0.07999997,
               0.04000008,  0, -0.24999997, -0.53000003, -2.38,       1.0578155951179724e-07, -0.25,       0.5299999,
               -0.28999996, 0, 1.9900001,   0.9199999,   -0.89,       2.622683403785686e-08,  1.9899999,   -0.92000014},
              1e-4);
}

TEST(OnnxSignals, MelFilters) {
  const std::vector<Computed> got = OneNode("MelWeightMatrix", 17)
                                        .known({}, {3}, pb::TensorProto::INT64)
                                        .known({}, {16}, pb::TensorProto::INT64)
                                        .known({}, {8000}, pb::TensorProto::INT64)
                                        .known({}, {20}, pb::TensorProto::FLOAT)
                                        .known({}, {3900}, pb::TensorProto::FLOAT)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{9, 3}));
  expect_near(got[0].values, {1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
              1e-6);
}

}  // namespace
}  // namespace vkfuse::onnx

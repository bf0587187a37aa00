// What opsets 25 to 28 changed of arithmetic, against the ONNX reference and NumPy.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxArithmetic, GatedUnit) {
  const std::vector<Computed> got = OneNode("SwiGLU", 28)
                                        .input({2, 3}, {0.05, -0.83, -2.88, -1.26, -1.57, -0.23})
                                        .input({2, 3}, {0.25, 1.31, -0.09, -1.24, 2.27, 0.23})
                                        .real("alpha", 0.5F)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {0.006328121, -0.43243417, 0.049648553, 0.54295045, -1.1163677, -0.0249308}, 2e-5);
}

TEST(OnnxArithmetic, Remainder0) {
  const std::vector<Computed> got = OneNode("Mod", 28)
                                        .input({8}, {-4.3, 7.2, 5, 4.3, -7.2, 8, -3, 3})
                                        .input({8}, {2.1, -3.4, 8, -2.1, 3.4, 5, INFINITY, INFINITY})
                                        .integer("fmod", 0)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{8}));
  expect_near(got[0].values, {1.9999995, -3.0000005, 5, -1.9999995, 3.0000005, 3, INFINITY, 3}, 1e-6);
}

TEST(OnnxArithmetic, Remainder0Of64Bits) {
  const std::vector<Computed> got =
      OneNode("Mod", 28)
          .input({8}, {-4.3, 7.2, 5, 4.3, -7.2, 8, -3, 3}, pb::TensorProto::DOUBLE)
          .input({8}, {2.1, -3.4, 8, -2.1, 3.4, 5, INFINITY, INFINITY}, pb::TensorProto::DOUBLE)
          .integer("fmod", 0)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{8}));
  expect_near(got[0].values, {2.0, -3.0, 5, -2.0, 3.0, 3, INFINITY, 3}, 1e-6);
}

TEST(OnnxArithmetic, Remainder1) {
  const std::vector<Computed> got = OneNode("Mod", 28)
                                        .input({8}, {-4.3, 7.2, 5, 4.3, -7.2, 8, -3, 3})
                                        .input({8}, {2.1, -3.4, 8, -2.1, 3.4, 5, INFINITY, INFINITY})
                                        .integer("fmod", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{8}));
  expect_near(got[0].values, {-0.10000038, 0.39999962, 5, 0.10000038, -0.39999962, 3, -3, 3}, 1e-6);
}

TEST(OnnxArithmetic, Remainder1Of64Bits) {
  const std::vector<Computed> got =
      OneNode("Mod", 28)
          .input({8}, {-4.3, 7.2, 5, 4.3, -7.2, 8, -3, 3}, pb::TensorProto::DOUBLE)
          .input({8}, {2.1, -3.4, 8, -2.1, 3.4, 5, INFINITY, INFINITY}, pb::TensorProto::DOUBLE)
          .integer("fmod", 1)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{8}));
  expect_near(got[0].values, {-0.1, 0.4, 5, 0.1, -0.4, 3, -3, 3}, 1e-6);
}

/// The quotient of the first pair has more bits than f64.
TEST(OnnxArithmetic, Remainder1Of64BitsIsExact) {
  const std::vector<Computed> got = OneNode("Mod", 28)
                                        .input({2}, {1e300, -1e18}, pb::TensorProto::DOUBLE)
                                        .input({2}, {3, 7.5}, pb::TensorProto::DOUBLE)
                                        .integer("fmod", 1)
                                        .outputs(1);
  expect_near(got[0].values, {std::fmod(1e300, 3), std::fmod(-1e18, 7.5)}, 0);
}

/// 1000^1.9999 = 999309.47...: what pow() of f32 leaves open, that of f64 does not.
TEST(OnnxArithmetic, IntegerToAPowerOf64Bits) {
  const std::vector<Computed> got = OneNode("Pow", 15)
                                        .input({3}, {1000, 10, 3}, pb::TensorProto::INT32)
                                        .input({3}, {1.9999, 9, 13}, pb::TensorProto::DOUBLE)
                                        .outputs(1);
  expect_near(got[0].values, {std::trunc(std::pow(1000, 1.9999)), 1e9, 1594323}, 0);
}

TEST(OnnxArithmetic, SignedShiftRight) {
  const std::vector<Computed> got = OneNode("BitShift", 28)
                                        .input({5}, {-8, 4, -1, -8, 100}, pb::TensorProto::INT8)
                                        .input({5}, {1, 2, -1, 8, 127}, pb::TensorProto::INT8)
                                        .text("direction", "RIGHT")
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{5}));
  expect_near(got[0].values, {-4, 1, -1, -1, 0}, 0);
}

TEST(OnnxArithmetic, SignedShiftLeft) {
  const std::vector<Computed> got = OneNode("BitShift", 28)
                                        .input({4}, {1, -3, 5, 7}, pb::TensorProto::INT32)
                                        .input({4}, {31, 1, 32, -1}, pb::TensorProto::INT32)
                                        .text("direction", "LEFT")
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{4}));
  expect_near(got[0].values, {-2147483648, -6, 0, 0}, 0);
}

TEST(OnnxArithmetic, SameBits) {
  const std::vector<Computed> got = OneNode("BitCast", 26).input({2}, {1, -2.5}).integer("to", 6).outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2}));
  expect_near(got[0].values, {1065353216, -1071644672}, 0);
}

TEST(OnnxArithmetic, DepthByColumns) {
  const std::vector<Computed> got = OneNode("SpaceToDepth", 28)
                                        .input({1, 2, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
                                        .integer("blocksize", 2)
                                        .text("mode", "CRD")
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 8, 1, 2}));
  expect_near(got[0].values, {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}, 2e-5);
}

TEST(OnnxArithmetic, AdamsFirstSteps) {
  const std::vector<Computed> got = OneNode("Adam", 18)
                                        .domain("ai.onnx.preview.training")
                                        .input({}, {0.1})
                                        .input({}, {2}, pb::TensorProto::INT64)
                                        .input({3}, {-0.34, -0.34, -1.43})
                                        .input({3}, {0.56, 0.3, 1.52})
                                        .input({3}, {1.03, 0.8, 1.19})
                                        .input({3}, {0.35, 0.51, 0.12})
                                        .real("alpha", 0.9F)
                                        .real("beta", 0.99F)
                                        .real("epsilon", 0.001F)
                                        .real("norm_coefficient", 0.01F)
                                        .real("norm_coefficient_post", 0.02F)
                                        .outputs(3);
  EXPECT_EQ(got[0].sizes, (Sizes{3}));
  expect_near(got[0].values, {-0.45392123, -0.40979, -1.6370838}, 2e-5);
  EXPECT_EQ(got[1].sizes, (Sizes{3}));
  expect_near(got[1].values, {0.98265994, 0.74965996, 1.22157}, 2e-5);
  EXPECT_EQ(got[2].sizes, (Sizes{3}));
  expect_near(got[2].values, {0.34959805, 0.5057797, 0.1414713}, 2e-5);
}

}  // namespace
}  // namespace vkfuse::onnx

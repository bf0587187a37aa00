// Operators of com.microsoft on quantised numbers, against what ONNX Runtime computes.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxQuantised, Sum) {
  const std::vector<Computed> got = OneNode("QLinearAdd", 18)
                                        .domain("com.microsoft")
                                        .input({2, 3}, {52, 186, 57, 7, 9, 77}, pb::TensorProto::UINT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {120}, pb::TensorProto::UINT8)
                                        .input({2, 3}, {11, 196, 16, 51, 162, 137}, pb::TensorProto::UINT8)
                                        .known({}, {0.03}, pb::TensorProto::FLOAT)
                                        .known({}, {3}, pb::TensorProto::UINT8)
                                        .known({}, {0.05}, pb::TensorProto::FLOAT)
                                        .known({}, {100}, pb::TensorProto::UINT8)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {78, 242, 83, 84, 151, 163}, 0);
}

TEST(OnnxQuantised, SumOfSigned) {
  const std::vector<Computed> got = OneNode("QLinearAdd", 18)
                                        .domain("com.microsoft")
                                        .input({2, 3}, {23, 78, 38, 17, -57, -97}, pb::TensorProto::INT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {3}, pb::TensorProto::INT8)
                                        .input({3}, {120, 104, 41}, pb::TensorProto::INT8)
                                        .known({}, {0.03}, pb::TensorProto::FLOAT)
                                        .known({}, {-7}, pb::TensorProto::INT8)
                                        .known({}, {0.05}, pb::TensorProto::FLOAT)
                                        .known({}, {1}, pb::TensorProto::INT8)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {85, 98, 44, 83, 44, -10}, 0);
}

TEST(OnnxQuantised, Product) {
  const std::vector<Computed> got = OneNode("QLinearMul", 18)
                                        .domain("com.microsoft")
                                        .input({2, 3}, {191, 126, 144, 178, 85, 116}, pb::TensorProto::UINT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {120}, pb::TensorProto::UINT8)
                                        .input({2, 3}, {149, 217, 100, 12, 30, 22}, pb::TensorProto::UINT8)
                                        .known({}, {0.03}, pb::TensorProto::FLOAT)
                                        .known({}, {3}, pb::TensorProto::UINT8)
                                        .known({}, {0.09}, pb::TensorProto::FLOAT)
                                        .known({}, {100}, pb::TensorProto::UINT8)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {169, 109, 116, 103, 94, 99}, 0);
}

TEST(OnnxQuantised, Sigmoid) {
  const std::vector<Computed> got = OneNode("QLinearSigmoid", 18)
                                        .domain("com.microsoft")
                                        .input({2, 3}, {31, 212, 11, 183, 43, 58}, pb::TensorProto::UINT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {120}, pb::TensorProto::UINT8)
                                        .known({}, {0.00390625}, pb::TensorProto::FLOAT)
                                        .known({}, {0}, pb::TensorProto::UINT8)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {37, 221, 26, 199, 45, 57}, 0);
}

TEST(OnnxQuantised, LeakyRelu) {
  const std::vector<Computed> got = OneNode("QLinearLeakyRelu", 18)
                                        .domain("com.microsoft")
                                        .input({2, 3}, {62, 131, 162, 151, 148, 31}, pb::TensorProto::UINT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {120}, pb::TensorProto::UINT8)
                                        .known({}, {0.03}, pb::TensorProto::FLOAT)
                                        .known({}, {30}, pb::TensorProto::UINT8)
                                        .real("alpha", 0.1F)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {26, 37, 58, 51, 49, 24}, 0);
}

TEST(OnnxQuantised, MeanOfImages) {
  const std::vector<Computed> got =
      OneNode("QLinearGlobalAveragePool", 18)
          .domain("com.microsoft")
          .input({1, 2, 2, 3}, {151, 23, 210, 16, 24, 49, 99, 216, 20, 48, 107, 58}, pb::TensorProto::UINT8)
          .known({}, {0.02}, pb::TensorProto::FLOAT)
          .known({}, {120}, pb::TensorProto::UINT8)
          .known({}, {0.03}, pb::TensorProto::FLOAT)
          .known({}, {30}, pb::TensorProto::UINT8)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2, 1, 1}));
  expect_near(got[0].values, {3, 11}, 0);
}

TEST(OnnxQuantised, MeanOfImagesWithLastChannels) {
  const std::vector<Computed> got =
      OneNode("QLinearGlobalAveragePool", 18)
          .domain("com.microsoft")
          .input({1, 2, 2, 3}, {20, 143, 16, 183, 26, 112, 99, 192, 195, 121, 72, 220}, pb::TensorProto::UINT8)
          .known({}, {0.02}, pb::TensorProto::FLOAT)
          .known({}, {120}, pb::TensorProto::UINT8)
          .known({}, {0.03}, pb::TensorProto::FLOAT)
          .known({}, {30}, pb::TensorProto::UINT8)
          .integer("channels_last", 1)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 1, 1, 3}));
  expect_near(got[0].values, {20, 22, 40}, 0);
}

TEST(OnnxQuantised, Concatenation) {
  const std::vector<Computed> got = OneNode("QLinearConcat", 18)
                                        .domain("com.microsoft")
                                        .known({}, {0.04}, pb::TensorProto::FLOAT)
                                        .known({}, {9}, pb::TensorProto::UINT8)
                                        .input({2, 2}, {189, 66, 59, 224}, pb::TensorProto::UINT8)
                                        .known({}, {0.02}, pb::TensorProto::FLOAT)
                                        .known({}, {120}, pb::TensorProto::UINT8)
                                        .input({2, 1}, {73, 37}, pb::TensorProto::UINT8)
                                        .known({}, {0.03}, pb::TensorProto::FLOAT)
                                        .known({}, {3}, pb::TensorProto::UINT8)
                                        .integer("axis", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {43, 0, 61, 0, 61, 35}, 0);
}

TEST(OnnxQuantised, Gemm) {
  const std::vector<Computed> got =
      OneNode("QGemm", 18)
          .domain("com.microsoft")
          .input({2, 4}, {120, 143, 19, 238, 114, 162, 149, 235}, pb::TensorProto::UINT8)
          .known({}, {0.02}, pb::TensorProto::FLOAT)
          .known({}, {120}, pb::TensorProto::UINT8)
          .known({4, 3}, {211, 100, 14, 161, 204, 217, 145, 138, 148, 37, 13, 118}, pb::TensorProto::UINT8)
          .known({}, {0.03}, pb::TensorProto::FLOAT)
          .known({}, {7}, pb::TensorProto::UINT8)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {-4.1136, -4.7952, 2.2122, 7.6175995, 7.3229995, 15.379199}, 2e-5);
}

TEST(OnnxQuantised, GemmToIntegers) {
  const std::vector<Computed> got =
      OneNode("QGemm", 18)
          .domain("com.microsoft")
          .input({2, 4}, {225, 75, 70, 254, 139, 23, 137, 8}, pb::TensorProto::UINT8)
          .known({}, {0.02}, pb::TensorProto::FLOAT)
          .known({}, {120}, pb::TensorProto::UINT8)
          .known({3, 4}, {104, 74, 25, 123, 125, -33, -69, -58, 41, -65, 19, -1}, pb::TensorProto::INT8)
          .known({}, {0.03}, pb::TensorProto::FLOAT)
          .known({}, {7}, pb::TensorProto::INT8)
          .known({3}, {500, -300, 20}, pb::TensorProto::INT32)
          .known({}, {0.1}, pb::TensorProto::FLOAT)
          .known({}, {99}, pb::TensorProto::UINT8)
          .integer("transB", 1)
          .real("alpha", 0.75F)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {199, 139, 122, 23, 152, 138}, 0);
}

TEST(OnnxQuantised, ProductOfFloats) {
  const std::vector<Computed> got =
      OneNode("DynamicQuantizeMatMul", 18)
          .domain("com.microsoft")
          .input({2, 4}, {0.04, -0.58, -1.56, 0.18, 1.2, -0.9, 1.36, -1.13})
          .known({4, 3}, {3, -82, 17, 63, 43, 50, -96, 65, -52, 14, -113, -94}, pb::TensorProto::INT8)
          .known({1}, {0.03}, pb::TensorProto::FLOAT)
          .known({1}, {2}, pb::TensorProto::INT8)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {3.5768282, -4.3803434, 1.1697177, -6.0337505, 2.3439012, 0.29577884}, 1e-3);
}

TEST(OnnxQuantised, ProductByColumns) {
  const std::vector<Computed> got =
      OneNode("DynamicQuantizeMatMul", 18)
          .domain("com.microsoft")
          .input({2, 4}, {-1.87, -1.2, -1.08, -1.43, 0.31, -0.66, -1.99, 2.48})
          .known({4, 3}, {24, -103, -72, 7, 24, 100, -38, -68, -47, 20, -7, -120}, pb::TensorProto::INT8)
          .known({3}, {0.03, 0.01, 0.02}, pb::TensorProto::FLOAT)
          .absent()
          .input({3}, {-1, 1.13, -0.31})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {-2.2242541, 3.6154957, 4.4783344, 2.8484075, 1.8310013, -6.1500993}, 1e-3);
}

TEST(OnnxQuantised, ProductOfIntegers) {
  const std::vector<Computed> got =
      OneNode("MatMulIntegerToFloat", 18)
          .domain("com.microsoft")
          .input({2, 4}, {150, 38, 23, 102, 64, 172, 83, 142}, pb::TensorProto::UINT8)
          .input({4, 3}, {155, 189, 106, 92, 79, 171, 25, 165, 152, 57, 28, 86}, pb::TensorProto::UINT8)
          .known({}, {0.02}, pb::TensorProto::FLOAT)
          .known({}, {0.04}, pb::TensorProto::FLOAT)
          .known({}, {120}, pb::TensorProto::UINT8)
          .known({}, {8}, pb::TensorProto::UINT8)
          .input({3}, {0.66, -2.1, 0.28})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {-3.3471997, -14.8848, -20.358398, -2.0719998, -11.5504, -0.21919999}, 1e-4);
}

TEST(OnnxQuantised, LargestOfLastChannels) {
  const std::vector<Computed> got =
      OneNode("NhwcMaxPool", 18)
          .domain("com.microsoft")
          .input({1, 3, 4, 2}, {132, 126, 91,  207, 240, 7,   23,  117, 173, 30,  111, 118,
                                157, 201, 100, 23,  31,  171, 143, 239, 1,   240, 221, 196},
                 pb::TensorProto::UINT8)
          .integers("kernel_shape", {2, 3})
          .integers("pads", {0, 1, 0, 1})
          .integers("strides", {1, 2})
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2, 2, 2}));
  expect_near(got[0].values, {173, 207, 240, 207, 173, 239, 221, 240}, 0);
}

TEST(OnnxQuantised, RowsOfBytes) {
  const std::vector<Computed> got =
      OneNode("GatherBlockQuantized", 18)
          .domain("com.microsoft")
          .known({4, 32},
                 {204, 37,  95,  35,  137, 107, 135, 202, 250, 220, 11,  119, 76,  159, 104, 111, 201, 200, 186,
                  71,  108, 112, 2,   145, 165, 0,   104, 55,  29,  243, 161, 242, 113, 17,  78,  15,  68,  167,
                  133, 153, 63,  82,  100, 49,  241, 194, 122, 158, 64,  181, 133, 14,  234, 187, 221, 247, 173,
                  218, 230, 79,  193, 104, 174, 235, 109, 252, 38,  227, 187, 6,   162, 220, 247, 29,  82,  150,
                  224, 75,  55,  207, 242, 9,   254, 167, 12,  115, 83,  109, 255, 193, 247, 211, 171, 186, 34,
                  36,  1,   184, 63,  110, 241, 249, 206, 6,   109, 244, 194, 16,  230, 64,  76,  22,  223, 133,
                  69,  45,  84,  105, 11,  15,  41,  173, 141, 251, 6,   6,   139, 21},
                 pb::TensorProto::UINT8)
          .input({2}, {1, 3}, pb::TensorProto::INT64)
          .known({4, 2}, {-1.49, 0.02, -1.22, 0.24, -1.17, -0.95, -0.05, 1.41}, pb::TensorProto::FLOAT)
          .integer("bits", 8)
          .integer("block_size", 16)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 32}));
  expect_near(got[0].values,
              {18.300001, 135.42,    61,         137.86,     73.200005,  -47.58,     -6.1000004, -30.5,
               79.3,      56.120003, 34.16,      96.380005,  -137.86,    -80.520004, 7.32,       -36.600002,
               -15.36,    12.719999, 1.1999999,  -27.359999, 25.439999,  14.16,      22.32,      28.56,
               10.8,      21.6,      24.48,      -11.759999, 15.599999,  -5.7599998, 11.04,      25.68,
               6.35,      -2.8,      3.25,       0.90000004, -5.65,      -6.05,      -3.9,       6.1,
               0.95,      -5.8,      -3.3,       5.6,        -5.1,       3.2,        2.6000001,  5.3,
               133.95,    7.0499997, -83.189995, -117.03,    -62.039997, -32.43,     -164.97,    -159.33,
               -122.67,   63.449997, 18.33,      173.43,     -172.01999, -172.01999, 15.509999,  -150.87},
              2e-5);
}

TEST(OnnxQuantised, RowsOfNibblesWithZeroPoints) {
  const std::vector<Computed> got =
      OneNode("GatherBlockQuantized", 18)
          .domain("com.microsoft")
          .known({4, 16}, {43,  157, 174, 195, 139, 170, 87, 206, 46,  7,   221, 212, 104, 143, 166, 30,
                           17,  135, 92,  104, 25,  50,  90, 230, 187, 255, 87,  138, 174, 131, 31,  167,
                           98,  161, 104, 175, 130, 30,  58, 128, 178, 56,  225, 72,  208, 244, 7,   252,
                           124, 102, 88,  251, 146, 97,  21, 135, 186, 219, 106, 97,  241, 50,  4,   106},
                 pb::TensorProto::UINT8)
          .input({2}, {2, 0}, pb::TensorProto::INT64)
          .known({4, 2}, {-2.17, -1.1, 0.08, 0.64, -1.45, -2.11, -0.86, -0.2}, pb::TensorProto::FLOAT)
          .known({4, 1}, {106, 127, 238, 61}, pb::TensorProto::UINT8)
          .integer("bits", 4)
          .integer("block_size", 16)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 32}));
  expect_near(got[0].values, {17.400002, 11.6,     18.85,     5.8,       8.700001,   11.6,       -1.45,     5.8,
                              17.400002, 8.700001, 0,         18.85,     5.8,        15.950001,  20.300001, 8.700001,
                              25.32,     6.33,     12.66,     23.21,     27.429998,  0,          12.66,     21.099998,
                              29.539999, 2.11,     21.099998, -2.11,     14.7699995, 29.539999,  4.22,      -2.11,
                              -2.17,     17.36,    -6.51,     2.17,      -8.68,      0,          15.190001, -4.34,
                              -2.17,     4.34,     0,         0,         6.51,       10.85,      -8.68,     -4.34,
                              -8.8,      4.4,      -1.1,      6.6000004, -7.7000003, -7.7000003, 2.2,       -7.7000003,
                              -2.2,      0,        -9.900001, -2.2,      0,          -4.4,       -8.8,      5.5},
              2e-5);
}

TEST(OnnxQuantised, WeightsOf2Bits) {
  const std::vector<Computed> got =
      OneNode("MatMulNBits", 18)
          .domain("com.microsoft")
          .input({2, 32}, {0.87,  0.98,  0.76,  -0.92, 0.09,  -0.18, -1.41, 0.9,   0.1,   -0.47, 1.43,  0.78,  0.87,
                           1.22,  0.73,  -1.25, -0.37, 1.02,  -0.75, 0.05,  0.41,  1.46,  1.31,  0.91,  -0.17, 0.93,
                           0.54,  -0.15, 1.37,  0.51,  -0.74, 1.28,  -0.24, 0.61,  -1.51, -0.01, -0.93, -0.96, -1.9,
                           2.15,  -0.14, 0.25,  1.12,  -0.11, 0.52,  -1.35, 0.21,  -0.4,  0.51,  0.19,  -1.38, -1.84,
                           -1.01, 0.75,  0.43,  0.41,  -2.01, -2.68, -0.62, -0.33, -0.6,  0.36,  -0.17, -1.18})
          .known({2, 2, 4}, {215, 46, 147, 50, 100, 34, 129, 25, 162, 220, 218, 38, 143, 111, 97, 120},
                 pb::TensorProto::UINT8)
          .known({4}, {-0.36, 0.53, 0.57, -0.16}, pb::TensorProto::FLOAT)
          .known({2}, {246, 77}, pb::TensorProto::UINT8)
          .integer("K", 32)
          .integer("N", 2)
          .integer("bits", 2)
          .integer("block_size", 16)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 2}));
  expect_near(got[0].values, {-0.5994003, 4.6464, 1.424, -2.3819997}, 1e-4);
}

TEST(OnnxQuantised, WeightsOf4Bits) {
  const std::vector<Computed> got =
      OneNode("MatMulNBits", 18)
          .domain("com.microsoft")
          .input({2, 32}, {0.06,  -1.88, -3.27, 2.31,  0.83,  -0.06, -1.74, -1.28, 1.36,  -2.79, -0.32, 0.87,  0.14,
                           0.75,  -0.13, 2.39,  -1.03, -1.36, 0.27,  1.43,  -0.06, 1.05,  -0.53, -1.19, 1.4,   1.57,
                           1.53,  -0.44, -1.16, -1.17, -0.22, 0.58,  0.51,  -1.43, 0.2,   0.02,  0.09,  -0.02, -0.2,
                           0.59,  0.13,  0.23,  -0.69, 0.4,   -0.12, -2.12, 0.48,  -0.26, 0.93,  -0.16, -0.1,  0.21,
                           -0.01, -0.45, -1.79, 1.84,  -1.58, -0.34, 0.65,  0.38,  0.57,  0.77,  1.26,  0.3})
          .known({2, 2, 8}, {38,  171, 60,  226, 222, 177, 71,  214, 41,  42,  203, 187, 194, 104, 218, 74,
                             173, 102, 106, 124, 121, 163, 142, 220, 152, 254, 241, 235, 67,  219, 196, 173},
                 pb::TensorProto::UINT8)
          .known({4}, {-0.18, -1.37, 0.01, -0.18}, pb::TensorProto::FLOAT)
          .known({2}, {4, 72}, pb::TensorProto::UINT8)
          .integer("K", 32)
          .integer("N", 2)
          .integer("bits", 4)
          .integer("block_size", 16)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 2}));
  expect_near(got[0].values, {10.438997, -0.05839933, -47.6054, -6.1041}, 1e-4);
}

TEST(OnnxQuantised, WeightsOf3Bits) {
  const std::vector<Computed> got =
      OneNode("MatMulNBits", 18)
          .domain("com.microsoft")
          .input({1, 16}, {-0.43, 1.69, 0.7, 0.94, -0.61, -1.02, -0.28, 0.24, -0.35, -0.19, 0.96, 0.3, -0.98, -0.43,
                           -0.66, 0.18})
          .known({2, 1, 6}, {207, 212, 223, 39, 90, 122, 255, 26, 174, 194, 108, 119}, pb::TensorProto::UINT8)
          .known({2}, {-0.32, 0.26}, pb::TensorProto::FLOAT)
          .known({2}, {5, 2}, pb::TensorProto::UINT8)
          .integer("K", 16)
          .integer("N", 2)
          .integer("bits", 3)
          .integer("block_size", 16)
          .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2}));
  expect_near(got[0].values, {6.4319997, 1.0218}, 1e-4);
}

/// The operator's definition divides 0 by 0.
TEST(OnnxQuantised, ZerosAloneHaveTheScaleOfOnnxRuntime) {
  const std::vector<Computed> got = OneNode("DynamicQuantizeLinear", 11).input({3}, {0, 0, 0}).outputs(3);
  expect_near(got[0].values, {0, 0, 0}, 0);
  expect_near(got[1].values, {1}, 0);
  expect_near(got[2].values, {0}, 0);
}

TEST(OnnxQuantised, WeightsOfLstm) {
  const std::vector<Computed> got =
      OneNode("DynamicQuantizeLSTM", 18)
          .domain("com.microsoft")
          .input({2, 1, 2}, {-1.11, 0.89, -1.51, -0.47})
          .known({1, 2, 8}, {46, -17, -114, -38, -27, 56, 89, 0, 38, 55, 74, -19, 31, -87, 72, 43},
                 pb::TensorProto::INT8)
          .known({1, 2, 8}, {127, 103, 54, -120, 92, 20, 121, -51, 61, -93, 80, -17, -108, 5, -119, -7},
                 pb::TensorProto::INT8)
          .input({1, 16}, {0.42, -0.47, -0.12, -0.26, 0.23, -0.42, 0.54, -1.92, -0.28, -1.68, -0.48, 0.52, 0.02, -0.11,
                           0.07, 1.57})
          .absent()
          .absent()
          .absent()
          .absent()
          .known({1}, {0.01}, pb::TensorProto::FLOAT)
          .known({1}, {3}, pb::TensorProto::INT8)
          .known({1}, {0.02}, pb::TensorProto::FLOAT)
          .known({1}, {-2}, pb::TensorProto::INT8)
          .integer("hidden_size", 2)
          .outputs(3);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 1, 1, 2}));
  // As ONNX Runtime has it, which rounds the inputs, and the states of each step.
  expect_near(got[0].values, {0.10312814, 0.00482511, -0.12140317, -0.04586989}, 1e-6);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 1, 2}));
  expect_near(got[1].values, {-0.12140317, -0.04586989}, 1e-6);
  EXPECT_EQ(got[2].sizes, (Sizes{1, 1, 2}));
  expect_near(got[2].values, {-0.16991371, -0.06794488}, 1e-6);
}

}  // namespace
}  // namespace vkfuse::onnx

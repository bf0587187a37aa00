// Operators with a state or a cache, against the ONNX reference.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

TEST(OnnxStates, CacheAtPositions) {
  const std::vector<Computed> got = OneNode("TensorScatter", 24)
                                        .input({2, 4, 2}, {-1.59, -1.11, -0.02, -1.18, -0.82, -0.62, 0.67, -0.3, -0.15,
                                                           1.33, -0.32, 0.6, -1.06, 0.33, 0.12, 0.18})
                                        .input({2, 2, 2}, {-0.47, -1.03, -0.3, -0.47, 1.03, 0.91, -1.2, 0.63})
                                        .input({2}, {1, 2}, pb::TensorProto::INT64)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 4, 2}));
  expect_near(got[0].values,
              {-1.59, -1.11, -0.47, -1.03, -0.3, -0.47, 0.67, -0.3, -0.15, 1.33, -0.32, 0.6, 1.03, 0.91, -1.2, 0.63},
              2e-5);
}

TEST(OnnxStates, CacheAroundItsEnd) {
  const std::vector<Computed> got = OneNode("TensorScatter", 24)
                                        .input({2, 4, 2}, {-0.48, 0.46, -0.48, -1.47, 1.02, 0.45, -1.23, -1.89, -0.53,
                                                           -1.18, -0.36, 0.62, 1.47, -0.36, 1.38, 1.16})
                                        .input({2, 2, 2}, {-0.43, -1.67, 0.85, 0.61, 2.35, 1.43, 0.78, 1.69})
                                        .input({2}, {3, 0}, pb::TensorProto::INT64)
                                        .text("mode", "circular")
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 4, 2}));
  expect_near(got[0].values,
              {0.85, 0.61, -0.48, -1.47, 1.02, 0.45, -0.43, -1.67, 2.35, 1.43, 0.78, 1.69, 1.47, -0.36, 1.38, 1.16},
              2e-5);
}

TEST(OnnxStates, CausalConvolution) {
  const std::vector<Computed> got = OneNode("CausalConvWithState", 27)
                                        .input({1, 2, 4}, {-1.05, 0.2, -0.27, 1.75, 0.57, -3.05, 1.38, -0.9})
                                        .input({2, 1, 3}, {0.78, -0.47, 0.25, 0.65, 0.21, -0.94})
                                        .input({2}, {1.41, 0.41})
                                        .input({1, 2, 2}, {0, 0.72, -0.52, 1.9})
                                        .text("activation", "silu")
                                        .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2, 4}));
  expect_near(got[0].values,
              {0.55983055, 2.3269546, 0.26017147, 1.9042004, -0.031350605, 4.5870304, -0.27677494, -0.17141676}, 2e-5);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 2, 2}));
  expect_near(got[1].values, {-0.27, 1.75, 1.38, -0.9}, 2e-5);
}

TEST(OnnxStates, CausalConvolutionOfAShortInput) {
  const std::vector<Computed> got = OneNode("CausalConvWithState", 27)
                                        .input({1, 2, 1}, {0.24, 0.38})
                                        .input({2, 1, 3}, {0.36, -0.9, -1.16, 0.24, 0.37, 1.36})
                                        .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 2, 1}));
  expect_near(got[0].values, {-0.27839997, 0.5168}, 2e-5);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 2, 2}));
  expect_near(got[1].values, {0, 0.24, 0, 0.38}, 2e-5);
}

TEST(OnnxStates, AttentionLinear) {
  const std::vector<Computed> got =
      OneNode("LinearAttention", 27)
          .input({1, 3, 8}, {0.47,  -1.07, 0.55, 0.85, 1.02,  0.35,  -1.2,  1.18, -0.71, 0.59, -1.55, 0.78,
                             -0.77, 1.1,   1.78, 1.19, -1.15, -0.93, -0.85, 0.68, 0.36,  0.18, 0.33,  0.6})
          .input({1, 3, 4}, {0.67, 1.71, -0.04, 0.22, -1.84, -1.31, -0.68, -1.17, 0.23, 1.05, -0.42, -0.48})
          .input({1, 3, 2}, {-0.5, 0.14, -0.54, 0.43, 0.31, 0.35})
          .input({1, 1, 4, 2}, {0.77, 0.04, 0.15, 1.76, -0.04, 0.8, 0.06, -0.46})
          .absent()
          .absent()
          .integer("q_num_heads", 2)
          .integer("kv_num_heads", 1)
          .text("update_rule", "linear")
          .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4}));
  expect_near(got[0].values,
              {0.45265004, -1.0021861, 0.080974974, -0.31173503, -0.5486231, -0.09562051, 0.10648799, 0.93501544,
               -0.959921, -1.0319335, 0.46519804, -0.21303299},
              1e-4);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[1].values, {1.4999001, -0.5769, 0.32789996, 1.8036, 0.21700001, 0.35500002, 0.43299997, -1.1003},
              1e-4);
}

TEST(OnnxStates, AttentionGated) {
  const std::vector<Computed> got =
      OneNode("LinearAttention", 27)
          .input({1, 3, 8}, {-0.46, -0.82, 0.01, -0.6, -0.42, 1.22,  -0.13, 1.14, 0.26, 0.86,  -0.61, 0.15,
                             2.63,  0.82,  1,    0.23, 0.85,  -1.17, -0.86, 0.42, 0.81, -0.42, -0.19, -0.37})
          .input({1, 3, 4}, {-0.2, -1.21, -1.44, -0.09, -1.75, -0.99, -0.67, -1.07, 0.22, -0.46, -0.1, -1.03})
          .input({1, 3, 2}, {-0.76, 0.49, 0.34, -0.49, 0.34, 0.16})
          .input({1, 1, 4, 2}, {0.13, 1.57, -0.43, 0.39, 0.39, -0.26, -1.19, 0.66})
          .input({1, 3, 4}, {0.23, 0.02, -0.01, -0.01, -0.93, 0.26, -1.84, -0.07, -1.54, -0.39, 0.67, -0.3})
          .absent()
          .integer("q_num_heads", 2)
          .integer("kv_num_heads", 1)
          .text("update_rule", "gated")
          .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4}));
  expect_near(got[0].values,
              {0.07056382, -0.5395966, -0.50171924, -0.10342795, -0.04482989, 0.3360839, -0.65812004, 2.4104905,
               -0.31595585, 0.10656667, 0.23979416, -0.0147797465},
              1e-4);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[1].values,
              {-0.02606026, 0.3778823, 0.037990525, 0.083592765, -0.019670958, 0.32668877, -1.3862586, 0.6444982},
              1e-4);
}

TEST(OnnxStates, AttentionDelta) {
  const std::vector<Computed> got =
      OneNode("LinearAttention", 27)
          .input({1, 3, 8}, {-0.53, 0.47, -0.32, -0.46, -0.44, 1.46,  0.61, 0.43, -1.24, 0.57,  -1.35, 0.42,
                             -1.17, 1.9,  -1.74, 1.16,  0.74,  -1.83, -0.3, 1.38, 1.08,  -1.72, -0.58, -1.23})
          .input({1, 3, 4}, {-1.09, -0.7, 1.78, 0.07, -0.29, -0.4, 0.6, 0.63, -0.98, 1.4, -1.15, -0.34})
          .input({1, 3, 2}, {0.39, 1.65, -0.41, 0.22, 1.24, 0.56})
          .input({1, 1, 4, 2}, {1.06, 0.97, 0.19, 0.57, 0.85, -0.09, 1.53, -2.05})
          .absent()
          .input({1, 3, 1}, {-0.99, 1.38, 0.36})
          .integer("q_num_heads", 2)
          .integer("kv_num_heads", 1)
          .text("update_rule", "delta")
          .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4}));
  expect_near(got[0].values,
              {-0.71396005, 0.9588152, 0.47714967, -1.2335393, -0.41421646, -0.64904773, 0.50682944, 0.07566643,
               -0.7054401, 1.2264187, -0.5004327, -3.4511385},
              1e-4);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[1].values,
              {1.2912166, -0.60106516, 1.5653095, 1.6226478, -0.87438214, -2.0854278, 0.17088497, 3.7981467}, 1e-4);
}

TEST(OnnxStates, AttentionGatedDelta) {
  const std::vector<Computed> got =
      OneNode("LinearAttention", 27)
          .input({1, 3, 8}, {-0.71, 0.31,  1.02, -0.62, 0.7,   -0.19, -0.18, -0.13, 1.05,  -1.18, -0.43, 0.6,
                             -1.28, -1.64, 0.51, -0.06, -0.21, 0.08,  -1.04, 2.85,  -1.05, -0.5,  -1.48, -0.48})
          .input({1, 3, 4}, {1.46, -0.04, 0.53, -0.55, 1.75, 0.1, -1.31, 0.71, -0.43, 0.54, 0.08, 0.2})
          .input({1, 3, 2}, {0.07, -0.97, -1.57, 0.91, -0.2, 0.22})
          .input({1, 1, 4, 2}, {-0.53, -2.09, -1.34, 1.33, -0.85, -0.45, -1.53, -0.59})
          .input({1, 3, 4}, {-0.44, -0.29, -0.14, -0.7, -0.64, -0.08, 0.26, -0.21, 1.68, 0.14, 0.09, -0.72})
          .input({1, 3, 1}, {0.96, -1.09, -1.69})
          .integer("q_num_heads", 2)
          .integer("kv_num_heads", 1)
          .text("update_rule", "gated_delta")
          .outputs(2);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 3, 4}));
  expect_near(got[0].values,
              {-0.21591344, 0.43652683, 0.3340186, 0.010541316, 3.5565922, -2.8421428, -2.9494214, 1.7267157,
               -4.9944415, 2.315244, -8.244996, 5.450359},
              1e-4);
  EXPECT_EQ(got[1].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[1].values, {29.12323, -18.800114, -9.873851, 6.6284437, -5.2159452, 3.3226717, -2.9851508, 1.2658832},
              1e-4);
}

TEST(OnnxStates, RunningProduct) {
  const std::vector<Computed> got = OneNode("CumProd", 26)
                                        .input({2, 3}, {-1.04, 0.55, -1.21, 1.22, -0.09, -1.59})
                                        .known({}, {1}, pb::TensorProto::INT64)
                                        .integer("exclusive", 1)
                                        .integer("reverse", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 3}));
  expect_near(got[0].values, {-0.66550004, -1.21, 1, 0.14310001, -1.59, 1}, 2e-5);
}

TEST(OnnxStates, AttentionWindow1All1) {
  const std::vector<Computed> got = OneNode("Attention", 25)
                                        .input({1, 1, 4, 2}, {-0.3, 1.71, -0.93, -1.38, 0.44, 1.24, 0.94, -0.4})
                                        .input({1, 1, 4, 2}, {0.12, 0.25, 1.1, 2.08, -0.18, 1.23, -0.42, 0.52})
                                        .input({1, 1, 4, 2}, {-1, -0.84, 0.34, -0.97, 0.82, -0.62, 0.01, -0.16})
                                        .integer("left_window_size", 1)
                                        .integer("right_window_size", -1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[0].values,
              {0.3266406, -0.7762434, -0.21690038, -0.52447665, 0.40809354, -0.8074914, 0.40663895, -0.38525173}, 1e-4);
}

TEST(OnnxStates, AttentionWindow10) {
  const std::vector<Computed> got = OneNode("Attention", 25)
                                        .input({1, 1, 4, 2}, {-0.41, 0.06, 1.01, 3.03, -1.26, 0.23, -0.25, -0.98})
                                        .input({1, 1, 4, 2}, {0.21, -0.95, -0.15, 1.17, -2.09, 0.18, 0.38, -1.03})
                                        .input({1, 1, 4, 2}, {0.45, 0.28, -0.42, 1.14, -1.38, 0.57, -0.31, -1.13})
                                        .integer("left_window_size", 1)
                                        .integer("right_window_size", 0)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[0].values, {0.45, 0.28, -0.4081805, 1.1283163, -1.2143222, 0.66837126, -0.73892903, -0.448524}, 1e-4);
}

TEST(OnnxStates, AttentionWindowAll11) {
  const std::vector<Computed> got = OneNode("Attention", 25)
                                        .input({1, 1, 4, 2}, {-0.25, -0.42, 0.75, -1.57, -0.27, -0.53, 1.5, -1.19})
                                        .input({1, 1, 4, 2}, {0.99, -1.83, 0.27, -0.21, 0.3, -0.78, -2.03, -1.62})
                                        .input({1, 1, 4, 2}, {1.23, 0.13, -0.94, 0.82, -0.83, -0.82, -1.3, 1.09})
                                        .integer("left_window_size", -1)
                                        .integer("right_window_size", 1)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{1, 1, 4, 2}));
  expect_near(got[0].values,
              {0.33497816, 0.4145922, 0.7104531, 0.03414864, -0.5285305, 0.44672462, 0.6720445, 0.075323544}, 1e-4);
}

TEST(OnnxStates, AttentionWindowOfCountedKeys) {
  const std::vector<Computed> got = OneNode("Attention", 25)
                                        .input({2, 1, 2, 2}, {1.88, -1.05, 0.2, 0.89, 2.03, -2.49, 0.05, 0.56})
                                        .input({2, 1, 4, 2}, {-1.57, 0.32, 0.11, 0.63, -0.68, 0.32, -0.7, 0.51, 0.06,
                                                              -0.47, -1.51, 1.55, 1.01, 0.78, -0.76, -0.45})
                                        .input({2, 1, 4, 2}, {1.57, 0.65, -0.95, -0.05, 0.05, -0.29, -1.04, 1.16, 0.5,
                                                              -0.29, -1.66, -0.67, -0.09, 0.78, -0.46, 1.02})
                                        .absent()
                                        .absent()
                                        .absent()
                                        .input({2}, {3, 4}, pb::TensorProto::INT64)
                                        .integer("left_window_size", 1)
                                        .integer("right_window_size", 0)
                                        .outputs(1);
  EXPECT_EQ(got[0].sizes, (Sizes{2, 1, 2, 2}));
  expect_near(got[0].values,
              {-0.6504445, 0.033209857, -0.5261073, -0.15173423, -0.10079326, 0.7700317, -0.22540125, 0.8678278}, 1e-4);
}

}  // namespace
}  // namespace vkfuse::onnx

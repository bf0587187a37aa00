// Random operators: their numbers are free, so that what they have in common is looked at.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "unit/onnx/one_node.hpp"

namespace vkfuse::onnx {
namespace {

double mean(const List& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const List& values) {
  double sum = 0;
  for (const double value : values) sum += (value - mean(values)) * (value - mean(values));
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(OnnxRandom, UniformNumbersFillTheirRange) {
  const auto node = [](float seed) {
    return OneNode("RandomUniform").integers("shape", {40, 50}).real("low", 2).real("high", 4).real("seed", seed);
  };
  const List values = node(1).value();
  EXPECT_NEAR(mean(values), 3, 0.05);
  EXPECT_NEAR(deviation(values), 2 / std::sqrt(12.0), 0.05);
  EXPECT_GE(*std::ranges::min_element(values), 2);
  EXPECT_LT(*std::ranges::max_element(values), 4);
  EXPECT_EQ(values, node(1).value());
  EXPECT_NE(values, node(2).value());
}

TEST(OnnxRandom, NormalNumbersHaveTheirMoments) {
  const Computed got = OneNode("RandomNormalLike")
                           .input({2000}, List(2000))
                           .real("mean", -1)
                           .real("scale", 0.5)
                           .integer("dtype", pb::TensorProto::DOUBLE)
                           .output();
  EXPECT_EQ(got.dtype, DType::f64);
  EXPECT_NEAR(mean(got.values), -1, 0.05);
  EXPECT_NEAR(deviation(got.values), 0.5, 0.05);
}

TEST(OnnxRandom, BernoulliDrawsWithItsProbabilities) {
  List probabilities(2000, 0.25);
  std::fill(probabilities.begin() + 1000, probabilities.end(), 1);
  probabilities[0] = 0;
  const Computed got =
      OneNode("Bernoulli").input({2000}, probabilities).integer("dtype", pb::TensorProto::INT32).output();
  EXPECT_EQ(got.dtype, DType::i32);
  EXPECT_EQ(got.values[0], 0);
  EXPECT_NEAR(mean({got.values.begin(), got.values.begin() + 1000}), 0.25, 0.05);
  EXPECT_EQ(mean({got.values.begin() + 1000, got.values.end()}), 1);
}

TEST(OnnxRandom, MultinomialDrawsClasses) {
  const List logs = {std::log(0.125), std::log(0.75), std::log(0.125)};
  const List drawn = OneNode("Multinomial").input({1, 3}, logs).integer("sample_size", 2000).value();
  const auto share = [&](double which) {
    return static_cast<double>(std::ranges::count(drawn, which)) / static_cast<double>(drawn.size());
  };
  EXPECT_NEAR(share(0), 0.125, 0.04);
  EXPECT_NEAR(share(1), 0.75, 0.04);
  EXPECT_NEAR(share(2), 0.125, 0.04);
}

TEST(OnnxRandom, DropoutInTrainingScalesWhatItKeeps) {
  const List x(2000, 3);
  auto outputs = OneNode("Dropout")
                     .input({2000}, x)
                     .known({}, {0.25}, pb::TensorProto::FLOAT)
                     .known({}, {1}, pb::TensorProto::BOOL)
                     .outputs(2);
  EXPECT_NEAR(mean(outputs[1].values), 0.75, 0.04);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(outputs[0].values[i], outputs[1].values[i] * 4);
}

TEST(OnnxRandom, DropoutIsTrainedWhereItsInputSaysSo) {
  const auto value = [](double trains) {
    return OneNode("Dropout")
        .input({64}, List(64, 1))
        .input({}, {0.5})
        .input({}, {trains}, pb::TensorProto::BOOL)
        .value();
  };
  EXPECT_EQ(value(0), List(64, 1));
  EXPECT_NE(value(1), List(64, 1));
}

}  // namespace
}  // namespace vkfuse::onnx

// The interpreter and its bounds.
#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/cases.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

reference::Column evaluated(const std::string& body, const std::map<std::string, std::vector<float>>& inputs,
                            const char* output = "y") {
  const ir::Graph graph = must(ir::parse("graph \"g\" {\n" + body + "}"));
  reference::InputBindings input_bindings;
  for (const auto& input : inputs) input_bindings.inputs[input.first] = std::as_bytes(std::span(input.second));
  for (const ir::Output& one : graph.outputs()) {
    if (one.name == output) return must(reference::evaluate(graph, one.value, input_bindings));
  }
  throw std::runtime_error("no such output");
}

TEST(Reference, BroadcastsAndChains) {
  const auto y = evaluated(
      " %0 = input \"x\" : f32[2, 3]\n %1 = input \"b\" : f32[3]\n %2 = add %0 %1 : f32[2, 3]\n %3 = neg %2 : f32[2, "
      "3]\n output \"y\" = %3\n",
      {{"x", {1, 2, 3, 4, 5, 6}}, {"b", {10, 20, 30}}});
  EXPECT_EQ(y.value, (std::vector<double>{-11, -22, -33, -14, -25, -36}));
  for (std::size_t i = 0; i < y.bound.size(); ++i) {
    EXPECT_GT(y.bound[i], 0);
    EXPECT_LT(y.bound[i], 1e-6 * std::abs(y.value[i]));
  }
}

TEST(Reference, CancellationKeepsTheAbsoluteBound) {
  const auto y =
      evaluated(" %0 = input \"x\" : f32[1]\n %1 = exp %0 : f32[1]\n %2 = sub %1 %1 : f32[1]\n output \"y\" = %2\n",
                {{"x", {10}}});
  EXPECT_EQ(y.value[0], 0);
  EXPECT_GT(y.bound[0], 1e-4);  // two roundings of e^10, about 22026
  EXPECT_LT(y.bound[0], 1);
}

TEST(Reference, StepsWithinTheBoundAreUndecided) {
  const char* body = " %0 = input \"x\" : f32[2]\n %1 = exp %0 : f32[2]\n %2 = floor %1 : f32[2]\n output \"y\" = %2\n";
  const auto y = evaluated(body, {{"x", {0, 1}}});
  EXPECT_TRUE(std::isinf(y.bound[0]));  // e^0 may come out below 1
  EXPECT_EQ(y.value[1], 2);
  EXPECT_EQ(y.bound[1], 0);
}

TEST(Reference, HalfRoundsOncePerOp) {
  const auto y =
      evaluated(" %0 = input \"x\" : f32[1]\n %1 = cast %0 : f16[1]\n output \"y\" = %1\n", {{"x", {1.0001F}}});
  EXPECT_NEAR(y.value[0], 1.0001, 1e-6);
  EXPECT_GE(y.bound[0], 0x1p-11);
  EXPECT_LE(y.bound[0], 0x1.1p-11);
  const auto inf =
      evaluated(" %0 = input \"x\" : f32[1]\n %1 = cast %0 : f16[1]\n output \"y\" = %1\n", {{"x", {1e30F}}});
  EXPECT_TRUE(std::isinf(inf.bound[0]) || std::isinf(inf.value[0]));
}

TEST(Reference, ComparesExactlyWithinTheBound) {
  reference::Column want{{1, 2, 3, 4}, {0, 0, 0, 0}, {0, 0.5, 0.5, HUGE_VAL}};
  const std::vector<float> got = {1, 2.5F, 3.75F, 100};
  const auto found = reference::compare(DType::f32, std::as_bytes(std::span(got)), want);
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.undecided, 1);
  EXPECT_EQ(found.first_wrong, "Element 2 is 3.75, but 3 +- 0.5 is right.");
  EXPECT_EQ(found.max_ratio, 1);
  const std::vector<float> nan = {NAN, 2, 3, 4};
  EXPECT_EQ(reference::compare(DType::f32, std::as_bytes(std::span(nan)), want).wrong, 1);
}

TEST(Reference, SamplesAgreeWithTheWhole) {
  CaseOptions options;
  options.caps.arithmetic.int64 = options.caps.arithmetic.float64 = true;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case one = random_case(seed, options);
    const Data data = data_for(one);
    reference::InputBindings input_bindings;
    input_bindings.symbols = data.symbols;
    for (const auto& input : data.inputs) input_bindings.inputs[input.first] = input.second;
    for (const ir::Output& output : one.graph.outputs()) {
      const auto all = must(reference::evaluate(one.graph, output.value, input_bindings));
      std::vector<std::int64_t> indices;
      for (std::size_t i = 0; i < all.bound.size(); i += 1 + i / 3)
        indices.insert(indices.begin(), static_cast<std::int64_t>(i));
      const auto some = must(reference::evaluate_at(one.graph, output.value, indices, input_bindings));
      for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto at = static_cast<std::size_t>(indices[i]);
        ASSERT_TRUE(some.value[i] == all.value[at] || std::isnan(all.value[at])) << ir::print(one.graph);
        ASSERT_EQ(some.integer[i], all.integer[at]) << ir::print(one.graph);
        ASSERT_TRUE(some.bound[i] == all.bound[at]) << ir::print(one.graph);
      }
    }
  }
}

TEST(Reference, TooFewBytesAreAnError) {
  const ir::Graph graph =
      must(ir::parse("graph \"g\" {\n %0 = input \"x\" : f32[4]\n %1 = neg %0 : f32[4]\n output \"y\" = %1\n}"));
  const std::vector<float> three = {1, 2, 3};
  reference::InputBindings input_bindings;
  EXPECT_EQ(reference::evaluate(graph, 1, input_bindings).error().message, "Input 'x' was not given.");
  input_bindings.inputs["x"] = std::as_bytes(std::span(three));
  EXPECT_EQ(reference::evaluate(graph, 1, input_bindings).error().message,
            "A value has 12 bytes, too few for its element 3.");
}

}  // namespace
}  // namespace vkfuse::test

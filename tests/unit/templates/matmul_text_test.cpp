// The text of products: what is read before the loop over the sum, and what is made of the sums that threads hold.
#include <gtest/gtest.h>

#include <string>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "templates/lowering.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

/// The text of the one kernel of a graph.
std::string text_of(const ir::Graph& graph, const Target& target) {
  const plan::Plan made = must(plan::make_plan(graph, target));
  const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(made, {}));
  EXPECT_EQ(steps.size(), 1U);
  const plan::ScheduledKernel& step = steps.front();
  const auto kernels =
      must(lowering::lower({made.graph, made.steps[0].segment, step.loops, step.schedule, made.target, {}}));
  EXPECT_EQ(kernels.size(), 1U);
  return kernels.front().glsl;
}

/// exp(x w), of which the rows' sums are stored or not.
ir::Graph product(bool with_sums) {
  const Tensor y = exp(matmul(Tensor::input("x", DType::f32, {128, 64}), Tensor::input("w", DType::f32, {64, 64})));
  return with_sums ? graph_of({y, y.sum({1})}) : graph_of({y});
}

constexpr const char* kLoop = "[[dont_unroll]] for (uint i = 0u;";
constexpr const char* kStoreOfLoop = "_of_lane[i";

// LLVM 16 and newer end the process (AVX-512) where a loop stores in an array at the place that its counter gives, as
// loops over what lanes reduce do.
TEST(MatmulEpilogue, HasNoLoopsThatStoreWhereTheDriverAborts) {
  Target target = cpu_driver();
  const std::string with = text_of(product(true), target);
  EXPECT_NE(with.find(kLoop), std::string::npos) << with;
  EXPECT_NE(with.find(kStoreOfLoop), std::string::npos) << with;
  target.workarounds.aborts_on_indexed_stores = true;
  const std::string without = text_of(product(true), target);
  EXPECT_NE(without.find("_of_lane["), std::string::npos) << without;
  EXPECT_EQ(without.find(kLoop), std::string::npos) << without;
  // Loops that store in buffers alone are no danger.
  EXPECT_NE(text_of(product(false), target).find(kLoop), std::string::npos);
}

/// What an operand's elements are multiplied by, the transposed product of 1,024 rows of two matrices.
ir::Graph product_of_scaled(const Shape& scale) {
  const Tensor x = Tensor::input("x", DType::f16, {1024, 512});
  const Tensor y = Tensor::input("y", DType::f16, {1024, 768}) * Tensor::input("scale", DType::f16, scale);
  return graph_of({dot_general(x, y, {.contract_a = {0}, .contract_b = {0}})});
}

// What a step would read again comes from the cache that all compute units share: on an H100, the gradient of GPT-2's
// words took 13.3 ms so and takes 3.6.
TEST(MatmulOperands, WhatIsTheSameAtEveryStepIsReadBeforeTheFirst) {
  const Target target = discrete_gpu_with_measured_costs();
  const std::string columns = text_of(product_of_scaled({768}), target);
  const std::size_t loop = columns.find("for (uint step");
  ASSERT_NE(loop, std::string::npos) << columns;
  EXPECT_LT(columns.find("in_scale.w["), loop) << columns;
  EXPECT_EQ(columns.find("in_scale.w[", loop), std::string::npos) << columns;
  // The rest fits beside the sums, and is on its way while they are added up.
  EXPECT_NE(columns.find("in_y.w[", columns.find("uint next")), std::string::npos) << columns;
  // What differs along the sum is read with what it scales.
  const std::string rows = text_of(product_of_scaled({1024, 1}), target);
  EXPECT_NE(rows.find("in_scale.w[", rows.find("for (uint step")), std::string::npos) << rows;
}

}  // namespace
}  // namespace vkfuse::test

// What a product's kernel makes of sums that its threads hold, on CPU drivers: loops, or the text once for each.
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

}  // namespace
}  // namespace vkfuse::test

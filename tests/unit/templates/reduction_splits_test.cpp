// How many workgroups share a row, on devices that are plain numbers.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "templates/planning.hpp"

namespace vkfuse::test {
namespace {

int splits_of(const Tensor& result) {
  const Target target = discrete_gpu_with_measured_costs();
  const plan::Plan plan = must(plan::make_plan(graph_of({result}), target));
  EXPECT_EQ(plan.steps.size(), 1U);
  const segment::Loops loops = must(segment::build_loops(plan.graph, plan.steps[0].segment, {}));
  return must(schedule::best(plan.graph, loops, target)).splits;
}

/// One row of as many scores as a vocabulary has words: looking for the largest takes a compute unit longer than
/// another dispatch, adding few up does not.
TEST(ReductionSplits, RowsWithMuchArithmeticAreShared) {
  const auto scores = [](std::int64_t rows) { return Tensor::input("scores", DType::f16, {rows, 128256}); };
  EXPECT_GT(splits_of(scores(1).argmax(1)), 1);
  EXPECT_EQ(splits_of(scores(4096).argmax(1)), 1) << "rows enough for all compute units";
  EXPECT_EQ(splits_of(Tensor::input("x", DType::f16, {1, 16384}).sum({1})), 1);
}

}  // namespace
}  // namespace vkfuse::test

// How many items a kernel may have.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "plan/plan.hpp"
#include "runtime/shape_buckets.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

// No device has room for results that need as many: u8 in items of one element, where it stores bytes.
TEST(Items, TheirNumberLeavesOneBitClear) {
  const plan::Plan plan = must(plan::make_plan(must(ir::parse(R"(graph "negated" {
  %0 = input "x" : u8[64]
  %1 = neg %0 : u8[64]
  output "y" = %1
})")),
                                               discrete_gpu()));
  std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}));
  ASSERT_EQ(steps.size(), 1U);
  steps[0].schedule.launch.chunks = (std::int64_t{1} << 31) - 1;
  EXPECT_TRUE(runtime::write_kernels(plan, 0, steps[0], {}).ok());
  ++steps[0].schedule.launch.chunks;
  const auto refused = runtime::write_kernels(plan, 0, steps[0], {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "A kernel of 2147483648 chunks is not supported: there are 2147483647 at most.");
}

}  // namespace
}  // namespace vkfuse::test

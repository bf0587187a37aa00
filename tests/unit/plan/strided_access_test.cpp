// Plans avoid kernels that load or store elements one by one, apart from each other in memory.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "templates/stencil/params.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

/// A norm of channels that come last, and a depthwise convolution, which reads columns.
ir::Graph norm_and_depthwise() {
  const Tensor x = Tensor::input("x", DType::f16, {32, 56, 56, 128});
  const Tensor w = Tensor::input("w", DType::f16, {128, 1, 7, 7});
  const Tensor image = layer_norm(x, -1).permute({0, 3, 1, 2});
  return graph_of({conv(image, w, {.low = {3, 3}, .high = {3, 3}, .groups = 128}), relu(image)});
}

TEST(StridedAccess, WindowsAreReadFromAnImageThatIsStoredInTheirOrder) {
  Target target = discrete_gpu_with_matrices();
  target.costs = CostModel{4250, 2, 30000, 1.9e6};
  const plan::Plan made = must(plan::make_plan(must(passes::run_pipeline(norm_and_depthwise())), target));
  int stencils = 0;
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(made, {}))) {
    const auto* params = step.schedule.get_if<schedule::StencilParams>();
    if (params == nullptr) continue;
    ++stencils;
    for (std::size_t i = 0; i < params->roles.size(); ++i) {
      if (step.loops.values[i].kind != segment::Value::Kind::load) continue;
      if (params->roles[i] != schedule::StencilRole::window) continue;
      EXPECT_NE(step.schedule.loads[i].kind, schedule::AccessKind::element);
    }
  }
  EXPECT_EQ(stencils, 1);
}

}  // namespace
}  // namespace vkfuse::test

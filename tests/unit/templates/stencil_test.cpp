// Which loops are reductions over windows, and what blocks read of them.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "templates/stencil/geometry.hpp"
#include "templates/stencil/match.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

plan::ScheduledKernel scheduled(const std::string& text, const schedule::Tuning& tuning = {}) {
  const plan::Plan plan = must(plan::make_plan(must(ir::parse(text)), discrete_gpu()));
  std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}, tuning));
  if (steps.size() != 1) throw std::runtime_error(fmt::format("{} kernels", steps.size()));
  return std::move(steps.front());
}

schedule::Tuning blocks_of(int elements, int rows) {
  schedule::Tuning tuning;
  tuning.stencil = schedule::StencilShape{elements, rows, 1};
  return tuning;
}

/// Sums over windows of the last two axes of x.
std::string pooled(const std::string& dtype, int height, int width, int taps, int stride) {
  const int rows = (height - taps) / stride + 1, columns = (width - taps) / stride + 1;
  return fmt::format(R"(graph "pooled" {{
  %0 = input "x" : {0}[4, {1}, {2}]
  %1 = unfold axes=[1, 2] sizes=[{3}, {3}] strides=[{4}, {4}] dilations=[1, 1] %0 : {0}[4, {5}, {6}, {3}, {3}]
  %2 = reduce_max axes=[3, 4] %1 : {0}[4, {5}, {6}]
  output "y" = %2
}})",
                     dtype, height, width, taps, stride, rows, columns);
}

TEST(Stencil, WindowsArePairsOfAxes) {
  const plan::ScheduledKernel step = scheduled(pooled("f16", 33, 65, 3, 2), blocks_of(8, 2));
  ASSERT_EQ(step.schedule.kind(), schedule::Template::stencil);
  const auto& params = step.schedule.as<schedule::StencilParams>();
  ASSERT_EQ(params.windows.size(), 2U);
  for (const schedule::WindowAxis& window : params.windows) {
    EXPECT_EQ(window.step, 2);
    EXPECT_EQ(window.dilation, 1);
  }
  EXPECT_TRUE(params.along_window);
  const schedule::StencilBlocks blocks(step.loops, params);
  EXPECT_EQ(blocks.window_extent(1), 17);
  EXPECT_EQ(blocks.window_extent(0), 5);
  EXPECT_EQ(blocks.count(), 4 * 4 * 8);
}

TEST(Stencil, BlocksThatDoNotDivideAnAxisBeginEarly) {
  const schedule::BlockAxis even = schedule::block_axis(56, 8), odd = schedule::block_axis(14, 8);
  EXPECT_FALSE(even.overlaps());
  EXPECT_EQ(even.blocks, 7);
  EXPECT_TRUE(odd.overlaps());
  EXPECT_EQ(odd.blocks, 2);
  EXPECT_EQ(odd.step, 2);
  EXPECT_EQ((odd.starts - 1) * odd.step, 14 - 8);
}

TEST(Stencil, RowsAreVectorsWhereMemoryIsAligned) {
  // The rows of the first are a multiple of eight elements, those of the second of two, and of the third of one.
  const std::pair<int, int> bytes_of_width[] = {{64, 16}, {62, 4}, {61, 4}};
  for (const auto& [width, bytes] : bytes_of_width) {
    const plan::ScheduledKernel step = scheduled(pooled("f16", 32, width, 9, 1), blocks_of(8, 1));
    ASSERT_EQ(step.schedule.kind(), schedule::Template::stencil) << width;
    for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
      if (step.loops.values[i].kind != segment::Value::Kind::load) continue;
      EXPECT_EQ(step.schedule.loads[i].vector_bytes, bytes) << width;
      EXPECT_EQ(step.schedule.loads[i].kind == schedule::AccessKind::unaligned, width == 61) << width;
    }
  }
}

/// Images and weights with channels last: every load and store is one of vectors.
TEST(Stencil, WeightsOfATapAreVectors) {
  const Tensor x = Tensor::input("x", DType::f16, {8, 56, 56, 64}), w = Tensor::input("w", DType::f16, {7, 7, 1, 64});
  const Tensor y = conv(x.permute({0, 3, 1, 2}), w.permute({3, 2, 0, 1}), {.low = {3, 3}, .high = {3, 3}, .groups = 64})
                       .permute({0, 2, 3, 1});
  const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(graph_of({y}))), discrete_gpu()));
  for (const int chunk : {2, 4, 8}) {
    const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}, blocks_of(chunk, 7)));
    ASSERT_EQ(steps.size(), 1U);
    const schedule::Schedule& made = steps[0].schedule;
    ASSERT_EQ(made.kind(), schedule::Template::stencil);
    ASSERT_EQ(made.chunk_size, chunk);
    int loads = 0;
    for (std::size_t i = 0; i < steps[0].loops.values.size(); ++i) {
      if (steps[0].loops.values[i].kind != segment::Value::Kind::load) continue;
      ++loads;
      EXPECT_EQ(made.loads[i].kind, schedule::AccessKind::vector) << i;
      EXPECT_EQ(made.loads[i].vector_bytes, 2 * chunk) << i;
    }
    EXPECT_EQ(loads, 2);
    EXPECT_EQ(made.stores[0].kind, schedule::AccessKind::vector);
  }
}

/// A block of ConvNeXt: 7 x 7 of single channels, a norm over channels, a product of them. With channels last what
/// the convolutions read of their images is vectors.
TEST(Stencil, ChannelsAreLastBeforeANormOverThem) {
  const DType dtype = DType::f16;
  const Tensor x = Tensor::input("x", dtype, {32, 512, 14, 14});
  const Tensor y = conv(x, Tensor::input("w", dtype, {512, 1, 7, 7}), {.low = {3, 3}, .high = {3, 3}, .groups = 512});
  const Tensor norm = layer_norm(y.permute({0, 2, 3, 1}), 1);
  const Tensor block = matmul(norm, Tensor::input("m", dtype, {512, 512})).permute({0, 3, 1, 2}) + x;
  const Tensor next =
      conv(block, Tensor::input("v", dtype, {512, 1, 7, 7}), {.low = {3, 3}, .high = {3, 3}, .groups = 512});
  const plan::Plan plan =
      must(plan::make_plan(must(passes::run_pipeline(graph_of({relu(next)}))), discrete_gpu_with_measured_costs()));
  const bool is_taken = std::any_of(plan.rewrites.begin(), plan.rewrites.end(), [](const auto& one) {
    return one.planner_pass == partition::PlannerPass::channels_last && one.taken;
  });
  EXPECT_TRUE(is_taken);
  int stencils = 0;
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(plan, {}))) {
    if (step.schedule.kind() != schedule::Template::stencil) continue;
    ++stencils;
    EXPECT_FALSE(step.schedule.as<schedule::StencilParams>().along_window);
    for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
      if (step.loops.values[i].kind != segment::Value::Kind::load ||
          step.schedule.as<schedule::StencilParams>().roles[i] != schedule::StencilRole::window)
        continue;
      EXPECT_EQ(step.schedule.loads[i].kind, schedule::AccessKind::vector);
    }
  }
  EXPECT_EQ(stencils, 2);
}

TEST(Stencil, ProductsAndReductionsOfRowsAreNone) {
  const char* const others[] = {R"(graph "product" {
  %0 = input "a" : f16[64, 48]
  %1 = input "b" : f16[48, 64]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f16[64, 64]
  output "y" = %2
})",
                                R"(graph "rows" {
  %0 = input "x" : f32[64, 48]
  %1 = reduce_sum axes=[1] %0 : f32[64]
  output "y" = %1
})",
                                R"(graph "all positions" {
  %0 = input "x" : f16[4, 16, 7, 7]
  %1 = reduce_mean axes=[2, 3] %0 : f16[4, 16]
  output "y" = %1
})"};
  for (const char* text : others) {
    const plan::ScheduledKernel step = scheduled(text, blocks_of(4, 1));
    EXPECT_NE(step.schedule.kind(), schedule::Template::stencil) << text;
  }
}

}  // namespace
}  // namespace vkfuse::test

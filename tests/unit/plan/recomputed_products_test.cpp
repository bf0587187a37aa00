// What a backward pass of attention keeps: nothing of the size of the scores, on any kind of device.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/gradients.hpp"

namespace vkfuse::test {
namespace {

ir::Graph gradients_of_attention(std::int64_t positions, DType dtype, const AttentionOptions& options) {
  const auto input = [&](const char* name) { return Tensor::input(name, dtype, {1, 2, positions, 64}); };
  const std::vector<Tensor> wrt = {input("q"), input("k"), input("v")};
  const Tensor y = attention(wrt[0], wrt[1], wrt[2], options), cotangent = input("cotangent");
  std::vector<Tensor> all = gradients(std::span(&y, 1), wrt, std::span(&cotangent, 1));
  all.push_back(y);
  return must(passes::run_pipeline(graph_of(all)));
}

std::int64_t arena_bytes(std::int64_t positions, const Target& target, DType dtype, const AttentionOptions& options) {
  const plan::Plan plan = must(plan::make_plan(gradients_of_attention(positions, dtype, options), target, {}));
  return must(plan::totals(plan, {})).arena_bytes;
}

/// Four times the positions take four times the memory, not sixteen.
TEST(AttentionGradients, TakeMemoryInProportionToPositions) {
  const std::tuple<const char*, Target, DType> all[] = {
      {"a GPU with matrices", discrete_gpu_with_matrices(), DType::f16},
      {"a GPU", discrete_gpu(), DType::f32},
      {"a driver of a CPU", cpu_driver(), DType::f32}};
  for (const auto& [name, target, dtype] : all) {
    for (const bool causal : {false, true}) {
      const AttentionOptions options{.causal = causal};
      const std::int64_t few = arena_bytes(16384, target, dtype, options);
      EXPECT_LE(arena_bytes(65536, target, dtype, options), 4 * few) << name << (causal ? ", causal" : "");
      EXPECT_LT(few, 4 * 2 * 16384 * 64 * size_of(dtype)) << name << (causal ? ", causal" : "");
    }
  }
}

/// Other large values, which have to be stored, do not keep scores from being computed again.
TEST(AttentionGradients, SpareScoresBesideOtherLargeValues) {
  const auto input = [](const char* name, const Shape& shape) { return Tensor::input(name, DType::f32, shape); };
  const std::vector<Tensor> wrt = {input("q", {1, 2, 16384, 64}), input("k", {1, 2, 16384, 64}),
                                   input("v", {1, 2, 16384, 64})};
  const Tensor y = attention(wrt[0], wrt[1], wrt[2]), cotangent = input("cotangent", {1, 2, 16384, 64});
  std::vector<Tensor> all = gradients(std::span(&y, 1), wrt, std::span(&cotangent, 1));
  const Tensor logits = matmul(input("x", {16384, 512}), input("words", {512, 8192}));  // 512 MiB
  all.push_back(logits.sum({0}));
  all.push_back(logits.max({1}));
  const ir::Graph graph = must(passes::run_pipeline(graph_of(all)));
  const plan::Plan plan = must(plan::make_plan(graph, discrete_gpu(), {}));
  std::int64_t largest = 0;
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(plan, {}))) {
    for (const segment::Store& store : step.loops.stores) largest = std::max(largest, store.buffer_elements);
  }
  EXPECT_EQ(largest, 16384 * 8192);
}

/// Scores that no buffer holds are computed again, whatever that is modelled at.
TEST(AttentionGradients, AreThereWhereScoresAreTooLarge) {
  Target target = cpu_driver();
  target.costs = CostModel{.copy_gb_per_s = 1e6, .launch_us = 5, .gflops = 1, .accesses_per_us = 1e9};
  target.caps.memory.max_allocation = target.caps.memory.storage_buffer_range = 128 << 20;

  const plan::Plan plan = must(plan::make_plan(gradients_of_attention(16384, DType::f32, {}), target, {}));
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(plan, {}))) {
    for (const segment::Store& store : step.loops.stores) EXPECT_LE(store.buffer_elements, 2 * 16384 * 64);
  }
}

}  // namespace
}  // namespace vkfuse::test

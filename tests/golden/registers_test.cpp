// What is planned for lanes of few registers, on fabricated devices.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

std::vector<schedule::Schedule> schedules_of(const ir::Graph& graph, const Target& target) {
  const ir::Graph prepared = must(passes::run_pipeline(graph));
  const plan::Plan made = must(plan::make_plan(prepared, target));
  std::vector<schedule::Schedule> all;
  for (const plan::ScheduledKernel& step : must(plan::schedule_all(made, schedule::representative_symbols(prepared))))
    all.push_back(step.schedule);
  return all;
}

int most_registers(const ir::Graph& graph, const Target& target) {
  int most = 0;
  for (const schedule::Schedule& schedule : schedules_of(graph, target)) most = std::max(most, schedule.cost.registers);
  return most;
}

/// Estimates at which Mali's compiler does not spill, where any tile has them.
TEST(Registers, TilesFitALaneOfMali) {
  constexpr int kMost = 60;
  const Target device = mali();
  for (const DType dtype : {DType::f16, DType::f32}) {
    const auto input = [&](const char* name, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); };
    EXPECT_LE(most_registers(graph_of({matmul(input("x", {1000, 1024}), input("w", {1024, 768})) + input("b", {768})}),
                             device),
              kMost);
    EXPECT_LE(
        most_registers(
            graph_of({conv(input("x", {4, 64, 56, 56}), input("w", {64, 64, 3, 3}), {.low = {1, 1}, .high = {1, 1}})}),
            device),
        kMost);
    EXPECT_LE(most_registers(graph_of({softmax(input("x", {300, 1024}), 0)}), device), kMost);
    for (const std::int64_t size : {16, 32, 64}) {
      const auto heads = [&](const char* name) { return input(name, {2, 8, 512, size}); };
      EXPECT_LE(most_registers(graph_of({attention(heads("q"), heads("k"), heads("v"), {.causal = true})}), device),
                kMost)
          << "heads of " << size;
    }
  }
}

/// What a loop over long rows has on its way counts, too.
TEST(Registers, ChunksInFlightFitALaneOfMali) {
  const auto in_flight = [](const Target& target) {
    const ir::Graph graph = graph_of({softmax(Tensor::input("x", DType::f16, {4096, 1024}), 0)});
    return schedules_of(graph, target).front().unroll_factor;
  };
  Target device = mali();
  EXPECT_EQ(in_flight(device), 2);
  device.caps.registers.per_thread = kUnknownRegistersPerThread;
  EXPECT_EQ(in_flight(device), 4);
}

/// The same device, if nobody said how many registers it has.
TEST(Registers, UnknownOnesLeaveTilesAsTheyWere) {
  Target device = mali();
  device.caps.registers.per_thread = kUnknownRegistersPerThread;
  const auto input = [&](const char* name, Shape shape) { return Tensor::input(name, DType::f16, std::move(shape)); };
  EXPECT_GT(most_registers(graph_of({matmul(input("x", {1000, 1024}), input("w", {1024, 768}))}), device), 64);
  EXPECT_GT(
      most_registers(
          graph_of({attention(input("q", {2, 8, 512, 64}), input("k", {2, 8, 512, 64}), input("v", {2, 8, 512, 64}))}),
          device),
      64);
}

}  // namespace
}  // namespace vkfuse::test

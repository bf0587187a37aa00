// Schedules for lanes of few registers, which no driver here has: what fits is chosen, and computes the same.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr int kLaneRegisters = 64;

/// The device under test, if its lanes had so few.
const Device& device_with_few_registers() {
  static const Device opened =
      must(Device::open({.limits = {{"registers_per_thread", kLaneRegisters}, {"workgroup_registers", 1u << 15}}}));
  return opened;
}

/// Runs on both devices; the schedule where registers are few, and what is wanted where they are not.
struct Chosen {
  schedule::Schedule low_register;
  int otherwise = 0;
};
Chosen run_on_both(const ir::Graph& graph, schedule::Template kind, const schedule::Tuning& tuning = {}) {
  Build how;
  how.tuning = tuning;
  Chosen chosen;
  const auto schedule_of = [&](const Executable& program) {
    for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
      if (step.schedule.kind() == kind) return schedule::Schedule(step.schedule);
    }
    ADD_FAILURE() << "no kernel is " << schedule::name_of(kind);
    return schedule::Schedule();
  };
  chosen.otherwise = schedule_of(compile_graph(graph, how)).cost.registers;
  how.device = &device_with_few_registers();
  const Executable program = compile_graph(graph, how);
  chosen.low_register = schedule_of(program);
  const Data data = data_for({graph, {}, 23, false});
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "") << ir::print(graph);
  EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << ir::print(graph);
  return chosen;
}

void expect_fits(const Chosen& chosen) {
  const bool is_gpu = target(false).type != DeviceType::cpu;  // some are estimated to want a few more for addresses
  EXPECT_LE(chosen.low_register.cost.registers, is_gpu ? kLaneRegisters : kLaneRegisters - 4);
  if (target(false).caps.registers.per_thread == kLaneRegisters) return;  // VKFUSE_TEST_LIMITS=registers: both are one
  if (is_gpu) return;  // what a GPU chooses otherwise is decided by what was measured there
  EXPECT_GT(chosen.otherwise, kLaneRegisters - 4) << "the case shows nothing";
}

TEST(FewRegisters, Products) {
  const ir::Graph graph = must(ir::parse(R"(graph "product" {
  %0 = input "x" : f32[130, 136]
  %1 = input "w" : f32[136, 132]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[130, 132]
  %3 = input "bias" : f32[132]
  %4 = add %2 %3 : f32[130, 132]
  output "y" = %4
})"));
  expect_fits(run_on_both(graph, schedule::Template::matmul, {.matmul = true}));
  expect_fits(run_on_both(graph, schedule::Template::matmul, {.splits = 2, .matmul = true}));
}

TEST(FewRegisters, Convolutions) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 24, 19, 20});
  const Tensor w = Tensor::input("w", DType::f32, {40, 24, 3, 3});
  expect_fits(run_on_both(graph_of({relu(conv(x, w, {.low = {1, 1}, .high = {1, 1}}))}), schedule::Template::matmul,
                          {.matmul = true}));
}

/// Of 32 elements in a head, and of 64, for which more lanes share a row.
TEST(FewRegisters, Attention) {
  for (const std::int64_t size : {32, 64}) {
    const auto input = [&](const char* name) { return Tensor::input(name, DType::f32, {2, 3, 45, size}); };
    for (const bool causal : {true, false}) {
      const ir::Graph graph = graph_of({attention(input("q"), input("k"), input("v"), {.causal = causal})});
      const Chosen chosen = run_on_both(graph, schedule::Template::attention, {.matmul = true});
      expect_fits(chosen);
      EXPECT_TRUE(chosen.low_register.as<schedule::AttentionParams>().simt()->low_register);
      if (has_least_limits()) continue;  // of four buffers none is left for partial results
      EXPECT_EQ(run_on_both(graph, schedule::Template::attention, {.splits = 3, .matmul = true}).low_register.splits,
                3);
    }
  }
}

/// Rows beside each other: what stayed in registers is read again.
TEST(FewRegisters, SoftmaxAlongTheFirstAxis) {
  const ir::Graph graph = graph_of({softmax(Tensor::input("x", DType::f32, {80, 264}), 0)});
  const Chosen chosen = run_on_both(graph, schedule::Template::reduction);
  EXPECT_TRUE(chosen.low_register.as<schedule::ReductionParams>().vector_rows);
  expect_fits(chosen);
}

}  // namespace
}  // namespace vkfuse::test

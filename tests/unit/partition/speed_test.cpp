// How long planning takes, and how that grows. docs/results.md has what was measured.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "golden/targets.hpp"
#include "kernel/kernel.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"
#include "support/slowness.hpp"
#include "templates/lowering.hpp"

namespace vkfuse::test {
namespace {

/// The best of three: passes, and the plan with every form of the graph that is looked at.
double milliseconds_to_plan(const ir::Graph& graph, std::size_t* nodes = nullptr) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();  // of this process: others may run beside it
    const ir::Graph prepared = must(passes::run_pipeline(graph));
    const plan::Plan made = must(plan::make_plan(prepared, discrete_gpu()));
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    if (nodes != nullptr) *nodes = prepared.size();
    EXPECT_FALSE(made.steps.empty());
  }
  return best;
}

TEST(Speed, AThousandNodesArePlannedInAFewTenthsOfASecond) {
  for (const int layers : {10, 20, 40}) {
    std::size_t nodes = 0;
    const double ms = milliseconds_to_plan(layered_graph(layers), &nodes);
    std::printf("%d layers, %zu nodes: %.1f ms\n", layers, nodes, ms);
    EXPECT_LT(ms, 0.5 * static_cast<double>(nodes) * slowness())
        << "three times what 533 nodes take on a quiet machine, and six times what more do";
  }
  for (const int ops : {250, 500, 800, 1000}) {
    std::size_t nodes = 0;
    const double ms = milliseconds_to_plan(random_planner_graph(static_cast<std::uint64_t>(ops), ops), &nodes);
    std::printf("random graph of %d ops, %zu nodes: %.1f ms, of a machine %.1f times slower\n", ops, nodes, ms,
                slowness());
    EXPECT_LT(ms, 2.5 * static_cast<double>(nodes) * slowness())
        << "three times what they take on a quiet machine: nothing repeats in these";
  }
}

/// As many results as that, each of an input of its own: planned, scheduled and written.
double milliseconds_to_write(int results) {
  ir::Graph graph;
  graph.name = "side by side";
  for (int i = 0; i < results; ++i) {
    const ir::NodeId x = must(graph.add_input(fmt::format("x{}", i), {DType::f32, {Dim(64), Dim(64)}}));
    must(graph.add_output(fmt::format("y{}", i), must(graph.add(ops::row("exp"), {x}))));
  }
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    const plan::Plan made = must(plan::make_plan(must(passes::run_pipeline(graph)), discrete_gpu()));
    const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(made, {}));
    for (std::size_t step = 0; step < steps.size(); ++step) {
      EXPECT_FALSE(
          must(lowering::lower(
                   {made.graph, made.steps[step].segment, steps[step].loops, steps[step].schedule, made.target, {}}))
              .empty());
    }
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

/// Graphs of very many nodes, one kind each.
ir::Graph chain(int nodes) {
  ir::Graph graph;
  ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim(64)}}));
  for (int i = 0; i < nodes; ++i) x = must(graph.add(ops::row(i % 2 == 0 ? "abs" : "neg"), {x}));
  must(graph.add_output("y", x));
  return graph;
}

/// Of which no two kernels are equal.
ir::Graph chain_of_literals(int nodes) {
  ir::Graph graph;
  ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim(64)}}));
  for (int i = 0; i < nodes; ++i) x = must(graph.add(ops::row("add"), {x, graph.add_scalar(DType::f32, 0.5 + i)}));
  must(graph.add_output("y", x));
  return graph;
}

ir::Graph fan_out(int nodes) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add(ops::row("exp"), {must(graph.add_input("x", {DType::f32, {Dim(64)}}))}));
  for (int i = 0; i < nodes; ++i)
    must(graph.add_output(fmt::format("y{}", i),
                          must(graph.add(ops::row("add"), {x, graph.add_scalar(DType::f32, 0.5 + i)}))));
  return graph;
}

ir::Graph side_by_side(int nodes) {
  ir::Graph graph;
  for (int i = 0; i < nodes; ++i) {
    const ir::NodeId x = must(graph.add_input(fmt::format("x{}", i), {DType::f32, {Dim(64)}}));
    must(graph.add_output(fmt::format("y{}", i), must(graph.add(ops::row("neg"), {x}))));
  }
  return graph;
}

/// A value beside itself, of which one half goes on.
ir::Graph doubling(int nodes) {
  ir::Graph graph;
  ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim(64)}}));
  for (int i = 0; i < nodes / 2; ++i) {
    const ir::NodeId both = must(graph.add_structured(ops::row("concat"), {x, x}, ir::AxisPayload{0}));
    x = must(graph.add_structured(ops::row("slice"), {both}, ir::SlicePayload{{32}, {1}}, {Dim(64)}));
  }
  must(graph.add_output("y", x));
  return graph;
}

double seconds_to_plan(const ir::Graph& graph, std::size_t* kernels) {
  const std::clock_t start = std::clock();
  const plan::Plan made = must(plan::make_plan(must(passes::run_pipeline(graph)), discrete_gpu()));
  *kernels = made.steps.size();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// VKFUSE_TEST_NODES=100000 plans graphs of as many nodes, and of a tenth.
TEST(Speed, TenTimesAsManyNodesTakeAboutTenTimesAsLong) {
  const char* wanted = std::getenv("VKFUSE_TEST_NODES");
  const int most = wanted != nullptr ? std::atoi(wanted) : 5'000;
  struct Kind {
    const char* name;
    ir::Graph (*graph)(int);
  };
  for (const Kind& kind : {Kind{"chain", chain}, Kind{"chain of literals", chain_of_literals}, Kind{"fan-out", fan_out},
                           Kind{"side by side", side_by_side}, Kind{"doubling", doubling}}) {
    std::size_t few_kernels = 0, many_kernels = 0;
    const double few = seconds_to_plan(kind.graph(most / 10), &few_kernels);
    const double many = seconds_to_plan(kind.graph(most), &many_kernels);
    std::printf("%s: %d nodes %.2f s (%zu kernels), %d nodes %.2f s (%zu kernels)\n", kind.name, most / 10, few,
                few_kernels, most, many, many_kernels);
    std::fflush(stdout);
    EXPECT_LT(many, 25 * few + 0.2 * slowness()) << kind.name << ": what is quadratic takes 100 times as long";
  }
}

TEST(Speed, ResultsBesideEachOtherTakeAsLongEach) {
  const double few = milliseconds_to_write(500), many = milliseconds_to_write(4000);
  std::printf("500 results: %.1f ms, 4000: %.1f ms\n", few, many);
  EXPECT_LT(many, 24 * few) << "eight times as many; where each kernel names all nodes, 79 times as long";
}

}  // namespace
}  // namespace vkfuse::test

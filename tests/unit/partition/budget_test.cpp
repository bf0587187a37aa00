// What one kernel may be for a driver's compiler: longer chains and wider choices are several kernels, and the plan
// says why.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/targets.hpp"
#include "partition/partition.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "schedule/budget.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

using ir::NodeId;

ir::Graph nested(std::string_view op, int times) {
  ir::Graph graph;
  NodeId x = must(graph.add_input("x", {DType::f32, {Dim(64)}}));
  for (int i = 0; i < times; ++i) x = must(graph.add(ops::row(op), {x}));
  must(graph.add_output("y", x));
  return graph;
}

/// Slices of four columns, in the opposite order, beside each other.
NodeId joined_slices(ir::Graph& graph, NodeId x, int rows, int parts) {
  std::vector<NodeId> all;
  for (int i = parts; i-- > 0;)
    all.push_back(
        must(graph.add_structured(ops::row("slice"), {x}, ir::SlicePayload{{0, 4 * i}, {1, 1}}, {Dim(rows), Dim(4)})));
  return must(graph.add_structured(ops::row("concat"), all, ir::AxisPayload{1}));
}

/// Slices of one value in the opposite order, beside each other; of the sum of each row where `summed`, else stored
/// with it.
ir::Graph sliced(int parts, bool summed) {
  ir::Graph graph;
  const NodeId x = must(graph.add_input("x", {DType::f32, {Dim(5), Dim(4 * parts)}}));
  const NodeId joined = joined_slices(graph, must(graph.add(ops::row("mul"), {x, x})), 5, parts);
  if (!summed) must(graph.add_output("y", joined));
  must(graph.add_output("w", must(graph.add_structured(ops::row("reduce_sum"), {joined}, ir::AxesPayload{{1}}))));
  return graph;
}

plan::Plan planned(const ir::Graph& graph, const Target& target = cpu_driver()) {
  return must(plan::make_plan(must(passes::run_pipeline(graph)), target));
}

bool says(const plan::Plan& plan, std::string_view words) {
  return std::any_of(plan.fusion_boundaries.begin(), plan.fusion_boundaries.end(),
                     [&](const partition::FusionBoundary& one) {
                       return plan::text_of(one.reasons).find(words) != std::string::npos;
                     });
}

TEST(Budget, StatementsCountWhatACallStandsFor) {
  EXPECT_EQ(ops::inlined_statements("x + y"), 1);
  EXPECT_EQ(ops::inlined_statements("exp(x)"), 1) << "is the driver's own";
  const int tanh = ops::inlined_statements("f32_tanh(x)");
  EXPECT_GT(tanh, 10);
  EXPECT_GT(ops::inlined_statements("f32_sin(x)"), 4 * tanh) << "has functions that have functions";
  EXPECT_EQ(ops::inlined_statements("f32_tanh(f32_tanh(x))"), 2 * tanh - 1);
}

TEST(Budget, ALoopCountsAsManyStatements) {
  EXPECT_GT(ops::inlined_statements("u32_pow(x, y)"), 8 * ops::inlined_statements("f32_tanh(x)"));
  // 16 elements an item: two such ops would be 32 loops in one kernel.
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {DType::u8, {Dim(64), Dim(4096)}}));
  for (int i = 0; i < 4; ++i) {
    const ir::NodeId exponent = must(graph.add_input(fmt::format("n{}", i), {DType::u8, {Dim(1)}}));
    must(graph.add_output(fmt::format("y{}", i), must(graph.add(ops::row("pow"), {x, exponent}))));
  }
  const plan::Plan plan = planned(graph);
  EXPECT_EQ(plan.steps.size(), 4u);
}

TEST(Budget, RowsOfLongFunctionsAreNotUnrolled) {
  // Each layer is computed again in every later pass; rows of five elements would fit in registers.
  ir::Graph graph;
  NodeId x = must(graph.add_input("x", {DType::f32, {Dim(512), Dim(5), Dim(512)}}));
  for (int i = 0; i < 3; ++i) {
    const NodeId mean = must(graph.add_structured(ops::row("reduce_mean"), {x}, ir::AxesPayload{{1}}));
    const NodeId kept =
        must(graph.add_structured(ops::row("reshape"), {mean}, ir::NoPayload{}, {Dim(512), Dim(1), Dim(512)}));
    x = must(graph.add(ops::row("sin"), {must(graph.add(ops::row("sub"), {x, kept}))}));
  }
  must(graph.add_output("y", x));
  const Target target = cpu_driver();
  const plan::Plan plan = planned(graph, target);
  std::vector<int> statements;
  for (NodeId id = 0; id < plan.graph.size(); ++id) statements.push_back(schedule::statements_of(plan.graph, id));
  const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Schedule& how = steps[i].schedule;
    const auto* rows = how.get_if<schedule::ReductionParams>();
    const std::int64_t unrolled = rows != nullptr && rows->persistent ? rows->iterations : 1;
    EXPECT_LE(schedule::statements_of(steps[i].loops, how, statements) * unrolled, target.budget.statements) << i;
  }
}

TEST(Budget, EveryKernelOfALongChainIsWithinIt) {
  const Target target = cpu_driver();
  for (const std::string_view op : {"sin", "tanh", "neg", "erf"}) {
    const plan::Plan plan = planned(nested(op, 600), target);
    EXPECT_GT(plan.steps.size(), 1u) << op;
    EXPECT_TRUE(says(plan, "compile in seconds")) << op;
    for (const plan::PlannedKernel& step : plan.steps) {
      const auto one = static_cast<std::int64_t>(step.segment.members.size());
      EXPECT_LE(one, target.budget.members) << op;
      EXPECT_LE(one == 1 ? 0 : one * schedule::statements_of(plan.graph, step.segment.members[0]),
                target.budget.statements)
          << op;
    }
  }
}

TEST(Budget, IsTheTargets) {
  Target target = cpu_driver();
  target.budget = {.statements = 1 << 20, .members = 1 << 20, .choices = 1 << 20, .choices_in_loops = 1 << 20};
  EXPECT_EQ(planned(nested("neg", 600), target).steps.size(), 1u);
  EXPECT_EQ(planned(sliced(28, true), target).steps.size(), 1u);
  target.budget.members = 10;
  EXPECT_GE(planned(nested("neg", 600), target).steps.size(), 60u);
}

TEST(Budget, ChoicesOfAConcatenationAreNotMadeInALoop) {
  const plan::Plan stored = planned(sliced(28, false));
  EXPECT_EQ(stored.steps.size(), 2u);
  EXPECT_TRUE(says(stored, "One kernel would choose between values 27 times, and 16 are the most"));
  // One op with the views in front of it: the concatenation is a kernel, and the sum another one.
  EXPECT_EQ(planned(sliced(28, true)).steps.size(), 2u);
  EXPECT_EQ(planned(sliced(12, true)).steps.size(), 1u);
}

// Choices are made for each element of a factor that a thread stages: SwiftShader took minutes and all memory for a
// factor of nine parts.
TEST(Budget, ChoicesInAFactorCountForEachOfItsElements) {
  for (const int parts : {3, 9}) {
    ir::Graph graph;
    const NodeId x = must(graph.add_input("x", {DType::f32, {Dim(64), Dim(4 * parts)}}));
    const NodeId w = must(graph.add_input("w", {DType::f32, {Dim(4 * parts), Dim(64)}}));
    const NodeId joined = joined_slices(graph, must(graph.add(ops::row("mul"), {x, x})), 64, parts);
    must(graph.add_output("y",
                          must(graph.add_structured(ops::row("dot"), {joined, w}, ir::DotPayload{{}, {}, {1}, {0}}))));
    EXPECT_EQ(says(planned(graph), "choose between values 32 times"), parts == 9) << parts;
  }
}

TEST(Budget, OfManyOpsInManyFormsNoKernelIsOver) {
  const plan::Plan plan = planned(sliced(300, true));
  EXPECT_GT(plan.steps.size(), 2u);
}

TEST(Concat, OfOneValueWithItselfIsOneKernelAtAnyCount) {
  for (const int times : {5, 100, 1000, 100'000}) {
    ir::Graph graph;
    const NodeId x = must(graph.add_input("x", {DType::f32, {Dim(3), Dim(4)}}));
    must(graph.add_output(
        "y", must(graph.add_structured(ops::row("concat"), std::vector<NodeId>(static_cast<std::size_t>(times), x),
                                       ir::AxisPayload{1}))));
    EXPECT_EQ(planned(graph).steps.size(), 1u) << times;
  }
}

TEST(Concat, ThatDoublesAgainAndAgainIsOneKernel) {
  ir::Graph graph;
  NodeId x = must(graph.add_input("x", {DType::f32, {Dim(2)}}));
  for (int i = 0; i < 20; ++i) x = must(graph.add_structured(ops::row("concat"), {x, x}, ir::AxisPayload{0}));
  must(graph.add_output("y", x));
  EXPECT_EQ(planned(graph).steps.size(), 1u);
}

TEST(Concat, OfAValueAndItsReverseAgainAndAgainIsStoredOnTheWay) {
  ir::Graph graph;
  NodeId x = must(graph.add_input("x", {DType::f32, {Dim(2)}}));
  for (int i = 0; i < 14; ++i)
    x = must(graph.add_structured(ops::row("concat"),
                                  {x, must(graph.add_structured(ops::row("reverse"), {x}, ir::AxesPayload{{0}}))},
                                  ir::AxisPayload{0}));
  must(graph.add_output("y", x));
  const plan::Plan plan = planned(graph);
  EXPECT_GT(plan.steps.size(), 1u);
  EXPECT_LE(plan.steps.size(), 14u);
}

TEST(Concat, OfFewValuesVeryOftenIsPlanned) {
  ir::Graph graph;
  const NodeId x = must(graph.add_input("x", {DType::f32, {Dim(4)}})),
               z = must(graph.add_input("z", {DType::f32, {Dim(3)}}));
  std::vector<NodeId> all;
  for (int i = 0; i < 500; ++i) all.insert(all.end(), {x, z});
  must(graph.add_output("y", must(graph.add_structured(ops::row("concat"), all, ir::AxisPayload{0}))));
  EXPECT_GE(planned(graph).steps.size(), 1u);
}

}  // namespace
}  // namespace vkfuse::test

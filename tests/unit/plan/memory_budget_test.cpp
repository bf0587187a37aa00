// Plans under a memory budget: what they take, what they cost, and what is said where none fits.
#include "plan/memory_budget.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/file.hpp"
#include "plan/recomputation.hpp"
#include "plan/run_order.hpp"
#include "support/compare.hpp"
#include "support/training_graphs.hpp"

namespace vkfuse::test {
namespace {

const TrainingShape kPerceptron{.layers = 12, .positions = 512, .width = 128};
const TrainingShape kTransformer{.layers = 8, .positions = 256, .width = 128, .attention = true};

ir::Graph prepared(const TrainingShape& shape) { return must(passes::run_pipeline(training_graph(shape))); }

plan::Plan plan_within(const ir::Graph& graph, std::int64_t budget, const Target& target = discrete_gpu()) {
  partition::Options options;
  options.memory_budget = budget;
  return must(plan::make_plan(graph, target, options));
}

std::int64_t arena_of(const plan::Plan& plan) {
  return must(plan::totals(plan, schedule::representative_symbols(plan.graph))).arena_bytes;
}

TEST(MemoryBudget, PartsOfTheArenaOfATrainingStepSuffice) {
  struct Row {
    const char* name;
    TrainingShape shape;
    double most_time;  ///< at half of the arena, as many times that without a budget
  };
  for (const Row& row : {Row{"a perceptron", kPerceptron, 1.35}, Row{"a transformer", kTransformer, 1.35}}) {
    const ir::Graph graph = prepared(row.shape);
    const plan::Totals without = must(plan::totals(must(plan::make_plan(graph, discrete_gpu())), {}));
    for (const int part : {2, 3}) {
      const std::int64_t budget = without.arena_bytes / part;
      const plan::Plan plan = plan_within(graph, budget);
      const plan::Totals within = must(plan::totals(plan, {}));
      EXPECT_LE(within.arena_bytes, budget) << row.name;
      EXPECT_GT(within.launches, without.launches) << row.name << ": something runs again";
      const double most_time = part == 2 ? row.most_time : 1.6;
      EXPECT_LE(within.modelled_us, most_time * without.modelled_us) << row.name << ", a part of " << part;
      std::printf("%s, 1/%d: %.3f times as long\n", row.name, part, within.modelled_us / without.modelled_us);
    }
  }
}

/// Every op of the user's graph is computed, and outputs have their names and types.
TEST(MemoryBudget, ThePlanIsOfTheSameProgram) {
  const ir::Graph graph = prepared(kTransformer);
  const plan::Plan without = must(plan::make_plan(graph, discrete_gpu()));
  const plan::Plan plan = plan_within(graph, arena_of(without) / 3);
  ASSERT_EQ(plan.graph.outputs().size(), graph.outputs().size());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    EXPECT_EQ(plan.graph.outputs()[i].name, graph.outputs()[i].name);
    EXPECT_EQ(plan.graph.node(plan.graph.outputs()[i].value).type, graph.node(graph.outputs()[i].value).type);
  }
  ASSERT_EQ(plan.graph.inputs().size(), graph.inputs().size());
  must(ir::verify(plan.graph));
}

TEST(MemoryBudget, APlanThatFitsIsAsItIsWithoutABudget) {
  const ir::Graph graph = prepared(kPerceptron);
  const plan::Plan without = must(plan::make_plan(graph, discrete_gpu()));
  const plan::Plan within = plan_within(graph, arena_of(without));
  ASSERT_EQ(within.steps.size(), without.steps.size());
  for (std::size_t i = 0; i < within.steps.size(); ++i) {
    EXPECT_EQ(within.steps[i].segment.members, without.steps[i].segment.members);
    EXPECT_EQ(within.steps[i].segment.stores, without.steps[i].segment.stores);
  }
  EXPECT_FALSE(without.budget.has_value());
  EXPECT_EQ(must(plan::to_file(without)).find("memory_budget"), std::string::npos);
  EXPECT_NE(must(plan::to_text(within, Result<plan::Plan>(without), {}))
                .find("memory budget: " + std::to_string(arena_of(without)) + " bytes"),
            std::string::npos);
}

/// The number that the sentence names is enough.
TEST(MemoryBudget, TheFewestBytesAreNamedWhereNoPlanFits) {
  const ir::Graph graph = prepared(kTransformer);
  partition::Options options;
  options.memory_budget = 1000;
  const auto refused = plan::make_plan(graph, discrete_gpu(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  const std::string& said = refused.error().message;
  constexpr std::string_view kBegin = "The intermediate values of the graph 'g' take ";
  ASSERT_TRUE(said.starts_with(kBegin)) << said;
  const std::int64_t least = std::stoll(said.substr(kBegin.size()));
  EXPECT_EQ(said, std::string(kBegin) + std::to_string(least) +
                      " bytes in the smallest plan that was found, and the memory budget is 1000 bytes.");
  EXPECT_LE(arena_of(plan_within(graph, least)), least);
}

/// At sizes that need more than those that the choice was made for.
TEST(MemoryBudget, SizesThatNeedMoreAreAnError) {
  TrainingShape shape{.layers = 4};
  shape.symbol = "n";
  const ir::Graph graph = prepared(shape);
  const std::int64_t budget = arena_of(must(plan::make_plan(graph, discrete_gpu()))) * 2 / 3;
  const plan::Plan plan = plan_within(graph, budget);
  SymbolValues sizes = schedule::representative_symbols(graph);
  EXPECT_LE(must(plan::plan_memory(plan, sizes, must(plan::schedule_all(plan, sizes)))).arena_bytes, budget);
  for (auto& symbol : sizes) symbol.second *= 2;
  const auto refused = plan::plan_memory(plan, sizes, must(plan::schedule_all(plan, sizes)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(refused.error().message.find("at these sizes, and the memory budget is " + std::to_string(budget)),
            std::string::npos)
      << refused.error().message;
}

TEST(MemoryBudget, APlanThatIsSavedIsReadAgain) {
  const ir::Graph graph = prepared(kTransformer);
  const plan::Plan plan = plan_within(graph, arena_of(must(plan::make_plan(graph, discrete_gpu()))) / 3);
  const std::string file = must(plan::to_file(plan));
  const plan::Plan read = must(plan::from_file(file, graph, discrete_gpu()));
  EXPECT_EQ(must(plan::to_file(read)), file);
  EXPECT_EQ(arena_of(read), arena_of(plan));
  ASSERT_TRUE(read.budget.has_value());
  EXPECT_EQ(read.budget->bytes, plan.budget->bytes);
}

TEST(MemoryBudget, AForgedOrderIsRefused) {
  const ir::Graph graph = prepared({.layers = 3});
  const plan::Plan plan = plan_within(graph, arena_of(must(plan::make_plan(graph, discrete_gpu()))) / 2);
  const std::string file = must(plan::to_file(plan));
  const auto refused = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    auto json = nlohmann::ordered_json::parse(file);
    json.erase("digest");
    change(json["memory_budget"]);
    json["digest"] = plan::file_digest(json.dump());
    const auto read = plan::from_file(json.dump(), graph, discrete_gpu());
    return read.ok() ? "" : read.error().message;
  };
  ASSERT_EQ(refused([](nlohmann::ordered_json&) {}), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["order"].erase(0); }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["order"][0] = 1 << 20; }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["order"][0] = -1; }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["order"] = "all"; }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["order"].push_back(budget["order"][0]); }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { std::swap(budget["order"].front(), budget["order"].back()); }),
            "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["kernels"].erase(0); }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["graph_digest"] = "0"; }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget["bytes"] = -5; }), "");
  EXPECT_NE(refused([](nlohmann::ordered_json& budget) { budget.erase("bytes"); }), "");
}

/// A plan that is kept for one budget is none for another.
TEST(MemoryBudget, TheKeyOfAPlanHasTheBudget) {
  const ir::Graph graph = prepared({.layers = 2});
  partition::Options without, within;
  within.memory_budget = 1 << 20;
  EXPECT_NE(plan::file_key(graph, discrete_gpu(), without), plan::file_key(graph, discrete_gpu(), within));
}

TEST(MemoryBudget, ThePlanSaysWhatIsKeptAndWhatIsComputedAgain) {
  const ir::Graph graph = prepared(kPerceptron);
  const plan::Plan without = must(plan::make_plan(graph, discrete_gpu()));
  const plan::Plan plan = plan_within(graph, arena_of(without) / 2);
  std::string text;  // lines are broken anywhere
  for (const char one : must(plan::to_text(plan, Result<plan::Plan>(without), {}))) {
    const bool is_space = one == ' ' || one == '\n';
    if (!is_space || text.empty() || text.back() != ' ') text += is_space ? ' ' : one;
  }
  for (const char* said : {"memory budget: ", "again: segment ", "so that it is not kept from segment ",
                           "where most is", "to compute it again would take "})
    EXPECT_NE(text.find(said), std::string::npos) << said;
  const auto json = nlohmann::json::parse(must(plan::to_json(plan, Result<plan::Plan>(without), {}, {})));
  EXPECT_EQ(json["memory_budget"]["bytes"], plan.budget->bytes);
  EXPECT_EQ(json["memory_budget"]["arena_bytes_without"], arena_of(without));
  EXPECT_EQ(json["memory_budget"]["again"].size(), plan.steps.size() - without.steps.size());
  EXPECT_FALSE(json["memory_budget"]["kept"].empty());
}

/// A chain of `count` steps, each of which reads the one before and is read by its mirror image, as in a backward pass.
plan::StepCosts mirrored_chain(std::size_t count) {
  plan::StepCosts costs;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    plan::StepCosts::Step step;
    if (i > 0) step.reads.push_back(i - 1);
    if (i >= count) step.reads.push_back(2 * count - 1 - i);
    step.stores.push_back(i);
    step.microseconds = 1;
    costs.steps.push_back(std::move(step));
    costs.values.push_back({i, 100, i == 2 * count - 1});
  }
  for (plan::StepCosts::Step& step : costs.steps) {
    std::sort(step.reads.begin(), step.reads.end());
    step.reads.erase(std::unique(step.reads.begin(), step.reads.end()), step.reads.end());
  }
  return costs;
}

TEST(MemoryBudget, AChainIsComputedAgainInParts) {
  const plan::StepCosts costs = mirrored_chain(36);
  plan::StepSequence all;
  for (std::size_t i = 0; i < costs.steps.size(); ++i) all.push_back(i);
  const auto largest = [&](const plan::StepSequence& sequence) {
    const auto live = plan::live_bytes(costs, sequence);
    return *std::max_element(live.begin(), live.end());
  };
  ASSERT_GE(largest(all), 3600);
  for (const std::int64_t budget : {2500, 2000, 1800}) {
    const auto found = plan::recompute_within(costs, all, budget).within;
    ASSERT_TRUE(found.has_value()) << budget;
    EXPECT_LE(largest(*found), budget);
    EXPECT_LE(found->size(), all.size() + 36) << budget;  // no step of the forward pass runs a third time
  }
}

TEST(MemoryBudget, WhatRunsOnceIsNeverRunAgain) {
  plan::StepCosts costs = mirrored_chain(24);
  for (const std::size_t step : {5U, 11U, 17U}) costs.steps[step].once = true;
  plan::StepSequence all;
  for (std::size_t i = 0; i < costs.steps.size(); ++i) all.push_back(i);
  const auto found = plan::recompute_within(costs, all, 1500);
  ASSERT_TRUE(found.within.has_value());
  EXPECT_GT(found.within->size(), all.size());
  for (const std::size_t step : {5, 11, 17}) {
    EXPECT_EQ(std::count(found.within->begin(), found.within->end(), step), 1);
    EXPECT_EQ(std::count(found.smallest.begin(), found.smallest.end(), step), 1);
  }
}

/// Weight gradients run when what they read is there, and not after the whole backward pass.
TEST(MemoryBudget, KernelsThatFreeMemoryRunEarly) {
  plan::StepCosts costs;
  const auto add = [&](std::vector<std::size_t> reads, std::int64_t bytes, bool is_output) {
    costs.steps.push_back({std::move(reads), {costs.values.size()}, 0, 1, false});
    costs.values.push_back({costs.steps.size() - 1, bytes, is_output});
  };
  for (std::size_t i = 0; i < 10; ++i) add({}, 100, false);  // cotangents that are there
  for (std::size_t i = 0; i < 10; ++i) add({i}, 0, true);    // and what they lead to
  const plan::StepSequence order = plan::freeing_order(costs);
  ASSERT_EQ(order.size(), 20U);
  const auto live = plan::live_bytes(costs, order);
  EXPECT_EQ(*std::max_element(live.begin(), live.end()), 100);
}

}  // namespace
}  // namespace vkfuse::test

// Programs under a memory budget on the device: the results of those without one, in no more memory.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "support/compare.hpp"
#include "support/training_graphs.hpp"

namespace vkfuse::test {
namespace {

/// A program of a graph within this part of the memory that it takes without a budget; nothing where none fits.
std::optional<Executable> program_within(const ir::Graph& graph, std::uint64_t arena, double part,
                                         const std::string& what) {
  Build build;
  build.memory_budget = std::max<std::int64_t>(1, static_cast<std::int64_t>(part * static_cast<double>(arena)));
  std::optional<Executable> program;
  try {
    program = compile_graph(graph, build);
  } catch (const std::exception& refused) {
    EXPECT_NE(std::string(refused.what()).find("in the smallest plan that was found"), std::string::npos)
        << what << ": " << refused.what();
    return program;
  }
  EXPECT_LE(must(program->memory()).arena, static_cast<std::uint64_t>(build.memory_budget)) << what;
  return program;
}

/// Sums of many products are decided by the reference no more: elements are those without a budget but for rounding.
void expect_near(const NamedBytes& results, const NamedBytes& expected, const std::string& what) {
  for (const auto& [name, bytes] : expected) {
    const auto count = bytes.size() / sizeof(float);
    const auto* const wanted = reinterpret_cast<const float*>(bytes.data());
    const auto* const got = reinterpret_cast<const float*>(results.at(name).data());
    float largest = 0;
    for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(wanted[i]));
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(got[i], wanted[i], 1e-5F * largest) << what << ", " << name;
  }
}

/// How many of these parts of the memory are enough.
int compare_layers(const TrainingShape& shape, const std::string& what) {
  const ir::Graph graph = training_graph(shape);
  const Data data = training_data(graph);
  const Executable without = compile_graph(graph, Build{});
  const NamedBytes expected = run_guarded(without, graph, data).outputs;
  int met = 0;
  for (const double part : {0.75, 0.5, 0.34}) {
    const auto program = program_within(graph, must(without.memory()).arena, part, what);
    if (!program) continue;
    ++met;
    const GuardedRun run = run_guarded(*program, graph, data);
    EXPECT_EQ(run.broken, "") << what;
    expect_near(run.outputs, expected, what);
  }
  return met;
}

TEST(MemoryBudget, LayersGiveTheSameResults) {
  EXPECT_EQ(compare_layers({.layers = 6, .dropout = true}, "a perceptron"), 3);
  EXPECT_GE(compare_layers({.layers = 4, .attention = true}, "a transformer"), 2);
}

TEST(MemoryBudget, DonatedInputsChangeNoResult) {
  const ir::Graph graph = training_graph({.layers = 6});
  const Data data = training_data(graph);
  const auto program = program_within(graph, must(compile_graph(graph, Build{}).memory()).arena, 0.5, "a perceptron");
  ASSERT_TRUE(program.has_value());
  const NamedBytes expected = run_guarded(*program, graph, data).outputs;
  Bindings bindings;
  for (const auto& [name, bytes] : data.inputs) {
    Buffer buffer = must(device().allocate(bytes.size()));
    must(buffer.write(bytes));
    bindings.inputs.emplace(name, std::move(buffer));
    if (name[0] == 'p') bindings.donated.insert(name);
  }
  const Submission submission = must(program->submit(bindings));
  must(submission.wait());
  for (const auto& [name, bytes] : expected) {
    std::vector<std::byte> got(bytes.size());
    must(submission.outputs().at(name).read(got));
    EXPECT_EQ(got, bytes) << name;
  }
}

TEST(MemoryBudget, RandomStepsOfTrainingGiveTheSameResults) {
  int met = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const std::string what = "random_training_graph(" + std::to_string(seed) + ")";
    const ir::Graph graph = random_training_graph(seed);
    const Data data = training_data(graph);
    const Executable without = compile_graph(graph, Build{});
    compare_with_reference(without, graph, data, what);
    for (const double part : {random.between(0.5, 1.0), random.between(0.25, 0.5)}) {
      const auto program = program_within(graph, must(without.memory()).arena, part, what);
      if (!program) continue;
      ++met;
      compare_with_reference(*program, graph, data, what + " within a budget");
    }
  }
  EXPECT_GE(met, 20);
}

}  // namespace
}  // namespace vkfuse::test

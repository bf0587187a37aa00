// Random pointwise graphs, fused and unfused, against the reference and against each other.
#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz/harness.hpp"

namespace vkfuse::test {
namespace {

constexpr std::uint64_t kFirstSeed = 1000;

void run_pointwise(Numerics numerics, std::uint64_t first, std::uint64_t cases, const char* test) {
  run_cases({test, first, cases, [&](std::uint64_t seed) {
               CaseOptions options;
               options.caps = target().caps;
               Way way;
               way.how.numerics = numerics;
               return std::pair(random_case(seed, options), way);
             }});
}

// Two thirds strict: that is where fused and unfused runs are compared bit by bit.
TEST(Fuzz, Strict) { run_pointwise(Numerics::strict, kFirstSeed, 40, "Fuzz.Strict"); }
TEST(Fuzz, Standard) { run_pointwise(Numerics::standard, kFirstSeed + 1000000, 20, "Fuzz.Standard"); }

/// The largest error of a run against the reference's double, over all outputs.
double largest_error(const ir::Graph& graph, const std::map<std::string, reference::Column>& wanted,
                     const NamedBytes& outputs) {
  double largest = 0;
  for (const ir::Output& output : graph.outputs()) {
    const DType dtype = graph.node(output.value).type.dtype;
    largest = std::max(largest, reference::compare(dtype, outputs.at(output.name), wanted.at(output.name)).max_error);
  }
  return largest;
}

// Standard numerics keep f32 between the ops of a kernel: fusing must make f16 graphs more accurate,
// never noticeably less.
TEST(Fuzz, FusedHalfIsNoLessAccurate) {
  CaseOptions options;
  options.caps = target().caps;
  options.large_half = true;
  options.min_ops = 5;
  std::vector<double> ratios;
  for (std::uint64_t seed : seeds_from(kFirstSeed + 2000000, 15)) {
    const Case one = random_case(seed, options);
    const Data data = data_for(one);
    const auto wanted = expected(one.graph, data);
    double errors[2] = {};
    for (int i = 0; i < 2; ++i) {
      const GuardedRun run = run_guarded(compile_graph(one.graph, Numerics::standard, i == 0), one.graph, data);
      errors[i] = largest_error(one.graph, wanted, run.outputs);
    }
    if (errors[0] == 0 && errors[1] == 0) continue;
    ratios.push_back(errors[1] == 0 ? 1e9 : errors[0] / errors[1]);
    EXPECT_LE(ratios.back(), 1.5) << fmt::format("errors {} fused and {} unfused\n", errors[0], errors[1])
                                  << ir::print(one.graph) << replay_line(seed, "Fuzz.FusedHalfIsNoLessAccurate");
  }
  ASSERT_FALSE(ratios.empty());
  std::sort(ratios.begin(), ratios.end());
  std::printf("%zu graphs: error ratio median %.3f, largest %.3f\n", ratios.size(), ratios[ratios.size() / 2],
              ratios.back());
  EXPECT_LE(ratios[ratios.size() / 2], 1.0);
}

}  // namespace
}  // namespace vkfuse::test

// Random graphs forward and backward: what a gradient is made of stands among ops of every class.
#include <gtest/gtest.h>

#include "api/states.hpp"
#include "autodiff/graph_gradients.hpp"
#include "fuzz/harness.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

/// Adds the gradients of an output that is a float, with respect to the inputs that are; how many there are.
int add_gradients(ir::Graph& graph) {
  std::vector<ir::NodeId> wrt;
  for (const ir::NodeId id : graph.inputs()) {
    if (is_float(graph.node(id).type.dtype)) wrt.push_back(id);
  }
  std::vector<ir::NodeId> outputs;
  for (const ir::Output& output : graph.outputs()) {
    if (is_float(graph.node(output.value).type.dtype)) outputs.push_back(output.value);
  }
  if (wrt.empty() || outputs.empty()) return 0;
  const auto added = autodiff::append_gradients(graph, {outputs, wrt, {}, {}});
  if (!added) {  // the bits of a float, and what has no symbol for a product
    EXPECT_EQ(added.error().code, added.error().message.find("'bitcast'") != std::string::npos
                                      ? ErrorCode::unsupported
                                      : ErrorCode::invalid_argument)
        << added.error().text();
    return 0;
  }
  for (std::size_t i = 0; i < added->size(); ++i) must(graph.add_output("gradient " + std::to_string(i), (*added)[i]));
  return static_cast<int>(added->size());
}

std::pair<Case, Way> draw_both_ways(std::uint64_t seed, int& drawn) {
  CaseOptions options;
  options.caps = must(device().state()->context->tiers().target({})).caps;
  options.every_class = true;
  options.max_ops = 6;
  Case one = random_case(seed, options);
  drawn += add_gradients(one.graph);
  Random random(seed_of(seed, "gradients"));
  Way way;
  way.how.numerics = random.chance(50) ? Numerics::strict : Numerics::standard;
  way.unfused = random.chance(30);
  way.fewer_bytes = false;
  return {std::move(one), way};
}

TEST(Fuzz, GradientsOfGraphs) {
  int drawn = 0;
  run_cases({"Fuzz.GradientsOfGraphs", 1, 100, [&](std::uint64_t seed) { return draw_both_ways(seed, drawn); }});
  if (number_in("VKFUSE_SEED") || number_in("VKFUSE_FUZZ_CASES")) return;
  EXPECT_GE(drawn, 40);
}

}  // namespace
}  // namespace vkfuse::test

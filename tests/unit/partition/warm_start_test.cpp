// A search that begins with kernels of another form of the graph: what stays, what is looked at again, and what must
// not stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "golden/targets.hpp"
#include "partition/cost_cache.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"

namespace vkfuse::test {
namespace {

using ir::NodeId;

/// Two products of x, which become one, and a chain beside them.
constexpr const char* kProducts = R"(graph "g" {
  %0 = input "a" : f32[64, 64]
  %1 = input "w" : f32[64, 64]
  %2 = input "x" : f32[64, 64]
  %3 = input "y" : f32[4096, 64]
  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %2 %0 : f32[64, 64]
  %5 = mul %4 %1 : f32[64, 64]
  %6 = exp %5 : f32[64, 64]
  %7 = neg %1 : f32[64, 64]
  %8 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %2 %7 : f32[64, 64]
  %9 = tanh %3 : f32[4096, 64]
  %10 = exp %9 : f32[4096, 64]
  output "p" = %6
  output "q" = %8
  output "r" = %10
}
)";

/// Kernels with these members, the last of each and what others read of it stored.
partition::Partition kernels_of(const ir::Graph& graph, const std::vector<std::vector<NodeId>>& all) {
  partition::Partition parts;
  const std::vector<std::vector<NodeId>> users = graph.users();
  for (const std::vector<NodeId>& members : all) {
    std::vector<bool> escapes(graph.size(), false);
    for (NodeId id : members) {
      escapes[id] = std::any_of(users[id].begin(), users[id].end(), [&](NodeId user) {
        return std::find(members.begin(), members.end(), user) == members.end();
      });
      for (const ir::Output& output : graph.outputs()) escapes[id] = escapes[id] || output.value == id;
    }
    parts.segments.push_back(segment::build_segment(graph, members, escapes));
  }
  return parts;
}

/// Every value is stored before a kernel reads it, and every output is; nothing else is.
void expect_sound(const ir::Graph& graph, const partition::Partition& parts) {
  std::set<NodeId> stored, wanted;
  for (const segment::Segment& segment : parts.segments) wanted.insert(segment.reads.begin(), segment.reads.end());
  for (const ir::Output& output : graph.outputs()) wanted.insert(output.value);
  for (const segment::Segment& segment : parts.segments) {
    for (NodeId id : segment.reads)
      EXPECT_TRUE(segment::is_resident(graph, id) || stored.count(id) != 0)
          << "%" << id << " is read before it is stored";
    for (NodeId id : segment.stores) {
      EXPECT_TRUE(stored.insert(id).second) << "%" << id << " is stored twice";
      EXPECT_TRUE(wanted.count(id) != 0) << "%" << id << " is stored for nobody";
    }
  }
  for (const ir::Output& output : graph.outputs())
    EXPECT_TRUE(stored.count(output.value) != 0) << "'" << output.name << "' is stored by nobody";
}

struct Planned {
  passes::Rewritten form;
  partition::Partition parts;
};

/// Few nodes are divided anew in all ways, and small kernels share launches, whatever they began with: not here.
partition::Options only_merges() {
  partition::Options options;
  options.without = {partition::PlannerPass::exhaustive, partition::PlannerPass::local_search,
                     partition::PlannerPass::horizontal};
  return options;
}

Planned begun_with(const ir::Graph& graph, const partition::Partition& before,
                   const partition::Options& options = only_merges()) {
  Planned made{*must(passes::merge_matmuls(graph)), {}};
  const partition::WarmStart seed{graph, before, made.form.places};
  partition::CostCache cost_cache;
  made.parts = must(partition::partition(made.form.graph, discrete_gpu(), options, cost_cache, &seed)).partition;
  return made;
}

/// The kernel that stores a value.
const segment::Segment* kernel_of(const partition::Partition& parts, NodeId value) {
  const auto at = std::find_if(parts.segments.begin(), parts.segments.end(), [&](const segment::Segment& one) {
    return std::find(one.stores.begin(), one.stores.end(), value) != one.stores.end();
  });
  return at == parts.segments.end() ? nullptr : &*at;
}

TEST(WarmStart, KernelsThatAreAsTheyWereStay) {
  const ir::Graph graph = must(ir::parse(kProducts));
  // Nobody would leave the chain in two: that nobody joins it shows that it is not looked at.
  const partition::Partition before = kernels_of(graph, {{9}, {10}, {4, 5, 6}, {7}, {8}});
  const Planned made = begun_with(graph, before);
  expect_sound(made.form.graph, made.parts);
  EXPECT_NE(kernel_of(made.parts, *made.form.places[9]), nullptr);
  partition::CostCache cost_cache;
  const partition::Partition anew =
      must(partition::partition(made.form.graph, discrete_gpu(), only_merges(), cost_cache)).partition;
  EXPECT_EQ(kernel_of(anew, *made.form.places[9]), nullptr) << "it is stored by a search that begins with nodes, too";
}

TEST(WarmStart, WhatReadsSomethingElseIsLookedAtAgain) {
  const ir::Graph graph = must(ir::parse(kProducts));
  // Both products and what is behind the first are in kernels of their own, and the search joins these where they
  // differ.
  const Planned made = begun_with(graph, kernels_of(graph, {{9, 10}, {4}, {5}, {6}, {7}, {8}}));
  expect_sound(made.form.graph, made.parts);
  EXPECT_EQ(kernel_of(made.parts, *made.form.places[5]), nullptr) << "between two elementwise ops behind the product";
}

TEST(WarmStart, KernelsThatWouldWaitForThemselvesDoNotStay) {
  // Nobody computes a scan again where it is read: it would hide the circle.
  std::string text = kProducts;
  text.replace(text.find("%7 = neg %1"), std::string("%7 = neg %1").size(),
               "%7 = cumsum axis=1 exclusive=false reverse=false %1");
  const ir::Graph graph = must(ir::parse(text));
  // One kernel has what is behind the first product's reader, and a factor of the second: of one product, both are on
  // either side.
  const Planned made = begun_with(graph, kernels_of(graph, {{9, 10}, {4}, {5}, {6, 7}, {8}}));
  expect_sound(made.form.graph, made.parts);
}

/// What a kernel that stays computes for itself, and one that does not computed again, is stored for nobody.
TEST(WarmStart, WhatIsComputedAgainIsNoKernel) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "a" : f32[64, 64]
  %1 = input "b" : f32[64, 64]
  %2 = input "x" : f32[64, 64]
  %3 = add %2 %2 : f32[64, 64]
  %4 = mul %3 %2 : f32[64, 64]
  %5 = exp %4 : f32[64, 64]
  %6 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %5 %0 : f32[64, 64]
  %7 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %5 %1 : f32[64, 64]
  output "e" = %5
  output "p" = %6
  output "q" = %7
}
)"));
  partition::Partition before = kernels_of(graph, {{3, 4, 5}, {3, 4, 5, 6}, {7}});
  before.segments[0].stores = {5};
  before.segments[1].stores = {6};
  partition::Options nothing;
  nothing.fusion = false;
  for (const partition::Options& options : {partition::Options{}, only_merges(), nothing}) {
    const Planned made = begun_with(graph, before, options);
    expect_sound(made.form.graph, made.parts);
  }
}

/// Few buffers: one form stores a view that the other one does not have to.
TEST(WarmStart, ViewsMayBeStoredInOneFormAlone) {
  const ir::Graph graph = must(passes::run_pipeline(must(ir::parse(R"(graph "g" {
  %0 = input "x1" : f32[64, 32]
  %1 = input "x2" : f32[64, 32]
  %2 = input "w1" : f32[64, 32]
  %3 = input "w2" : f32[64, 32]
  %4 = input "w3" : f32[64, 64]
  %5 = concat axis=1 %0 %1 : f32[64, 64]
  %6 = concat axis=1 %2 %3 : f32[64, 64]
  %7 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %5 %6 : f32[64, 64]
  %8 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %5 %4 : f32[64, 64]
  output "p" = %7
  output "q" = %8
}
)"))));
  const auto joined = must(passes::merge_matmuls(graph));
  ASSERT_TRUE(joined);
  for (const std::uint32_t buffers : {4U, 5U, 6U, 8U}) {
    Target target = discrete_gpu();
    target.caps.memory.storage_buffers = buffers;
    partition::CostCache cost_cache;
    const partition::Partition before = must(partition::partition(graph, target, {}, cost_cache)).partition;
    const partition::WarmStart seed{graph, before, joined->places};
    const auto made = partition::partition(joined->graph, target, {}, cost_cache, &seed);
    if (made) expect_sound(joined->graph, made->partition);
    EXPECT_TRUE(made || buffers == 4) << made.error().text();
  }
}

TEST(WarmStart, ReasonsNameTheNodesOfThisForm) {
  const ir::Graph graph = must(ir::parse(kProducts));
  partition::Partition before = kernels_of(graph, {{9}, {10}, {4, 5, 6}, {7}, {8}});
  partition::FusionBoundary& fusion_boundary = before.fusion_boundaries.emplace_back();
  fusion_boundary.value = 9;
  fusion_boundary.reasons = {partition::stated_refusal(unsupported("Because of %{} and %{}.", 9, 10))};
  const Planned made = begun_with(graph, before);
  const auto at = std::find_if(made.parts.fusion_boundaries.begin(), made.parts.fusion_boundaries.end(),
                               [&](const partition::FusionBoundary& one) { return one.value == *made.form.places[9]; });
  ASSERT_NE(at, made.parts.fusion_boundaries.end());
  ASSERT_NE(*made.form.places[9], 9U) << "the nodes have the same numbers here";
  EXPECT_EQ(plan::text_of(at->reasons),
            fmt::format("Because of %{} and %{}.", *made.form.places[9], *made.form.places[10]));
  // Of the product that is a part of another one now, nothing that was said holds.
  before.fusion_boundaries[0].reasons = {partition::stated_refusal(unsupported("Because of %{}.", 4))};
  for (const partition::FusionBoundary& one : begun_with(graph, before).parts.fusion_boundaries)
    EXPECT_EQ(plan::text_of(one.reasons).find("Because"), std::string::npos) << plan::text_of(one.reasons);
}

/// Of graphs with products that are joined, plans from seeds are sound.
TEST(WarmStart, PlansOfRandomGraphsAreSound) {
  int forms = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ir::Graph graph = must(passes::run_pipeline(random_planner_graph(seed, 40 + static_cast<int>(seed))));
    const auto joined = must(passes::merge_matmuls(graph));
    if (!joined) continue;
    ++forms;
    partition::CostCache cost_cache;
    const partition::Partition before = must(partition::partition(graph, discrete_gpu(), {}, cost_cache)).partition;
    const partition::WarmStart from{graph, before, joined->places};
    expect_sound(joined->graph,
                 must(partition::partition(joined->graph, discrete_gpu(), {}, cost_cache, &from)).partition);
  }
  EXPECT_GT(forms, 10);
}

}  // namespace
}  // namespace vkfuse::test

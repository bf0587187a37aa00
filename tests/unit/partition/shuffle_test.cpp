// The same graph in another order, with operands turned round and with copies and views that change nothing in between,
// has the same plan.
#include <gtest/gtest.h>

#include "golden/targets.hpp"
#include "partition/cost_cache.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

using ir::NodeId;

class Shuffler {
 public:
  Shuffler(const ir::Graph& graph, std::uint64_t seed) : graph_(graph), random_(seed), map_(graph.size(), 0) {}

  ir::Graph run() {
    std::vector<bool> done(graph_.size(), false);
    for (std::size_t left = graph_.size(); left > 0; --left) {
      std::vector<NodeId> ready;
      for (NodeId id = 0; id < graph_.size(); ++id) {
        const auto& operands = graph_.node(id).operands;
        if (!done[id] && std::all_of(operands.begin(), operands.end(), [&](NodeId operand) { return done[operand]; }))
          ready.push_back(id);
      }
      const NodeId next = random_.pick(ready);
      append(next);
      done[next] = true;
    }
    for (const ir::Output& output : graph_.outputs()) must(made_.add_output(output.name, map_[output.value]));
    made_.name = graph_.name;
    return std::move(made_);
  }

 private:
  void append(NodeId id) {
    const ir::Node& node = graph_.node(id);
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands)
      operands.push_back(random_.chance(30) ? disguised(map_[operand]) : map_[operand]);
    if (node.op->commutative && random_.chance(50)) std::swap(operands[0], operands[1]);
    map_[id] = must(ir::append_copy(made_, node, std::move(operands)));
  }

  /// The value through something that does not change it.
  NodeId disguised(NodeId id) {
    const TensorType type = made_.node(id).type;
    switch (random_.below(4)) {
      case 0: return must(made_.add(ops::row("copy"), {id}));
      case 1: return must(made_.add_structured(ops::row("reshape"), {id}, ir::NoPayload{}, type.shape));
      case 2: {
        Shape longer = type.shape;
        longer.insert(longer.begin(), Dim(1));
        const NodeId there = must(made_.add_structured(ops::row("reshape"), {id}, ir::NoPayload{}, longer));
        return must(made_.add_structured(ops::row("reshape"), {there}, ir::NoPayload{}, type.shape));
      }
      default: {
        if (type.shape.empty()) return id;
        std::vector<int> forth(type.shape.size());
        std::vector<int> back(type.shape.size());
        for (std::size_t i = 0; i < forth.size(); ++i) forth[i] = static_cast<int>(i);
        for (std::size_t i = forth.size(); i > 1; --i) std::swap(forth[i - 1], forth[random_.below(i)]);
        for (std::size_t i = 0; i < forth.size(); ++i) back[static_cast<std::size_t>(forth[i])] = static_cast<int>(i);
        const NodeId there = must(made_.add_structured(ops::row("permute"), {id}, ir::AxesPayload{forth}));
        return must(made_.add_structured(ops::row("permute"), {there}, ir::AxesPayload{back}));
      }
    }
  }

  const ir::Graph& graph_;
  Random random_;
  std::vector<NodeId> map_;
  ir::Graph made_;
};

struct Counted {
  std::int64_t launches = 0;
  std::int64_t bytes = 0;
  std::size_t kernels = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};

Counted counted(const ir::Graph& graph, const Target& target, const SymbolValues& symbols,
                const passes::Options& options = {}) {
  const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(graph, options)), target));
  const plan::Totals totals = must(plan::totals(plan, symbols));
  return {totals.launches, totals.bytes, plan.steps.size()};
}

/// How many of the graphs have more than one kernel.
int expect_equal_plans(const ir::Graph& graph, const Target& target, const SymbolValues& symbols, std::uint64_t seed) {
  const Counted before = counted(graph, target, symbols);
  for (std::uint64_t again = 0; again < 3; ++again) {
    const ir::Graph other = Shuffler(graph, seed * 10 + again).run();
    EXPECT_TRUE(counted(other, target, symbols) == before) << "seed " << seed << "\n"
                                                           << ir::print(graph) << ir::print(other);
  }
  return before.launches > 1 ? 1 : 0;
}

TEST(Shuffle, OrderCopiesViewsAndTurnedOperandsLeaveElementwiseGraphsAsTheyAre) {
  int several = 0;
  for (std::uint64_t seed = 1; seed <= 250 && !testing::Test::HasFailure(); ++seed) {
    Target target = seed % 2 == 0 ? discrete_gpu() : cpu_driver();
    target.caps.arithmetic.int64 = target.caps.arithmetic.float64 = true;
    if (seed % 5 == 0) target.caps.memory.storage_buffers = 5;
    CaseOptions options;
    options.caps = target.caps;
    options.max_ops = 20;
    const Case one = random_case(seed, options);
    several += expect_equal_plans(one.graph, target, one.symbols, seed);
  }
  EXPECT_GT(several, 20) << "plans of one kernel show little";
}

TEST(Shuffle, AndGraphsWithFoldsAndProducts) {
  int several = 0;
  for (std::uint64_t seed = 1; seed <= 250 && !testing::Test::HasFailure(); ++seed) {
    several += expect_equal_plans(random_planner_graph(seed, 6 + static_cast<int>(seed % 20)),
                                  seed % 3 == 0 ? cpu_driver() : discrete_gpu(), {}, seed);
  }
  EXPECT_GT(several, 150) << "plans of one kernel show little";
}

TEST(Shuffle, PricesOfEqualKernelsAreRemembered) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const ir::Graph graph = must(passes::run_pipeline(random_planner_graph(seed, 6 + static_cast<int>(seed % 40))));
    partition::Options options;
    options.without = {partition::PlannerPass::memo};
    const partition::Partition with = must(partition::partition(graph, discrete_gpu()));
    const partition::Partition without = must(partition::partition(graph, discrete_gpu(), options));
    ASSERT_EQ(with.segments.size(), without.segments.size()) << "seed " << seed;
    for (std::size_t i = 0; i < with.segments.size(); ++i)
      EXPECT_EQ(with.segments[i].members, without.segments[i].members) << "seed " << seed;
    ASSERT_EQ(with.fusion_boundaries.size(), without.fusion_boundaries.size()) << "seed " << seed;
    for (std::size_t i = 0; i < with.fusion_boundaries.size(); ++i)
      EXPECT_EQ(with.fusion_boundaries[i].reasons, without.fusion_boundaries[i].reasons) << "seed " << seed;
  }
}

// Forms of a graph share what is known of kernels: whatever is known of others, the partition is the same, and so are
// its figures.
TEST(Shuffle, SearchesSharePricesAndFindWhatTheyWouldAlone) {
  partition::CostCache shared;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const ir::Graph graph =
        must(passes::run_pipeline(seed > 3 ? random_planner_graph(seed, 6 + static_cast<int>(seed % 40))
                                           : layered_graph(static_cast<int>(seed))));
    partition::CostCache own;
    const partition::CostedPartition alone = must(partition::partition(graph, discrete_gpu(), {}, own));
    const partition::CostedPartition beside = must(partition::partition(graph, discrete_gpu(), {}, shared));
    EXPECT_EQ(beside.bytes, alone.bytes) << "seed " << seed;
    EXPECT_EQ(beside.microseconds, alone.microseconds) << "seed " << seed;
    ASSERT_EQ(beside.partition.segments.size(), alone.partition.segments.size()) << "seed " << seed;
    for (std::size_t i = 0; i < alone.partition.segments.size(); ++i)
      EXPECT_EQ(beside.partition.segments[i].members, alone.partition.segments[i].members) << "seed " << seed;
    for (std::size_t i = 0; i < alone.partition.fusion_boundaries.size(); ++i)
      EXPECT_EQ(beside.partition.fusion_boundaries[i].reasons, alone.partition.fusion_boundaries[i].reasons)
          << "seed " << seed;
    // What the search knows is what the plan comes to.
    const plan::Totals totals = must(plan::totals(
        must(plan::make_plan(
            graph, discrete_gpu(),
            {.without = {partition::PlannerPass::merged_matmuls, partition::PlannerPass::partial_statistics}})),
        {}));
    EXPECT_EQ(totals.bytes, alone.bytes) << "seed " << seed;
    EXPECT_NEAR(totals.modelled_us, alone.microseconds, 1e-6 * totals.modelled_us) << "seed " << seed;
  }
}

TEST(Shuffle, WithoutOneOrderPlansDiffer) {
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const ir::Graph graph = random_planner_graph(seed, 6 + static_cast<int>(seed % 20));
    const passes::Options options{.identities = false, .reorder = false};
    different +=
        counted(graph, discrete_gpu(), {}, options) == counted(Shuffler(graph, seed).run(), discrete_gpu(), {}, options)
            ? 0
            : 1;
  }
  EXPECT_GT(different, 5) << "the other tests show nothing";
}

}  // namespace
}  // namespace vkfuse::test

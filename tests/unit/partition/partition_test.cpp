// Which nodes share a kernel: elementwise graphs are one, cycles are not made, reasons are given.
#include "partition/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"

namespace vkfuse::test {
namespace {

partition::Partition partitioned(const std::string& body, const Target& target = cpu_driver()) {
  return must(
      partition::partition(must(passes::run_pipeline(must(ir::parse("graph \"g\" {\n" + body + "}")))), target));
}

std::string x(const char* type = "f32[100, 64]") { return std::string(" %0 = input \"x\" : ") + type + "\n"; }

TEST(Partition, ChainsAreOneKernel) {
  // floats; integers and bits; booleans; rounding and special functions
  EXPECT_EQ(partitioned(x() + " %1 = exp %0 : f32[100, 64]\n %2 = add %1 %0 : f32[100, 64]\n output \"y\" = %2\n")
                .segments.size(),
            1U);
  EXPECT_EQ(partitioned(x("i32[100]") +
                        " %1 = bit_not %0 : i32[100]\n %2 = shift_left %1 %0 : i32[100]\n output \"y\" = %2\n")
                .segments.size(),
            1U);
  EXPECT_EQ(partitioned(
                x("bool[100]") +
                " %1 = not %0 : bool[100]\n %2 = xor %1 %0 : bool[100]\n %3 = cast %2 : f32[100]\n output \"y\" = %3\n")
                .segments.size(),
            1U);
  EXPECT_EQ(
      partitioned(x() +
                  " %1 = floor %0 : f32[100, 64]\n %2 = is_nan %1 : bool[100, 64]\n %3 = atan2 %1 %0 : f32[100, 64]\n"
                  " %4 = select %2 %3 %0 : f32[100, 64]\n output \"y\" = %4\n")
          .segments.size(),
      1U);
}

TEST(Partition, CastsBroadcastsRanksAndClampsJoin) {
  EXPECT_EQ(partitioned(x("f16[100, 64]") +
                        " %1 = input \"b\" : f32[64]\n %2 = cast %0 : f32[100, 64]\n %3 = add %2 %1 : f32[100, 64]\n"
                        " %4 = input \"s\" : f32[100, 1]\n %5 = mul %3 %4 : f32[100, 64]\n %6 = constant {0} : f32[]\n "
                        "%7 = constant {6} : f32[]\n"
                        " %8 = clamp %5 %6 %7 : f32[100, 64]\n %9 = cast %8 : i8[100, 64]\n output \"y\" = %9\n")
                .segments.size(),
            1U);
}

TEST(Partition, SeveralOutputsAreOneKernelAndDeadValuesNone) {
  const auto parts =
      partitioned(x() +
                  " %1 = neg %0 : f32[100, 64]\n %2 = exp %1 : f32[100, 64]\n %3 = sin %0 : f32[100, 64]\n"
                  " output \"a\" = %1\n output \"b\" = %2\n");
  ASSERT_EQ(parts.segments.size(), 1U);
  EXPECT_EQ(parts.segments[0].stores.size(), 2U);
  EXPECT_EQ(parts.segments[0].members.size(), 2U);
  EXPECT_EQ(parts.segments[0].reads.size(), 1U);
}

TEST(Partition, SiblingsThatReadTheSameAreOneKernel) {
  EXPECT_EQ(
      partitioned(x() +
                  " %1 = neg %0 : f32[100, 64]\n %2 = exp %0 : f32[100, 64]\n output \"a\" = %1\n output \"b\" = %2\n")
          .segments.size(),
      1U);
}

/// Three kernels read x; the two that became one are one of the kernels that are tried together, not two.
TEST(Partition, WhatWasMergedIsTriedWithOthersOnce) {
  const std::string square = "f32[1000, 1000]";
  const auto line = [&](const std::string& text) { return " " + text + " : " + square + "\n"; };
  const auto parts = partitioned(
      line("%0 = input \"y\"") + line("%1 = input \"x\"") + line("%2 = exp %0") + line("%3 = exp %1") +
          line("%4 = mul %2 %1") + line("%5 = tanh %4") + line("%6 = tanh %3") + line("%7 = permute axes=[1, 0] %1") +
          line("%8 = sin %7") + line("%9 = tanh %8") + line("%10 = sqrt %9") + line("%11 = cos %10") +
          " output \"o0\" = %2\n output \"o1\" = %6\n output \"o2\" = %5\n output \"o3\" = %11\n",
      discrete_gpu());
  std::size_t stored = 0;
  for (const segment::Segment& segment : parts.segments) stored += segment.stores.size();
  EXPECT_EQ(stored, 4U);
}

TEST(Partition, StoredValuesOfAnotherShapeStayApart) {
  const auto parts = partitioned(
      " %0 = input \"b\" : f32[64]\n %1 = exp %0 : f32[64]\n %2 = input \"x\" : f32[100, 64]\n"
      " %3 = add %2 %1 : f32[100, 64]\n output \"row\" = %1\n output \"y\" = %3\n");
  ASSERT_EQ(parts.segments.size(), 2U);
  ASSERT_EQ(parts.fusion_boundaries.size(), 1U);
  const std::string reason = plan::text_of(parts.fusion_boundaries[0].reasons);
  EXPECT_NE(reason.find("%1 of shape [64] is stored, and the kernel runs over [100, 64]"), std::string::npos) << reason;
}

/// A product and a residual, their norm, another product.
constexpr const char* kNormBetween =
    " %0 = input \"a\" : f16[2048, 4096]\n %1 = input \"w\" : f16[4096, 4096]\n %2 = input \"x\" : f16[2048, 4096]\n"
    " %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f16[2048, 4096]\n %4 = add %3 %2 : "
    "f16[2048, 4096]\n"
    " %5 = mul %4 %4 : f16[2048, 4096]\n %6 = reduce_mean axes=[1] %5 : f16[2048]\n %7 = reshape %6 : f16[2048, 1]\n "
    "%8 = constant {0.001} : f16[]\n"
    " %9 = add %7 %8 : f16[2048, 1]\n %10 = rsqrt %9 : f16[2048, 1]\n %11 = mul %4 %10 : f16[2048, 4096]\n %12 = input "
    "\"scale\" : f16[4096]\n"
    " %13 = mul %11 %12 : f16[2048, 4096]\n %14 = input \"v\" : f16[4096, 12288]\n"
    " %15 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %13 %14 : f16[2048, 12288]\n output \"residual\" = "
    "%4\n output \"y\" = %15\n";

TEST(Partition, WhereBandwidthIsMeasuredToBeCheapANormIsStoredAndItsSquaresAreNot) {
  Target target = discrete_gpu();
  EXPECT_EQ(partitioned(kNormBetween, target).segments.size(), 2U)
      << "by the constants of the type the norm stands in the loads";
  target.costs = CostModel{4250, 2, 30000, 1.9e6};  // an H200's
  const auto parts = partitioned(kNormBetween, target);
  ASSERT_EQ(parts.segments.size(), 3U);
  for (const segment::Segment& segment : parts.segments)
    EXPECT_EQ(segment.stores.size(), 1U) << "the sum, the norm, the result";
}

/// Queries, keys and values where launches count, and where they do not.
TEST(Partition, ProjectionsOfOneValueAreOneKernelWhereThatIsFaster) {
  const auto kernels = [](int rows, int width, const Target& target) {
    std::string text = fmt::format("  %0 = input \"x\" : f16[{0}, {1}]\n", rows, width);
    for (int i = 1; i <= 3; ++i) text += fmt::format("  %{0} = input \"w{0}\" : f16[{1}, {1}]\n", i, width);
    for (int i = 1; i <= 3; ++i)
      text += fmt::format("  %{} = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %{} : f16[{}, {}]\n",
                          i + 3, i, rows, width);
    return partitioned(text + "  output \"q\" = %4\n  output \"k\" = %5\n  output \"v\" = %6\n", target)
        .segments.size();
  };
  Target target = discrete_gpu_with_matrices();
  target.costs = CostModel{4250, 2, 30000, 1.9e6};  // an H200's
  EXPECT_EQ(kernels(128, 256, target), 1U);
  EXPECT_EQ(kernels(384, 768, target), 1U) << "BERT's";
  EXPECT_GT(kernels(4096, 4096, target), 1U) << "arithmetic is all that they take, and three sums leave a tile small";
  EXPECT_EQ(kernels(128, 256, cpu_driver()), 1U);
}

/// Other forms of a graph that are planned beside it: two projections as one product, a norm that leaves no kernel of
/// its own. Each has its switch, and the planners that are for comparison know none.
TEST(Partition, FormsOfAGraphCanBeSwitchedOff) {
  Target matrices = discrete_gpu_with_matrices();
  matrices.costs = CostModel{4250, 2, 30000, 1.9e6};  // an H200's
  Target dear = discrete_gpu();
  dear.costs = schedule::costs_of(dear);
  dear.costs->launch_us = 40;
  const auto ops_in = [](const plan::Plan& plan, std::string_view name) {
    return std::count_if(plan.graph.nodes().begin(), plan.graph.nodes().end(),
                         [&](const ir::Node& node) { return node.op->name == name; });
  };
  struct Way {
    partition::PlannerPass form;
    std::string text;
    const Target& target;
    const char* op;
    std::int64_t as_it_is, in_the_form;  ///< how many there are
  };
  for (const Way& way :
       {Way{partition::PlannerPass::merged_matmuls, projections_text(384), matrices, "dot", 2, 1},
        Way{partition::PlannerPass::partial_statistics, kNormBetweenProducts, dear, "reduce_mean", 2, 4}}) {
    const ir::Graph graph = must(passes::run_pipeline(must(ir::parse(way.text))));
    const auto planned = [&](const partition::Options& options) {
      return ops_in(must(plan::make_plan(graph, way.target, options)), way.op);
    };
    EXPECT_EQ(planned({}), way.in_the_form) << partition::name_of(way.form);
    partition::Options options;
    options.without = {way.form};
    EXPECT_EQ(planned(options), way.as_it_is) << partition::name_of(way.form);
    for (const partition::Policy policy :
         {partition::Policy::store_all, partition::Policy::recompute_all, partition::Policy::greedy_io}) {
      options = {};
      options.policy = policy;
      EXPECT_EQ(planned(options), way.as_it_is) << partition::name_of(policy);
    }
  }
}

/// What is faster for more bytes has to be much faster: two products of arrays that are no constants come to two
/// kernels that slice.
TEST(Partition, AFormThatMovesMoreBytesIsMuchFaster) {
  Target target = discrete_gpu_with_matrices();
  target.costs = CostModel{4250, 2, 30000, 1.9e6};  // an H200's
  int taken = 0, refused = 0;
  for (const int rows : {128, 192, 256, 320, 384, 512, 640, 768, 1024, 2048}) {
    std::string text = fmt::format(
        "graph \"g\" {{\n  %0 = input \"x\" : f16[{0}, 768]\n  %1 = input \"a\" : f16[768, 768]\n  %2 = input \"b\" : "
        "f16[768, 256]\n",
        rows);
    for (const auto& [id, width] : {std::pair(3, 768), {4, 256}}) {
      text += fmt::format("  %{} = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %{} : f16[{}, {}]\n", id,
                          id - 2, rows, width);
    }
    const ir::Graph graph =
        must(passes::run_pipeline(must(ir::parse(text + "  output \"y\" = %3\n  output \"z\" = %4\n}"))));
    partition::Options without;
    without.without = {partition::PlannerPass::merged_matmuls};
    const plan::Totals as_it_is = must(plan::totals(must(plan::make_plan(graph, target, without)), {}));
    const plan::Totals planned = must(plan::totals(must(plan::make_plan(graph, target)), {}));
    const plan::Totals joined =
        must(plan::totals(must(plan::make_plan(must(passes::merge_matmuls(graph))->graph, target, without)), {}));
    std::printf("%d rows: %.1f us and %lld bytes, joined %.1f us and %lld bytes\n", rows, as_it_is.modelled_us,
                static_cast<long long>(as_it_is.bytes), joined.modelled_us, static_cast<long long>(joined.bytes));
    const bool is_taken = planned.launches != as_it_is.launches;
    if (joined.bytes > as_it_is.bytes && joined.modelled_us < as_it_is.modelled_us) {
      EXPECT_EQ(is_taken, joined.modelled_us < 0.87 * as_it_is.modelled_us) << rows;
      (is_taken ? taken : refused) += 1;
    }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0) << "nothing here is faster by less";
}

/// The joined form has wider results, and representative sizes are such that the largest is not too large: that is no
/// reason to prefer it.
TEST(Partition, FormsOfAGraphAreComparedAtTheSameSizes) {
  Target target = discrete_gpu_with_matrices();
  target.costs = CostModel{4250, 2, 30000, 1.9e6};
  const ir::Graph graph = must(passes::run_pipeline(must(ir::parse(R"(graph "two products" {
  %0 = input "x" : f16[n, 1024]
  %1 = input "a" : f16[1024, 4096]
  %2 = input "b" : f16[1024, 4096]
  %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f16[n, 4096]
  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %2 : f16[n, 4096]
  %5 = relu %3 : f16[n, 4096]
  %6 = exp %4 : f16[n, 4096]
  output "y" = %5
  output "z" = %6
})"))));
  const SymbolValues representative = schedule::representative_symbols(graph),
                     of_form = schedule::representative_symbols(must(passes::merge_matmuls(graph))->graph);
  ASSERT_NE(representative, of_form) << "no longer what this is about";
  partition::Options sized;
  sized.sizes = representative;
  EXPECT_EQ(must(plan::make_plan(graph, target)).steps.size(),
            must(plan::make_plan(graph, target, sized)).steps.size());
}

/// Every kernel reads only what inputs, constants and earlier kernels hold; every output is stored once.
void expect_runnable(const ir::Graph& graph, const partition::Partition& parts, std::uint32_t buffers) {
  std::vector<int> stored(graph.size(), 0);
  for (const segment::Segment& segment : parts.segments) {
    EXPECT_LE(segment.reads.size() + segment.stores.size(), buffers);
    for (ir::NodeId value : segment.reads)
      EXPECT_TRUE(segment::is_resident(graph, value) || stored[value] == 1) << "%" << value << " of\n"
                                                                            << ir::print(graph);
    for (ir::NodeId value : segment.stores) ++stored[value];
    for (ir::NodeId id : segment.members) {
      for (ir::NodeId operand : graph.node(id).operands) {
        const bool here = std::binary_search(segment.members.begin(), segment.members.end(), operand);
        const bool read = std::find(segment.reads.begin(), segment.reads.end(), operand) != segment.reads.end();
        EXPECT_TRUE(here || read || segment::is_literal(graph, operand)) << "%" << operand << " of\n"
                                                                         << ir::print(graph);
      }
    }
  }
  for (const ir::Output& output : graph.outputs())
    EXPECT_EQ(stored[output.value], 1) << output.name << " of\n" << ir::print(graph);
}

TEST(Partition, RandomGraphsRunInTheGivenOrderAndNeverMoveMore) {
  for (const std::uint32_t buffers : {4u, 6u, 16u}) {
    Target target = cpu_driver();
    target.caps.memory.storage_buffers = buffers;
    target.caps.arithmetic.int64 = target.caps.arithmetic.float64 = true;
    CaseOptions options;
    options.caps = target.caps;
    options.max_ops = 24;
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
      const Case one = random_case(seed, options);
      const ir::Graph graph = must(passes::run_pipeline(one.graph));
      expect_runnable(graph, must(partition::partition(graph, target)), buffers);
      const plan::Totals fused = must(plan::totals(must(plan::make_plan(graph, target)), one.symbols));
      const plan::Totals unfused = must(plan::totals(must(plan::make_plan(graph, target, {false})), one.symbols));
      EXPECT_LE(fused.bytes, unfused.bytes) << "seed " << seed;
      EXPECT_LE(fused.launches, unfused.launches) << "seed " << seed;
      // Merges are judged at representative sizes, a thousandth each.
      const SymbolValues representative = schedule::representative_symbols(graph);
      const double before =
          must(plan::totals(must(plan::make_plan(graph, target, {false})), representative)).modelled_us;
      EXPECT_LE(must(plan::totals(must(plan::make_plan(graph, target)), representative)).modelled_us, before * 1.02)
          << "seed " << seed;
    }
  }
}

/// A concatenation is free where it is read, and stored where its reader would need more buffers than there are: no
/// kernel may have more than four, and each value that is read is stored.
TEST(Partition, ViewsAreStoredWhereAKernelCannotReadAllBehindThem) {
  const auto inputs = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format(" %{} = input \"x{}\" : f32[3, 5]\n", i, i);
    return text;
  };
  const struct {
    const char* name;
    std::string body;
    std::size_t kernels;
  } cases[] = {
      {"read with another value",
       inputs(3) + " %3 = input \"y\" : f32[9, 5]\n %4 = concat axis=0 %0 %1 %2 : f32[9, 5]\n %5 = add %4 %3 : f32[9, "
                   "5]\n output \"z\" = %5\n",
       2},
      {"of five values", inputs(5) + " %5 = concat axis=0 %0 %1 %2 %3 %4 : f32[15, 5]\n output \"z\" = %5\n", 2},
      {"of eleven values, read by a sum",
       inputs(11) + " %11 = concat axis=0 %0 %1 %2 %3 %4 %5 %6 %7 %8 %9 %10 : f32[33, 5]\n %12 = reduce_sum axes=[0] "
                    "%11 : f32[5]\n output \"z\" = %12\n",
       5},
      {"assignments",
       inputs(2) + " %2 = input \"u\" : f32[2, 5]\n %3 = input \"v\" : f32[2, 5]\n %4 = slice_assign starts=[0, 0] "
                   "steps=[1, 1] %0 %2 : f32[3, 5]\n"
                   " %5 = slice_assign starts=[1, 0] steps=[1, 1] %1 %3 : f32[3, 5]\n %6 = mul %4 %5 : f32[3, 5]\n "
                   "output \"z\" = %6\n",
       2},
  };
  const Target target = minimum_device();
  for (const auto& one : cases) {
    for (const bool fusion : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, fusion {}", one.name, fusion));
      partition::Options options;
      options.fusion = fusion;
      const plan::Plan plan = must(plan::make_plan(
          must(passes::run_pipeline(must(ir::parse("graph \"g\" {\n" + one.body + "}")))), target, options));
      partition::Partition parts;
      for (const plan::PlannedKernel& step : plan.steps) parts.segments.push_back(step.segment);
      expect_runnable(plan.graph, parts, target.caps.memory.storage_buffers);
      if (fusion) {
        EXPECT_EQ(parts.segments.size(), one.kernels);
      }
      EXPECT_GT(must(plan::totals(plan, {})).launches, 0);
    }
  }
}

TEST(Partition, IndependentOpsShareALaunchWhereThatIsMostOfTheirTime) {
  const auto kernels = [](const std::string& size, const std::set<partition::PlannerPass>& without) {
    std::string body;
    for (int i = 0; i < 12; ++i) body += fmt::format(" %{} = input \"x{}\" : f32[{}]\n", i, i, size);
    for (int i = 0; i < 12; ++i) body += fmt::format(" %{} = exp %{} : f32[{}]\n", 12 + i, i, size);
    for (int i = 0; i < 12; ++i) body += fmt::format(" output \"y{}\" = %{}\n", i, 12 + i);
    partition::Options options;
    options.without = without;
    return must(partition::partition(must(passes::run_pipeline(must(ir::parse("graph \"g\" {\n" + body + "}")))),
                                     discrete_gpu(), options))
        .segments.size();
  };
  EXPECT_EQ(kernels("4096", {}), 1U);
  EXPECT_EQ(kernels("4096", {partition::PlannerPass::horizontal}), 12U);
  EXPECT_EQ(kernels("100000000", {}), 12U) << "a launch is little beside 800 MB";
}

TEST(Partition, ValuesAreComputedTwiceWhereThatMovesFewerBytes) {
  // Two products of matrices, and what they multiply made of one input.
  const std::string body =
      " %0 = input \"x\" : f32[512, 512]\n %1 = tanh %0 : f32[512, 512]\n %2 = input \"a\" : f32[512, 512]\n %3 = "
      "input \"b\" : f32[512, 256]\n"
      " %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %1 %2 : f32[512, 512]\n"
      " %5 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %1 %3 : f32[512, 256]\n output \"y\" = %4\n "
      "output \"z\" = %5\n";
  EXPECT_EQ(partitioned(body, discrete_gpu()).segments.size(), 2U);
  partition::Options options;
  options.without = {partition::PlannerPass::rematerialization, partition::PlannerPass::exhaustive};
  const auto parts = must(partition::partition(
      must(passes::run_pipeline(must(ir::parse("graph \"g\" {\n" + body + "}")))), discrete_gpu(), options));
  EXPECT_EQ(parts.segments.size(), 3U);
}

// One kernel of it took eight seconds to plan, and a driver's compiler did not come to an end with it.
TEST(Partition, ManyFoldsInARowAreSeveralKernels) {
  std::string body = x();
  int last = 0;
  for (int i = 0; i < 60; ++i, last += 3) {
    body += fmt::format(
        " %{1} = reduce_max axes=[1] %{0} : f32[100]\n %{2} = reshape %{1} : f32[100, 1]\n %{3} = sub %{0} %{2} : "
        "f32[100, 64]\n",
        last, last + 1, last + 2, last + 3);
  }
  const auto made = partitioned(body + fmt::format(" output \"y\" = %{}\n", last));
  EXPECT_GE(made.segments.size(), 3U);  // 24 passes each
  EXPECT_LE(made.segments.size(), 6U);
}

TEST(Partition, SizesThatAreEqualByChanceMakeNoKernel) {
  // Both symbols stand for 4096 where plans are made. They share nothing, then a scalar.
  const std::string inputs = " %0 = input \"a\" : f32[n]\n %1 = input \"b\" : f32[m]\n %2 = input \"s\" : f32[]\n";
  EXPECT_EQ(
      partitioned(inputs + " %3 = neg %0 : f32[n]\n %4 = exp %1 : f32[m]\n output \"y\" = %3\n output \"z\" = %4\n")
          .segments.size(),
      2U);
  EXPECT_EQ(partitioned(inputs +
                        " %3 = mul %0 %2 : f32[n]\n %4 = add %1 %2 : f32[m]\n output \"y\" = %3\n output \"z\" = %4\n")
                .segments.size(),
            2U);
  EXPECT_EQ(
      partitioned(inputs + " %3 = neg %0 : f32[n]\n %4 = exp %0 : f32[n]\n output \"y\" = %3\n output \"z\" = %4\n")
          .segments.size(),
      1U);
}

TEST(Partition, WhatHasNoElementsIsNoPartOfAKernelThatHasSome) {
  EXPECT_EQ(partitioned(" %0 = input \"a\" : f32[0, 1]\n %1 = input \"b\" : f32[1, 1]\n %2 = neg %0 : f32[0, 1]\n %3 = "
                        "exp %1 : f32[1, 1]\n"
                        " output \"y\" = %2\n output \"z\" = %3\n")
                .segments.size(),
            2U);
}

TEST(Partition, AKernelNeverWaitsForItself) {
  // x -> a -> b -> c with b over a larger space and a kept: merging a and c would make a cycle.
  const auto parts = partitioned(
      " %0 = input \"x\" : f32[1, 64]\n %1 = neg %0 : f32[1, 64]\n %2 = input \"w\" : f32[100, 1]\n"
      " %3 = mul %1 %2 : f32[100, 64]\n %4 = exp %1 : f32[1, 64]\n %5 = add %3 %4 : f32[100, 64]\n"
      " output \"a\" = %1\n output \"b\" = %3\n output \"c\" = %5\n output \"d\" = %4\n");
  EXPECT_EQ(parts.segments.size(), 2U);
}

}  // namespace
}  // namespace vkfuse::test

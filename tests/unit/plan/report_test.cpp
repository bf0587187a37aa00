// What a plan says of itself: the rewrites of the graph that were weighed, and what work was taken to cost.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/file.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"

namespace vkfuse::test {
namespace {

using Json = nlohmann::ordered_json;
using partition::PlannerPass;

constexpr const char* kPointwise = R"(graph "pointwise" {
  %0 = input "x" : f32[64]
  %1 = relu %0 : f32[64]
  output "y" = %1
})";

/// Rows of 7 elements, which no vector divides.
constexpr const char* kConvolutions = R"(graph "convolutions" {
  %0 = input "x" : f16[32, 512, 7, 7]
  %1 = constant {0} : f16[]
  %2 = pad low=[0, 0, 1, 1] high=[0, 0, 1, 1] %0 %1 : f16[32, 512, 9, 9]
  %3 = unfold axes=[2] sizes=[3] strides=[1] dilations=[1] %2 : f16[32, 512, 7, 9, 3]
  %4 = unfold axes=[3] sizes=[3] strides=[1] dilations=[1] %3 : f16[32, 512, 7, 7, 3, 3]
  %5 = input "w" : f16[64, 512, 3, 3]
  %6 = dot batch_a=[] batch_b=[] contract_a=[1, 2, 3] contract_b=[1, 4, 5] %5 %4 : f16[64, 32, 7, 7]
  %7 = relu %6 : f16[64, 32, 7, 7]
  output "y" = %7
})";

ir::Graph prepared(const std::string& text) { return must(passes::run_pipeline(must(ir::parse(text)))); }

Target h200() {
  Target target = discrete_gpu_with_matrices();
  target.costs = CostModel{4250, 2, 30000, 1.9e6};
  return target;
}

/// A device whose launches take long, so that a norm's own kernel does not pay.
Target dear_launches() {
  Target target = discrete_gpu();
  target.costs = schedule::costs_of(target);
  target.costs->launch_us = 40;
  return target;
}

std::string text_of(const plan::Plan& plan) {
  return must(plan::to_text(plan, must(plan::make_plan(plan.graph, plan.target, {false})),
                            schedule::representative_symbols(plan.graph)));
}
Json json_of(const plan::Plan& plan) {
  return Json::parse(must(plan::to_json(plan, must(plan::make_plan(plan.graph, plan.target, {false})),
                                        schedule::representative_symbols(plan.graph), {})));
}

/// From `from` on, up to the next empty line.
std::string paragraph(const std::string& text, const std::string& from) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? "" : text.substr(at, text.find("\n\n", at) + 1 - at);
}

struct Case {
  std::string text;
  Target target;
  PlannerPass planner_pass;
  Result<std::optional<passes::Rewritten>> (*make)(const ir::Graph&);
  bool taken;
};

/// The numbers are those of the two plans made by themselves; what was decided, and why, follows from them.
TEST(PlanReport, EachFormThatWasWeighedIsThereWithItsNumbers) {
  int more_bytes = 0;
  for (const Case& one :
       {Case{kConvolutions, h200(), PlannerPass::channels_last, passes::put_channels_last, true},
        Case{kConvolutions, cpu_driver(), PlannerPass::channels_last, passes::put_channels_last, false},
        Case{projections_text(384), h200(), PlannerPass::merged_matmuls, passes::merge_matmuls, true},
        Case{projections_text(256), h200(), PlannerPass::merged_matmuls, passes::merge_matmuls, false},
        Case{kNormBetweenProducts, dear_launches(), PlannerPass::partial_statistics, passes::split_rows, true},
        Case{kNormBetweenProducts, cpu_driver(), PlannerPass::partial_statistics, passes::split_rows, false}}) {
    const ir::Graph graph = prepared(one.text);
    partition::Options without;
    without.without = {one.planner_pass};
    const plan::Totals before = must(plan::totals(must(plan::make_plan(graph, one.target, without)), {}));
    const plan::Totals with =
        must(plan::totals(must(plan::make_plan(must(one.make(graph))->graph, one.target, without)), {}));
    const plan::Plan made = must(plan::make_plan(graph, one.target));
    const std::string file = must(plan::to_file(made));
    EXPECT_EQ(must(plan::to_file(must(plan::from_file(file, graph, one.target)))), file);
    const Json rewrites = json_of(made)["rewrites"];
    ASSERT_EQ(rewrites.size(), 1U) << rewrites;
    EXPECT_EQ(rewrites[0]["planner_pass"], partition::name_of(one.planner_pass));
    EXPECT_EQ(rewrites[0]["rewrite"], plan::rewrite_text(one.planner_pass));
    EXPECT_EQ(rewrites[0]["planned"], true);
    EXPECT_EQ(rewrites[0]["taken"], one.taken) << rewrites;
    EXPECT_EQ(rewrites[0]["bytes_without"], before.bytes);
    EXPECT_EQ(rewrites[0]["bytes_with"], with.bytes);
    EXPECT_NEAR(rewrites[0]["modelled_us_without"].get<double>(), before.modelled_us, 1e-9 * before.modelled_us);
    EXPECT_NEAR(rewrites[0]["modelled_us_with"].get<double>(), with.modelled_us, 1e-9 * with.modelled_us);
    const std::string reason = rewrites[0]["reason"];
    more_bytes += with.bytes > before.bytes ? 1 : 0;
    EXPECT_EQ(reason.find("It moves more bytes") != std::string::npos,
              with.bytes > before.bytes && with.modelled_us < before.modelled_us)
        << reason;
    EXPECT_EQ(reason.find("longer") != std::string::npos, with.modelled_us > before.modelled_us) << reason;
    // As text the same.
    const std::string block = paragraph(text_of(made), "rewrites of the graph");
    for (const std::string& line :
         {fmt::format("  {}: ", partition::name_of(one.planner_pass)),
          fmt::format("    bytes moved{:>25}{:>16}\n", before.bytes, with.bytes),
          fmt::format("    modelled us{:>25.1f}{:>16.1f}\n", before.modelled_us, with.modelled_us),
          std::string(one.taken ? "    taken: It " : "    not taken: It ")}) {
      EXPECT_NE(block.find(line), std::string::npos) << line << "is not in\n" << block;
    }
  }
  EXPECT_GT(more_bytes, 0) << "nothing here moves more bytes";
}

TEST(PlanReport, TheTextIsWhatAPersonReads) {
  plan::Plan made = must(plan::make_plan(prepared(kPointwise), h200()));
  made.rewrites = {{PlannerPass::merged_matmuls, {7340032, 20.5}, plan::Cost{6291456, 18.04}, true, ""},
                   {PlannerPass::merged_matmuls, {100, 20}, plan::Cost{110, 17}, true, ""},
                   {PlannerPass::merged_matmuls, {100, 20}, plan::Cost{110, 19}, false, ""},
                   {PlannerPass::partial_statistics, {100, 20}, plan::Cost{100, 20}, false, ""},
                   {PlannerPass::partial_statistics,
                    {6291456, 18.04},
                    std::nullopt,
                    false,
                    "The value %12 of 96 bytes is larger than what a kernel of the device 'a small one' can bind."}};
  EXPECT_EQ(paragraph(text_of(made), "rewrites of the graph"), R"(rewrites of the graph
  merged-matmuls: products of one value with several others as one product
                                 without         with it
    bytes moved                  7340032         6291456
    modelled us                     20.5            18.0
    taken: It is modelled 12 % faster.
  merged-matmuls: products of one value with several others as one product
                                 without         with it
    bytes moved                      100             110
    modelled us                     20.0            17.0
    taken: It moves more bytes and is modelled 15 % faster; 13 % is asked for
           then.
  merged-matmuls: products of one value with several others as one product
                                 without         with it
    bytes moved                      100             110
    modelled us                     20.0            19.0
    not taken: It moves more bytes and is modelled 5.0 % faster; 13 % is asked
               for then.
  partial-statistics: norms and softmax combine partial statistics
                                 without         with it
    bytes moved                      100             100
    modelled us                     20.0            20.0
    not taken: It is modelled to take as long.
  partial-statistics: norms and softmax combine partial statistics
    not planned: The value %12 of 96 bytes is larger than what a kernel of the
                 device 'a small one' can bind.
)");
  const Json refused = json_of(made)["rewrites"][4];
  EXPECT_EQ(refused["planned"], false);
  EXPECT_EQ(refused["reason"], made.rewrites[4].refusal);
  EXPECT_FALSE(refused.contains("bytes_with") || refused.contains("modelled_us_with"));
}

/// Four factors side by side are more than a kernel of four buffers can read: they are put together three at a time.
TEST(PlanReport, AFormThatFewBuffersAreTooFewForIsPlannedInParts) {
  std::string text = "graph \"four\" {\n  %0 = input \"x\" : f32[64, 512]\n";
  for (int i = 1; i <= 4; ++i) text += fmt::format("  %{0} = input \"w{0}\" : f32[512, 256]\n", i);
  for (int i = 1; i <= 4; ++i)
    text += fmt::format("  %{} = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %{} : f32[64, 256]\n",
                        i + 4, i);
  for (int i = 1; i <= 4; ++i) text += fmt::format("  output \"y{}\" = %{}\n", i, i + 4);
  Target target = dear_launches();
  target.caps.memory.storage_buffers = 4;
  const ir::Graph graph = prepared(text + "}");
  const plan::Plan made = must(plan::make_plan(graph, target));
  const Json rewrites = json_of(made)["rewrites"];
  ASSERT_EQ(rewrites.size(), 1U);
  EXPECT_EQ(rewrites[0]["taken"], true) << rewrites;
  // Who reads the plan finds the same rewrite.
  const std::string file = must(plan::to_file(made));
  EXPECT_EQ(must(plan::to_file(must(plan::from_file(file, graph, target)))), file);
}

TEST(PlanReport, WhatDoesNotApplyOrIsSwitchedOffIsNotThere) {
  const auto rewrites = [](const std::string& text, const Target& target, const partition::Options& options) {
    return must(plan::make_plan(prepared(text), target, options));
  };
  partition::Options off, policy, unfused;
  off.without = {PlannerPass::merged_matmuls};
  policy.policy = partition::Policy::greedy_io;
  unfused.fusion = false;
  for (const plan::Plan& made :
       {rewrites(kPointwise, h200(), {}), rewrites(projections_text(384), h200(), off),
        rewrites(projections_text(384), h200(), policy), rewrites(projections_text(384), h200(), unfused)}) {
    EXPECT_TRUE(made.rewrites.empty());
    EXPECT_EQ(json_of(made)["rewrites"], Json::array());
    EXPECT_EQ(text_of(made).find("rewrites of the graph"), std::string::npos);
  }
}

/// Lines of the text are at most 80 columns, but for names that are longer.
TEST(PlanReport, TheTextFitsATerminal) {
  for (const plan::Plan& made : {must(plan::make_plan(prepared(projections_text(384)), h200())),
                                 must(plan::make_plan(prepared(kNormBetweenProducts), cpu_driver())),
                                 must(plan::make_plan(prepared(kNormBetweenProducts), discrete_gpu()))}) {
    std::istringstream lines(text_of(made));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(PlanReport, SaysWhichCostsItWasMadeWith) {
  Target target = discrete_gpu();
  const plan::Plan guessed = must(plan::make_plan(prepared(kPointwise), target));
  EXPECT_EQ(json_of(guessed)["constants"], "defaults of the device type discrete");
  EXPECT_NE(text_of(guessed).find("\n  modelled with defaults of the device type discrete\n"), std::string::npos)
      << text_of(guessed);
  target.costs = CostModel{4250, 2, 30000, 1.9e6};
  const plan::Plan measured = must(plan::make_plan(prepared(kPointwise), target));
  EXPECT_EQ(json_of(measured)["constants"], "costs measured on the device");
  EXPECT_NE(text_of(measured).find("\n  modelled with costs measured on the device\n"), std::string::npos)
      << text_of(measured);
}

/// A plan that is read says what it said when it was saved: in the store of a device lie such files.
TEST(PlanReport, FormsAreSavedWithThePlan) {
  const ir::Graph graph = prepared(projections_text(384));
  plan::Plan made = must(plan::make_plan(graph, h200()));
  ASSERT_EQ(made.rewrites.size(), 1U);
  made.rewrites.push_back(
      {PlannerPass::partial_statistics, {6291456, 18.04}, std::nullopt, false, "The value %12 is too large."});
  const std::string file = must(plan::to_file(made));
  const plan::Plan read = must(plan::from_file(file, graph, h200()));
  EXPECT_EQ(json_of(read)["rewrites"], json_of(made)["rewrites"]);
  EXPECT_EQ(must(plan::to_file(read)), file);

  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json json = Json::parse(file);
    json.erase("digest");
    change(json);
    json["digest"] = plan::file_digest(json.dump());
    return plan::from_file(json.dump(), graph, h200());
  };
  const auto said = [&](const std::function<void(Json&)>& change) { return changed(change).error().message; };
  const std::string broken = "This is not a plan that vkfuse has saved: ";
  EXPECT_EQ(said([](Json& json) { json.erase("rewrites"); }), broken + "it has no list 'rewrites'.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"] = 7; }), broken + "it has no list 'rewrites'.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0] = 7; }), broken + "it has no 'planner_pass'.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0]["planner_pass"] = "vertical"; }),
            broken + "'vertical' is no rewrite of a graph.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0]["planner_pass"] = "joint"; }),
            broken + "'joint' is no rewrite of a graph.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0]["taken"] = 1; }),
            broken + "of the rewrite 'merged-matmuls' it does not say whether it was taken.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0].erase("without"); }), broken + "a rewrite has no 'without'.");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0]["without"]["bytes"] = -1; }).substr(0, 60),
            broken + "a rewrite costs -1");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][0]["with"]["us"] = "fast"; }), broken + "its 'us' is \"fast\".");
  EXPECT_EQ(said([](Json& json) { json["rewrites"][1].erase("refusal"); }), broken + "it has no 'refusal'.");
}

/// Two sorts, each of which is a kernel: what is between them is in memory, and a plan says where and for how long.
TEST(Report, SaysWhyAValueHasItsBytes) {
  const Tensor order = Tensor::input("x", DType::f32, {8, 64}).argsort(1);
  const ir::Graph graph = must(passes::run_pipeline(graph_of({order.cast(DType::f32).argsort(0)})));
  const plan::Plan plan = must(plan::make_plan(graph, discrete_gpu()));
  const std::string text = text_of(plan);
  ASSERT_GE(plan.steps.size(), 2U) << text;
  EXPECT_NE(text.find("\nmemory: "), std::string::npos) << text;
  EXPECT_NE(text.find("written by segment 0, read until segment 1"), std::string::npos) << text;
  const Json memory = json_of(plan)["memory"];
  ASSERT_FALSE(memory.empty());
  EXPECT_EQ(memory[0]["written_by"], 0);
  EXPECT_EQ(memory[0]["read_until"], 1);
}

/// A product written out: one kernel per op would store each factor's share of each sum.
TEST(Report, SaysWhyThereIsNoPlanWithOneKernelPerOp) {
  const Tensor a = Tensor::input("a", DType::f32, {8192, 1, 8192});
  const Tensor b = Tensor::input("b", DType::f32, {1, 8192, 8192});
  const ir::Graph graph = must(passes::run_pipeline(graph_of({(a * b).sum({2})})));
  const plan::Plan plan = must(plan::make_plan(graph, discrete_gpu()));
  const Result<plan::Plan> unfused = plan::make_plan(plan.graph, plan.target, {false});
  ASSERT_FALSE(unfused.ok());
  const std::string text = must(plan::to_text(plan, unfused, {}));
  const std::string reason = unfused.error().text();
  EXPECT_NE(text.find("kernels                              1               -\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  one per op: " + reason.substr(0, 40)), std::string::npos) << text;
  const Json json = Json::parse(must(plan::to_json(plan, unfused, {}, {})));
  EXPECT_EQ(json["unfused_error"], reason);
  EXPECT_EQ(json["launches_fused"], 1);
  EXPECT_FALSE(json.contains("launches_unfused"));
}

}  // namespace
}  // namespace vkfuse::test

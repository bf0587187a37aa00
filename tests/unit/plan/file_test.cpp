// Plans as files: what is read is what was written, and what is not exactly that is a sentence or computes the same.
#include "plan/file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/program.hpp"
#include "api/states.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "support/device.hpp"
#include "support/planner_graphs.hpp"
#include "support/random.hpp"
#include "support/run.hpp"

namespace vkfuse::test {
namespace {

using Json = nlohmann::ordered_json;

/// A product between pointwise ops and folds: several kernels, temporaries, two results, a view.
constexpr const char* kGraph = R"(graph "plan file" {
  %0 = input "x" : f32[24, 40]
  %1 = input "w" : f32[40, 24]
  %2 = tanh %0 : f32[24, 40]
  %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %2 %1 : f32[24, 24]
  %4 = reduce_max axes=[1] %3 : f32[24]
  %5 = reshape %4 : f32[24, 1]
  %6 = sub %3 %5 : f32[24, 24]
  %7 = permute axes=[1, 0] %6 : f32[24, 24]
  %8 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %7 %3 : f32[24, 24]
  %9 = constant {0.5} : f32[]
  %10 = mul %8 %9 : f32[24, 24]
  %11 = reduce_sum axes=[0] %10 : f32[24]
  output "y" = %10
  output "z" = %11
}
)";

ir::Graph graph() { return must(ir::parse(kGraph)); }
ir::Graph prepared() { return must(passes::run_pipeline(graph())); }

Data some_data(const ir::Graph& of) {
  Data data;
  Random random(5);
  for (ir::NodeId id : of.inputs()) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < bytes_of(of, id, {}) / 4; ++i)
      ir::encode(DType::f32, static_cast<double>(random.below(2001)) / 1000 - 1, bytes);
    data.inputs[std::get<ir::InputPayload>(of.node(id).payload).name] = std::move(bytes);
  }
  return data;
}

/// The file with something changed, and the digest that belongs to that.
std::string forged(const std::string& file, const std::function<void(Json&)>& change) {
  Json json = Json::parse(file);
  json.erase("digest");
  change(json);
  json["digest"] = plan::file_digest(json.dump());
  return json.dump(1);
}

std::string error_of(const std::string& file) {
  const auto read = plan::from_file(file, prepared(), discrete_gpu());
  return read.ok() ? "" : read.error().text();
}

TEST(PlanFile, WhatIsReadIsWhatWasWritten) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const ir::Graph one = must(passes::run_pipeline(random_planner_graph(seed, 14)));
    Target target = discrete_gpu();
    if (seed % 2 == 0) target.costs = CostModel{4100.5, 2.125, 31000, 1.5e6};
    const plan::Plan made = must(plan::make_plan(one, target));
    const std::string file = must(plan::to_file(made));
    // Costs are measured anew on another day: those that the plan was made with count.
    target.costs = CostModel{1, 50, 10, 100};
    const plan::Plan read = must(plan::from_file(file, one, target));
    EXPECT_EQ(must(plan::to_file(read)), file);
    const plan::Plan unfused = must(plan::make_plan(one, made.target, {false}));
    EXPECT_EQ(must(plan::to_text(read, unfused, {})), must(plan::to_text(made, unfused, {})));
  }
}

TEST(PlanFile, TheProgramIsTheSameAndNothingIsPlanned) {
  CompileOptions options;
  options.fusion = false;
  const Executable first = must(api::compile_graph(device(), graph(), options));
  const Executable planned = must(api::compile_graph(device(), graph()));
  CompileOptions loaded;
  loaded.plan = must(first.save_plan());
  const Executable again = must(api::compile_graph(device(), graph(), loaded));
  EXPECT_NE(first.kernel_count(), planned.kernel_count()) << "the two plans are one, so this shows nothing";
  EXPECT_EQ(must(again.explain(Stage::glsl)), must(first.explain(Stage::glsl)));
  EXPECT_EQ(must(again.explain(Stage::plan)), must(first.explain(Stage::plan)));
  const Data data = some_data(graph());
  EXPECT_EQ(run_guarded(again, graph(), data).outputs, run_guarded(first, graph(), data).outputs);
  EXPECT_EQ(check_outputs(graph(), data, run_guarded(again, graph(), data).outputs).wrong, "");
  loaded.planner = "greedy-io";
  EXPECT_EQ(api::compile_graph(device(), graph(), loaded).error().message,
            "A plan that is given leaves nothing to decide: no planner, no planner pass to do without and no memory "
            "budget can be named beside it.");
  loaded.planner = "bytes";
  loaded.memory_budget = 1 << 20;
  EXPECT_FALSE(api::compile_graph(device(), graph(), loaded).ok());
}

TEST(PlanFile, ForeignAndStaleOnesAreOneSentence) {
  const std::string file = must(plan::to_file(must(plan::make_plan(prepared(), discrete_gpu()))));
  EXPECT_EQ(error_of(""), "This is not a plan that vkfuse has saved: it is not JSON.");
  EXPECT_EQ(error_of(std::string("{}\0{}", 5)), "This is not a plan that vkfuse has saved: it is not JSON.");
  // Printed, each level takes a frame of the stack.
  const std::string deep = "{\"vkfuse_plan\":2,\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_EQ(error_of(deep), "This is not a plan that vkfuse has saved: its JSON is more than 64 levels deep.");
  EXPECT_EQ(error_of("[1, 2]"), "This is not a plan that vkfuse has saved: it has no 'vkfuse_plan'.");
  EXPECT_EQ(error_of(forged(file, [](Json& json) { json["vkfuse_plan"] = 1; })),
            "The plan has the format 1; this version of vkfuse reads 2.");
  EXPECT_EQ(error_of(forged(file, [](Json& json) { json["segments"][1]["schedule"]["workgroup"] = 7; })).substr(0, 67),
            "The plan is stale: its segment 1 has 7 for 'workgroup', where this ");
  // Another graph: one number differs.
  std::string text = kGraph;
  text.replace(text.find("{0.5}"), 5, "{0.7}");
  const ir::Graph other = must(passes::run_pipeline(must(ir::parse(text))));
  EXPECT_EQ(plan::from_file(file, other, discrete_gpu()).error().message,
            "The plan is of the graph 'plan file' with 12 nodes, and not of 'plan file' with 12 nodes as the passes "
            "leave it: the two differ.");
  // Another device.
  Target less = discrete_gpu();
  less.caps.memory.storage_buffers = 8;
  less.name = "a lesser one";
  EXPECT_EQ(plan::from_file(file, prepared(), less).error().message,
            "The plan is for the device 'fabricated discrete GPU', whose limits and features are not those of 'a "
            "lesser one' as it is used here.");
  for (const char* name :
       {"version", "graph", "nodes", "graph_digest", "device", "device_digest", "segments", "fusion_boundaries"}) {
    const std::string said = error_of(forged(file, [&](Json& json) { json.erase(name); }));
    EXPECT_EQ(said, std::string(name) == "version"                                        ? ""
                    : said.substr(0, 43) == "This is not a plan that vkfuse has saved: i" ? said
                                                                                          : "?")
        << name;
  }
}

TEST(PlanFile, AChangedByteIsRefusedOrChangesNothing) {
  const std::string file = must(plan::to_file(must(plan::make_plan(prepared(), discrete_gpu()))));
  Random random(11);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string changed = file;
    const std::size_t at = random.below(changed.size());
    switch (random.below(4)) {
      case 0: changed[at] = static_cast<char>(random.below(256)); break;
      case 1: changed.erase(at, 1 + random.below(40)); break;
      case 2: changed.insert(at, 1, changed[random.below(changed.size())]); break;
      default: changed.resize(at); break;
    }
    const auto read = plan::from_file(changed, prepared(), discrete_gpu());
    if (read.ok()) {
      EXPECT_EQ(must(plan::to_file(*read)), file) << "at " << at;
      continue;
    }
    ++refused;
    EXPECT_TRUE(read.error().message.ends_with(".")) << read.error().message;
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << read.error().message;
  }
  EXPECT_GT(refused, 1000) << "most places matter";
}

/// Somebody who knows how to make the digest changes which nodes are where. What is then accepted computes the same.
TEST(PlanFile, AForgedOneIsRefusedOrRight) {
  const Executable planned = must(api::compile_graph(device(), graph()));
  const std::string file = must(planned.save_plan());
  const ir::Graph& one = planned.state()->program->plan().graph;
  const Data data = some_data(graph());
  Random random(23);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string changed = forged(file, [&](Json& json) {
      Json& segments = json["segments"];
      Json& segment = segments[random.below(segments.size())];
      Json& list = segment[random.chance(50) ? "members" : "stores"];
      switch (random.below(6)) {
        case 0:
          if (!list.empty()) list.erase(random.below(list.size()));
          break;
        case 1: list.push_back(random.below(one.size() + 2)); break;
        case 2: {
          std::set<std::size_t> all = list.get<std::set<std::size_t>>();
          all.insert(random.below(one.size()));
          list = all;
          break;
        }
        case 3: std::swap(segments[random.below(segments.size())], segments[random.below(segments.size())]); break;
        case 4: segments.erase(random.below(segments.size())); break;
        default: segments.push_back(segments[random.below(segments.size())]); break;
      }
    });
    CompileOptions options;
    options.plan = changed;
    const auto program = api::compile_graph(device(), graph(), options);
    if (!program.ok()) {
      ++refused;
      EXPECT_EQ(program.error().code == ErrorCode::internal, false) << program.error().text() << "\n" << changed;
      continue;
    }
    ++accepted;
    const GuardedRun run = run_guarded(*program, graph(), data);
    EXPECT_EQ(run.broken, "") << changed;
    EXPECT_EQ(check_outputs(graph(), data, run.outputs).wrong, "") << changed;
  }
  std::printf("%d forged plans refused, %d accepted and right\n", refused, accepted);
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace vkfuse::test

// ONNX writes its composite operators out as graphs of primitive ones, the `_expanded` node tests: fusion finds them
// again. No plan may have more kernels than the model has nodes, and one with several nodes that compute has fewer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <set>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "onnx/proto_file.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "unit/onnx/cases.hpp"

namespace vkfuse::onnx {
namespace {

/// Where elements come from is all that these say.
const std::set<std::string> kViews = {"CastLike",  "Concat",       "Constant", "ConstantOfShape", "DepthToSpace",
                                      "Expand",    "Flatten",      "Gather",   "GatherElements",  "Identity",
                                      "Pad",       "Range",        "Reshape",  "Shape",           "Size",
                                      "Slice",     "SpaceToDepth", "Split",    "Squeeze",         "Tile",
                                      "Transpose", "Unsqueeze"};

struct Counts {
  int nodes = 0;
  int computing = 0;  ///< neither views nor computed from constants and shapes alone
};

Counts count_nodes(const pb::GraphProto& graph) {
  Counts counts;
  std::set<std::string> known;  // while importing
  for (const auto& initializer : graph.initializer()) known.insert(initializer.name());
  for (const auto& node : graph.node()) {
    ++counts.nodes;
    const bool of_shapes = node.op_type() == "Shape" || node.op_type() == "Size";
    const bool of_known = std::all_of(node.input().begin(), node.input().end(),
                                      [&](const std::string& name) { return name.empty() || known.count(name) != 0; });
    if (of_shapes || of_known) {
      known.insert(node.output().begin(), node.output().end());
    } else if (kViews.count(node.op_type()) == 0) {
      ++counts.computing;
    }
  }
  return counts;
}

/// Kernels of a run on the host; a sentence where there is no plan.
Result<int> kernels_of(const fs::path& folder) {
  VKF_TRY(test, load_case(folder));
  VKF_TRY(graph, api::to_graph(test.model.outputs, test.model.output_names, test.name));
  VKF_TRY(prepared, passes::run_pipeline(graph));
  VKF_TRY(made, plan::make_plan(std::move(prepared), test::discrete_gpu()));
  VKF_TRY(totals, plan::totals(made, schedule::representative_symbols(made.graph)));
  return static_cast<int>(totals.launches);
}

/// The exceptions: a cross-entropy is only two nodes here, a LogSoftmax and a NegativeLogLikelihoodLoss. Where the loss
/// of all rows is one number, the sum over a row's classes must be finished before the sum over rows begins: two
/// kernels. A mean that weighs them has a third, because the sum of the weights shares its gather with the rows'
/// kernel, which then waits for it.
std::optional<int> kernels_of_reduced_loss(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (name.rfind("test_sce_", 0) != 0 || !(has("_mean") || has("_sum"))) return std::nullopt;
  return has("_mean") && (has("weight") || has("_ii")) ? 3 : 2;
}

TEST(OnnxKernels, ExpandedModelsHaveFewerKernelsThanNodes) {
  const std::vector<fs::path> folders = case_folders(kData / "node");
  if (folders.empty()) GTEST_SKIP() << "ONNX's test data is not installed (package libonnx-testdata)";
  int planned = 0, fused = 0;
  std::int64_t nodes = 0, kernels = 0;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (name.find("_expanded") == std::string::npos) continue;
    const Result<int> launches = kernels_of(folder);
    if (!launches) {
      EXPECT_EQ(name_of(launches.error().code), std::string("unsupported")) << name << ": " << launches.error().text();
      continue;
    }
    const Result<pb::ModelProto> model = read_model_file(folder / "model.onnx");
    ASSERT_TRUE(model.ok()) << name;
    const Counts counts = count_nodes(model->graph());
    ++planned;
    nodes += counts.nodes;
    kernels += *launches;
    if (std::getenv("VKFUSE_LIST_CASES") != nullptr)
      fmt::print("{}: {} nodes, {} compute, {} kernels\n", name, counts.nodes, counts.computing, *launches);
    EXPECT_LE(*launches, counts.nodes) << name;
    if (counts.computing <= 1) continue;
    ++fused;
    if (const auto expected = kernels_of_reduced_loss(name)) {
      EXPECT_LE(*launches, *expected) << name;
    } else {
      EXPECT_LT(*launches, counts.computing) << name;
    }
  }
  fmt::print("{} expanded models: {} nodes, {} kernels; {} have several nodes that compute\n", planned, nodes, kernels,
             fused);
  EXPECT_GE(planned, 100);
}

}  // namespace
}  // namespace vkfuse::onnx

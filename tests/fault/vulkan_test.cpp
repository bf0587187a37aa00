// Every Vulkan call that compiling and running a program makes fails in turn: what comes back is an error or the right
// result. A few of the calls in ctest; with VKFUSE_FAULTS=all, all of them of three graphs, with every result, and
// 1,000 of random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "fault/flow.hpp"
#include "support/fuzz.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

constexpr VkResult kResults[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST,
                                 VK_ERROR_INITIALIZATION_FAILED};

bool wants_all() {
  const char* wanted = std::getenv("VKFUSE_FAULTS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

class VulkanFaults : public testing::TestWithParam<bool> {
 protected:
  ~VulkanFaults() override {
    std::filesystem::remove_all(store_folder());
    std::filesystem::create_directory(store_folder());
  }

  /// What must hold where a call failed, if it was reached: an error, or the right result.
  void fail(const FlowGraph& one, const Data& data, int k, VkResult result) {
    vulkan::FaultPlan faults;
    faults.fail_call = k;
    faults.result = result;
    const Result<NamedBytes> got = whole_flow(one.graph, data, store_folder(), &faults, GetParam());
    const char* const call = faults.failed_call;
    if (call == nullptr) return;  // the number of polls of a wait varies
    ++failed;
    const std::string where =
        fmt::format("{}: call {}, {}, failed with {}", one.name, k, call, vulkan::name_of(result));
    if (got.ok()) {
      EXPECT_EQ(check_outputs(one.graph, data, *got).wrong, "") << where;
      return;
    }
    ++errors;
    EXPECT_NE(got.error().code, ErrorCode::internal) << where << ": " << got.error().text();
    EXPECT_EQ(got.error().message.back(), '.') << where << ": " << got.error().text();
    const bool lost = result == VK_ERROR_DEVICE_LOST;
    EXPECT_TRUE(!lost || got.error().code == ErrorCode::device_lost) << where << ": " << got.error().text();
  }

  /// How many calls the flow of a graph makes. The store is warm from here on.
  int calls_of(const FlowGraph& one, const Data& data) {
    must(whole_flow(one.graph, data, store_folder(), nullptr, GetParam()));
    vulkan::FaultPlan counting;
    must(whole_flow(one.graph, data, store_folder(), &counting, GetParam()));
    return counting.calls;
  }

  /// Whatever has failed, a device that is opened now works.
  void expect_working(const FlowGraph& one, const Data& data) {
    EXPECT_EQ(
        check_outputs(one.graph, data, must(whole_flow(one.graph, data, store_folder(), nullptr, GetParam()))).wrong,
        "")
        << one.name;
  }

  int failed = 0;
  int errors = 0;
};

TEST_P(VulkanFaults, AreErrorsOrRightResults) {
  Random random(5);
  for (const FlowGraph& one : flow_graphs()) {
    const Data data = data_for({one.graph, {}, 7, false});
    const int calls = calls_of(one, data);
    for (const VkResult result : kResults) {
      for (int k = 0; k < calls; ++k) {
        if (wants_all() || random.chance(2)) fail(one, data, k, result);
      }
    }
    expect_working(one, data);
  }
  std::printf("%d calls failed: %d errors, %d right results\n", failed, errors, failed - errors);
  EXPECT_GT(errors, 5);
}

bool has_empty_values(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return std::any_of(node.type.shape.begin(), node.type.shape.end(), [](const Dim& dim) { return dim.size() == 0; });
  });
}

/// Of ops of every class. Which calls fail, and with what, is the seed's choice, too.
TEST_P(VulkanFaults, OfRandomGraphsAreErrorsOrRightResults) {
  constexpr int kOfAGraph = 8;
  CaseOptions options;
  options.caps = target(true).caps;
  options.every_class = true;
  options.max_ops = 8;
  options.symbols = false;
  const int wanted = static_cast<int>(number_in("VKFUSE_FAULT_SAMPLES").value_or(wants_all() ? 1000 : 16));
  const auto one_seed = number_in("VKFUSE_SEED");
  int graphs = 0;
  for (std::uint64_t seed = one_seed.value_or(1); failed < wanted; ++seed) {
    const Case one = random_case(seed, options);
    if (has_empty_values(one.graph)) continue;  // a device has no memory of no bytes
    const std::string name = fmt::format("graph {}", seed);
    const FlowGraph flow = {name.c_str(), one.graph};
    const Data data = data_for(one);
    const int calls = calls_of(flow, data);
    Random random(seed_of(seed, "faults"));
    for (int i = 0; i < kOfAGraph && failed < wanted; ++i) {
      const auto k = static_cast<int>(random.below(static_cast<std::size_t>(calls)));
      fail(flow, data, k, kResults[random.below(std::size(kResults))]);
    }
    expect_working(flow, data);
    ++graphs;
    if (HasFailure()) {
      ADD_FAILURE() << ir::print(one.graph)
                    << replay_line(seed, GetParam() ? "*VulkanFaults.OfRandomGraphs*/Floor"
                                                    : "*VulkanFaults.OfRandomGraphs*/Best");
      break;
    }
    if (one_seed) break;
  }
  std::printf("%d calls failed of %d graphs: %d errors, %d right results\n", failed, graphs, errors, failed - errors);
  EXPECT_GT(errors, 0);
}

INSTANTIATE_TEST_SUITE_P(Faults, VulkanFaults, testing::Bool(),
                         [](const auto& floor) { return floor.param ? "Floor" : "Best"; });

}  // namespace
}  // namespace vkfuse::test

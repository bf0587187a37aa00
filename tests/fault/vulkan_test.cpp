// Every Vulkan call that compiling and running a program makes fails in turn: what comes back is an error or the right
// result. A few of the calls in ctest; all of them, with every result, with VKFUSE_FAULTS=all.
#include <gtest/gtest.h>

#include <filesystem>

#include "fault/flow.hpp"
#include "support/fuzz.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

constexpr VkResult kResults[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST, VK_ERROR_INITIALIZATION_FAILED};

bool wants_all() {
  const char* wanted = std::getenv("VKFUSE_FAULTS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

class VulkanFaults : public testing::TestWithParam<bool> {};

TEST_P(VulkanFaults, AreErrorsOrRightResults) {
  const bool floor = GetParam();
  Random random(5);
  int failed = 0;
  int errors = 0;
  for (const FlowGraph& one : flow_graphs()) {
    const Data data = data_for({one.graph, {}, 7, false});
    must(whole_flow(one.graph, data, store_folder(), nullptr, floor));  // the store is warm from here on
    vulkan::FaultPlan counting;
    must(whole_flow(one.graph, data, store_folder(), &counting, floor));
    for (const VkResult result : kResults) {
      for (int k = 0; k < counting.calls; ++k) {
        if (!wants_all() && !random.chance(2)) continue;
        vulkan::FaultPlan faults;
        faults.fail_call = k;
        faults.result = result;
        const Result<NamedBytes> got = whole_flow(one.graph, data, store_folder(), &faults, floor);
        const char* const call = faults.failed_call;
        if (call == nullptr) continue;
        ++failed;
        const std::string where = fmt::format("{}: call {}, {}, failed with {}", one.name, k, call, vulkan::name_of(result));
        if (got.ok()) {
          EXPECT_EQ(check_outputs(one.graph, data, *got).wrong, "") << where;
          continue;
        }
        ++errors;
        EXPECT_NE(got.error().code, ErrorCode::internal) << where << ": " << got.error().text();
        EXPECT_EQ(got.error().message.back(), '.') << where << ": " << got.error().text();
        const bool lost = result == VK_ERROR_DEVICE_LOST;
        EXPECT_TRUE(!lost || got.error().code == ErrorCode::device_lost) << where << ": " << got.error().text();
      }
    }
    // Whatever has failed, a device that is opened now works.
    EXPECT_EQ(check_outputs(one.graph, data, must(whole_flow(one.graph, data, store_folder(), nullptr, floor))).wrong, "");
  }
  std::printf("%d calls failed: %d errors, %d right results\n", failed, errors, failed - errors);
  EXPECT_GT(errors, 5);
  std::filesystem::remove_all(store_folder());
  std::filesystem::create_directory(store_folder());
}

INSTANTIATE_TEST_SUITE_P(Faults, VulkanFaults, testing::Bool(), [](const auto& floor) { return floor.param ? "Floor" : "Best"; });

}  // namespace
}  // namespace vkfuse::test

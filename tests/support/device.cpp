#include "support/device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "api/states.hpp"
#include "support/environment.hpp"

namespace vkfuse::test {

namespace {

/// Every device of every test fills memory before each run, and Executable::run() is made twice
/// (DeviceOptions::self_check).
[[maybe_unused]] const bool poisoned = [] {
  if (std::getenv("VKFUSE_SELF_CHECK") == nullptr) set_variable("VKFUSE_SELF_CHECK", "1");
  return true;
}();

/// After all tests: where the validation layer is on, it has said nothing.
class SilentLayers : public testing::Environment {
 public:
  void TearDown() override {
    if (std::getenv("VKFUSE_VALIDATE") == nullptr) return;
    const int messages = device().state()->context->device()->instance()->validation_errors();
    std::printf("The validation layer has said %d things.\n", messages);
    EXPECT_EQ(messages, 0);
  }
};
const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new SilentLayers);

}  // namespace

DeviceOptions least_of(const Device& device) {
  const Caps least;
  DeviceOptions options;
  options.disable = device.description().features;
  for (int tier = 1; tier < kFeatureTierCount; ++tier)
    options.disable.emplace_back(name_of(static_cast<FeatureTier>(tier)));
  options.limits = {{"max_invocations", least.workgroup.max_invocations},
                    {"max_workgroup_x", least.workgroup.max_x},
                    {"shared_memory_bytes", least.workgroup.shared_memory_bytes},
                    {"storage_buffers", least.memory.storage_buffers},
                    {"push_constant_bytes", least.memory.push_constant_bytes},
                    {"storage_range", least.memory.storage_buffer_range},
                    {"subgroup_size", least.subgroup.size}};
  return options;
}

namespace {
std::string limits_wanted() {
  const char* limits = std::getenv("VKFUSE_TEST_LIMITS");
  const std::string name = limits == nullptr ? "" : limits;
  if (name != "" && name != "least" && name != "registers")
    throw std::runtime_error("VKFUSE_TEST_LIMITS is '" + name + "', which is neither 'least' nor 'registers'");
  return name;
}
}  // namespace

bool has_least_limits() { return limits_wanted() == "least"; }

const Device& device() {
  static const Device opened = [] {
    Device made = must(Device::open());
    const char* driver = std::getenv("VKFUSE_TEST_DRIVER");
    const std::map<std::string, std::string> parts = {{"lavapipe", "llvmpipe"}, {"swiftshader", "SwiftShader"}};
    const auto expected = parts.find(driver == nullptr ? "" : driver);
    const std::string name = made.description().name;
    if (expected != parts.end() && name.find(expected->second) == std::string::npos) {
      throw std::runtime_error("VKFUSE_TEST_DRIVER is " + expected->first + ", but the device is '" + name + "'");
    }
    const std::string limits = limits_wanted();
    if (limits == "registers")
      return must(Device::open({.limits = {{"registers_per_thread", 64}, {"workgroup_registers", 1u << 15}}}));
    return limits == "least" ? must(Device::open(least_of(made))) : made;
  }();
  return opened;
}

const Target& target(bool wants_half) {
  static const Target with =
      must(device().state()->context->tiers().target(std::vector{FeatureTier::subgroup, FeatureTier::float16}));
  static const Target without = must(device().state()->context->tiers().target(std::vector{FeatureTier::subgroup}));
  return wants_half ? with : without;
}

}  // namespace vkfuse::test

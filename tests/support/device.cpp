#include "support/device.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "api/states.hpp"

namespace vkfuse::test {

namespace {

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
    return made;
  }();
  return opened;
}

const Target& target(bool wants_half) {
  static const Target with = must(device().state()->context->target(std::vector{Rung::t1, Rung::t2}));
  static const Target without = must(device().state()->context->target(std::vector{Rung::t1}));
  return wants_half ? with : without;
}

}  // namespace vkfuse::test

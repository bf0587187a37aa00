// Calls of the driver that fail.
#pragma once

#include "api/states.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::test {

/// Faults in what is called from now on; taken out again at the end.
class Faults {
 public:
  explicit Faults(const Device& device)
      : calls_(const_cast<vulkan::DeviceFunctions&>(device.state()->context->device()->functions())) {
    calls_.faults = &plan;
  }
  ~Faults() { calls_.faults = nullptr; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  vulkan::FaultPlan plan;

 private:
  vulkan::DeviceFunctions& calls_;
};

}  // namespace vkfuse::test

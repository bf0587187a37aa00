// Device time.
#pragma once

#include <vector>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

class TimestampPool {
 public:
  /// ErrorCode::unsupported where the queue has no timestamps.
  static Result<TimestampPool> create(const std::shared_ptr<const Device>& device, std::uint32_t count);

  /// All `count` times since the first one in nanoseconds, after the submission that wrote them is
  /// done. Counters of fewer than 64 bits may wrap once in between.
  [[nodiscard]] Result<std::vector<double>> nanoseconds() const;
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] VkQueryPool handle() const { return pool_.get(); }

 private:
  Handle<VkQueryPool, &DeviceFunctions::DestroyQueryPool> pool_;
  std::uint32_t count_ = 0;
};

}  // namespace vkfuse::vulkan

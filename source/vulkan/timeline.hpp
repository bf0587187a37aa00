// Timelines: counters that devices, the host and other interfaces of the machine signal and wait for.
#pragma once

#include <chrono>
#include <cstdint>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

/// A timeline semaphore, at 0 when it is made. Move-only. Must outlive the submissions that use it. Thread-safe.
class Timeline {
 public:
  /// ErrorCode::unsupported without timeline semaphores.
  static Result<Timeline> create(const std::shared_ptr<const Device>& device);

  /// Sets it, from the host. The value is above the one it has, and below those that are to be signalled.
  [[nodiscard]] Result<void> signal(std::uint64_t value) const;
  /// Blocks until it has reached a value; false when the time passed first.
  [[nodiscard]] Result<bool> wait(std::uint64_t value, std::chrono::nanoseconds time) const;
  [[nodiscard]] Result<std::uint64_t> value() const;
  /// A file descriptor of it (VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD), the caller's. ErrorCode::unsupported where
  /// Device::exports_timelines() is false.
  [[nodiscard]] Result<int> export_fd() const;
  [[nodiscard]] VkSemaphore handle() const { return semaphore_.get(); }
  [[nodiscard]] const std::shared_ptr<const Device>& device() const { return semaphore_.device(); }

 private:
  using Semaphore = Handle<VkSemaphore, &DeviceFunctions::DestroySemaphore>;
  explicit Timeline(Semaphore semaphore) : semaphore_(std::move(semaphore)) {}

  Semaphore semaphore_;
};

}  // namespace vkfuse::vulkan

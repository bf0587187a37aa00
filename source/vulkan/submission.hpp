// The end of a submission, to wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "vulkan/functions.hpp"

namespace vkfuse::vulkan {

class Device;
struct Fence;

/// Copyable; keeps the device alive. Submissions of a device are done in the order of their values.
/// Thread-safe.
class Submission {
 public:
  /// A submission of no work: done.
  Submission() = default;

  /// Spins for about 50 us, which is where small kernels end, then looks again and again for 0.2 s, then blocks. An
  /// error means that the device failed; nothing is in flight any more when it is returned.
  [[nodiscard]] Result<void> wait() const;
  /// The same, giving up: false when the time passed first.
  [[nodiscard]] Result<bool> wait_for(std::chrono::nanoseconds time) const;
  /// Does not wait.
  [[nodiscard]] Result<bool> done() const;
  /// Counts the submissions of a device from 1; 0 for no work.
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  friend class Device;
  Result<bool> poll(bool again = false) const;
  Result<bool> block(std::uint64_t nanoseconds) const;
  Error drained(Error error) const;

  std::shared_ptr<const Device> device_;
  std::uint64_t value_ = 0;
  std::shared_ptr<const Fence> fence_;  // where there are no timeline semaphores
};

}  // namespace vkfuse::vulkan

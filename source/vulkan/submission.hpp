// The end of a submission, to wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "vulkan/functions.hpp"

namespace vkfuse::vulkan {

class Device;
struct Fence;

/// A value of a timeline semaphore.
struct TimelineValue {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  std::uint64_t value = 0;
};

/// What a submission waits for before it begins, and what it signals at its end, beside what the device itself counts.
struct SubmissionPoints {
  std::vector<TimelineValue> wait_for;
  std::vector<TimelineValue> signal;
};

/// How long a wait may sleep before it looks again whether a submission has ended; 0: it looks at once.
/// `waited`: since the wait began; `age`: since the submission; `expected`: at what age the like ended before, 0 where
/// that is not known. Sleeps are a small part of what has been waited for, and there are none about the expected end.
/// A wait that has lasted 0.2 s blocks instead.
std::chrono::nanoseconds nap_between_polls(std::chrono::nanoseconds waited, std::chrono::nanoseconds age,
                                           std::chrono::nanoseconds expected);

/// Copyable; keeps the device alive. Submissions of a device are done in the order of their values.
/// Thread-safe.
class Submission {
 public:
  /// A submission of no work: done.
  Submission() = default;

  /// Spins for about 50 us, which is where small kernels end, then looks again and again for 0.2 s, then blocks. With
  /// the age at which the like ended before, it spins about that age too, but not on CPUs, whose threads have the work
  /// to do. An error means that the device failed; nothing is in flight any more when it is returned.
  [[nodiscard]] Result<void> wait(std::chrono::nanoseconds expected = {}) const;
  /// The same, giving up: false when the time passed first.
  [[nodiscard]] Result<bool> wait_for(std::chrono::nanoseconds time, std::chrono::nanoseconds expected = {}) const;
  /// Since it was submitted.
  [[nodiscard]] std::chrono::nanoseconds age() const { return std::chrono::steady_clock::now() - submitted_at_; }
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
  std::chrono::steady_clock::time_point submitted_at_;
  std::shared_ptr<const Fence> fence_;  // where there are no timeline semaphores
};

}  // namespace vkfuse::vulkan

// Timelines: counters by which runs, the host and other interfaces of the machine (CUDA, HIP, another Vulkan device)
// wait for each other without blocking a thread.
//
//     Result<Timeline> theirs = Timeline::create(device), ours = Timeline::create(device);
//     int fd = *theirs->export_fd();          // cuImportExternalSemaphore takes it; CUDA signals 1 after its kernels
//     Bindings bindings{.inputs = {{"x", x}}, .outputs = {{"y", y}}};
//     bindings.wait_for = {{*theirs, 1}};
//     bindings.signal = {{*ours, 1}};
//     program->submit(bindings);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "vkfuse/device.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// A timeline semaphore of Vulkan: a number that only grows, 0 at first. Copies share it; it is freed when the last one
/// is gone, and runs that name it keep it. Thread-safe.
class Timeline {
 public:
  /// ErrorCode::unsupported where the device has no timeline semaphores.
  static Result<Timeline> create(const Device& device);

  /// Sets it from the host. The value must be above the one that it has, and below those that are still to be
  /// signalled.
  Result<void> signal(std::uint64_t value) const;
  /// Blocks until it has reached the value; false if that took longer than `time`.
  [[nodiscard]] Result<bool> wait(std::uint64_t value, std::chrono::nanoseconds time) const;
  /// What it has reached.
  [[nodiscard]] Result<std::uint64_t> value() const;
  /// A new file descriptor of VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, which CUDA calls
  /// CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD. It is the caller's until an import takes it over.
  /// ErrorCode::unsupported where the driver does not export timelines.
  [[nodiscard]] Result<int> export_fd() const;

  struct State;  // internal
  explicit Timeline(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// A value that a timeline reaches.
struct TimelinePoint {
  Timeline timeline;
  std::uint64_t value = 0;
};

}  // namespace VKFUSE_PUBLIC

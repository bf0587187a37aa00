// How much memory buffers of a device may take.
#pragma once

#include <memory>
#include <utility>

#include "vulkan/buffer.hpp"

namespace vkfuse::runtime {

/// What other programs hold is not known. Thread-safe.
class MemoryBudget {
 public:
  /// `limit`: bytes of the main heap (restrict_memory).
  MemoryBudget(std::shared_ptr<const vulkan::Device> device, std::uint64_t limit)
      : device_(std::move(device)), limit_(limit) {}

  /// Bytes that buffers on the device may take in all.
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  /// Bytes that buffers of a kind may still take: what the heap has, or the limit "memory_bytes", less the buffers that
  /// are alive.
  [[nodiscard]] std::uint64_t left(vulkan::BufferKind kind) const;

 private:
  std::shared_ptr<const vulkan::Device> device_;
  std::uint64_t limit_;
};

}  // namespace vkfuse::runtime

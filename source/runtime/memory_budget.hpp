// How much memory buffers of a device may take.
#pragma once

#include <memory>
#include <utility>

#include "runtime/spare_buffers.hpp"
#include "vulkan/buffer.hpp"

namespace vkfuse::runtime {

/// What other programs hold is not known. Thread-safe.
class MemoryBudget {
 public:
  /// `limit`: bytes of the main heap (restrict_memory).
  MemoryBudget(std::shared_ptr<const vulkan::Device> device, std::uint64_t limit)
      : device_(std::move(device)), limit_(limit), spares_(std::make_shared<SpareBuffers>(device_)) {}

  /// Bytes that buffers on the device may take in all.
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  /// Bytes that buffers of a kind may still take: what the heap has, or the limit "memory_bytes", less the buffers that
  /// are in use.
  [[nodiscard]] std::uint64_t left(vulkan::BufferKind kind) const;
  /// Frees the spare buffers where so many bytes do not fit beside them.
  void make_room(std::uint64_t bytes) const;
  [[nodiscard]] const std::shared_ptr<SpareBuffers>& spares() const { return spares_; }

 private:
  std::shared_ptr<const vulkan::Device> device_;
  std::uint64_t limit_;
  std::shared_ptr<SpareBuffers> spares_;
};

}  // namespace vkfuse::runtime

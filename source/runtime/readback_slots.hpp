// Memory of the host for small copies from the device that are read later.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "vulkan/buffer.hpp"

namespace vkfuse::runtime {

/// One buffer of slots of equal size. Thread-safe.
class ReadbackSlots {
 public:
  static constexpr std::uint64_t kSlotBytes = 4096;

  /// Free again when it is destroyed, which is after the last copy to it has ended.
  class Slot {
   public:
    Slot(std::shared_ptr<ReadbackSlots> slots, std::size_t index) : slots_(std::move(slots)), index_(index) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() { slots_->free(index_); }
    /// Its first `bytes`.
    [[nodiscard]] vulkan::BufferRange range(std::uint64_t bytes) const;
    void read(std::uint64_t offset, std::span<std::byte> bytes) const;

   private:
    std::shared_ptr<ReadbackSlots> slots_;
    std::size_t index_;
  };

  /// Allocates the memory of all slots.
  static Result<std::shared_ptr<ReadbackSlots>> create(const std::shared_ptr<vulkan::Device>& device);
  /// Null where all are in use.
  static std::shared_ptr<const Slot> take(const std::shared_ptr<ReadbackSlots>& slots);

 private:
  static constexpr std::size_t kSlots = 64;

  explicit ReadbackSlots(vulkan::Buffer memory) : memory_(std::move(memory)) {}
  void free(std::size_t index);

  vulkan::Buffer memory_;
  std::mutex mutex_;
  std::vector<bool> used_ = std::vector<bool>(kSlots, false);
};

}  // namespace vkfuse::runtime

#include "runtime/readback_slots.hpp"

#include <algorithm>

namespace vkfuse::runtime {

vulkan::BufferRange ReadbackSlots::Slot::range(std::uint64_t bytes) const {
  return {&slots_->memory_, index_ * kSlotBytes, bytes};
}

void ReadbackSlots::Slot::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  slots_->memory_.read(index_ * kSlotBytes + offset, bytes);
}

Result<std::shared_ptr<ReadbackSlots>> ReadbackSlots::create(const std::shared_ptr<vulkan::Device>& device) {
  VKF_TRY(memory, vulkan::Buffer::create(device, kSlots * kSlotBytes, vulkan::BufferKind::readback));
  return std::shared_ptr<ReadbackSlots>(new ReadbackSlots(std::move(memory)));
}

std::shared_ptr<const ReadbackSlots::Slot> ReadbackSlots::take(const std::shared_ptr<ReadbackSlots>& slots) {
  const std::lock_guard<std::mutex> lock(slots->mutex_);
  const auto unused = std::find(slots->used_.begin(), slots->used_.end(), false);
  if (unused == slots->used_.end()) return nullptr;
  *unused = true;
  return std::make_shared<const Slot>(slots, static_cast<std::size_t>(unused - slots->used_.begin()));
}

void ReadbackSlots::free(std::size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  used_[index] = false;
}

}  // namespace vkfuse::runtime

#include "runtime/memory_budget.hpp"

#include <algorithm>

#include "vulkan/device.hpp"

namespace vkfuse::runtime {

std::uint64_t MemoryBudget::left(vulkan::BufferKind kind) const {
  const vulkan::Placement main = vulkan::expected_placement(*device_, vulkan::BufferKind::device);
  const vulkan::Placement place = vulkan::expected_placement(*device_, kind);
  const std::uint64_t limit = place.heap == main.heap ? limit_ : place.heap_bytes;
  const std::uint64_t spare = place.heap == main.heap ? spares_->bytes() : 0;
  const std::uint64_t alive = device_->allocated(place.heap);
  return limit - std::min(limit, alive - std::min(alive, spare));
}

void MemoryBudget::make_room(std::uint64_t bytes) const {
  const std::uint32_t heap = vulkan::expected_placement(*device_, vulkan::BufferKind::device).heap;
  if (device_->allocated(heap) + bytes > limit_) spares_->forget();
}

}  // namespace vkfuse::runtime

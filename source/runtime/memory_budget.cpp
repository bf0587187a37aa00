#include "runtime/memory_budget.hpp"

#include <algorithm>

#include "vulkan/device.hpp"

namespace vkfuse::runtime {

std::uint64_t MemoryBudget::left(vulkan::BufferKind kind) const {
  const vulkan::Placement main = vulkan::expected_placement(*device_, vulkan::BufferKind::device);
  const vulkan::Placement place = vulkan::expected_placement(*device_, kind);
  const std::uint64_t limit = place.heap == main.heap ? limit_ : place.heap_bytes;
  return limit - std::min(limit, device_->allocated(place.heap));
}

}  // namespace vkfuse::runtime

#include "runtime/spare_buffers.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <vector>

#include "vulkan/device.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::uint64_t kAlwaysKept = std::uint64_t{64} << 20;
constexpr std::size_t kMostBuffers = 1024;

}  // namespace

SpareBuffers::SpareBuffers(std::shared_ptr<const vulkan::Device> device)
    : device_(std::move(device)), heap_(vulkan::expected_placement(*device_, vulkan::BufferKind::device).heap) {}

vulkan::Buffer SpareBuffers::part_with(std::uint64_t came) {
  auto node = kept_.extract(came);
  sizes_.erase({node.mapped().size(), came});
  bytes_ -= node.mapped().allocated();
  return std::move(node.mapped());
}

// In a process that was forked, a lock may be held by a thread that is not there, and nothing is to be had.
std::optional<vulkan::Buffer> SpareBuffers::take(std::uint64_t bytes) {
  if (!device_->functions().process.is_this() || device_->lost()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto behind = sizes_.upper_bound({bytes, UINT64_MAX});
  if (behind == sizes_.begin() || std::prev(behind)->first != bytes) return std::nullopt;
  return part_with(std::prev(behind)->second);
}

void SpareBuffers::keep(vulkan::Buffer buffer) noexcept {
  if (!device_->functions().process.is_this() || device_->lost() || buffer.allocated() == 0) return;
  std::vector<vulkan::Buffer> gone;  // freed after the lock is
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_.emplace(buffer.size(), came_);
    bytes_ += buffer.allocated();
    kept_.emplace(came_++, std::move(buffer));
    const std::uint64_t all = device_->allocated(heap_);
    const std::uint64_t most = std::max(kAlwaysKept, all - std::min(all, bytes_));
    while (bytes_ > most || kept_.size() > kMostBuffers) {
      gone.push_back(part_with(kept_.begin()->first));
    }
  } catch (const std::bad_alloc&) {
    forget();  // a host without memory keeps none
  }
}

bool SpareBuffers::forget() {
  if (!device_->functions().process.is_this()) return false;
  decltype(kept_) gone;  // freed after the lock is
  const std::lock_guard<std::mutex> lock(mutex_);
  gone.swap(kept_);
  sizes_.clear();
  bytes_ = 0;
  return !gone.empty();
}

std::uint64_t SpareBuffers::bytes() const {
  if (!device_->functions().process.is_this()) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace vkfuse::runtime

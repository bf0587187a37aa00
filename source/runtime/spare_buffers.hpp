// Device memory that is not in use, kept for whoever asks next: to allocate takes longer than most kernels run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "vulkan/buffer.hpp"

namespace vkfuse::runtime {

/// When one comes, at most as many bytes are kept as the device's buffers in use have, or 64 MiB, and 1,024 buffers (of
/// 4,096 that some drivers allow in all): the oldest go first. Where memory is short, all go. Thread-safe.
class SpareBuffers {
 public:
  explicit SpareBuffers(std::shared_ptr<const vulkan::Device> device);

  /// The last one that was kept of so many bytes, a multiple of 16. Its elements are what they were.
  std::optional<vulkan::Buffer> take(std::uint64_t bytes);
  /// `buffer` is of BufferKind::device, and the device is done with it. What is in pieces or in memory of the host
  /// program is freed.
  void keep(vulkan::Buffer buffer) noexcept;
  /// Frees all of them; false if there were none.
  bool forget();
  /// Bytes of memory that they hold.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  /// The one that came then; it is kept no more.
  vulkan::Buffer part_with(std::uint64_t came);

  std::shared_ptr<const vulkan::Device> device_;
  std::uint32_t heap_ = 0;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, vulkan::Buffer> kept_;             ///< by when they came, the oldest first
  std::set<std::pair<std::uint64_t, std::uint64_t>> sizes_;  ///< of each the bytes, and when it came
  std::uint64_t came_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace vkfuse::runtime

// A logical device with one compute queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/background.hpp"
#include "vulkan/instance.hpp"
#include "vulkan/submission.hpp"

namespace vkfuse::vulkan {

class CommandBuffer;
struct FeatureChain;

/// How memory of a device is given to another interface of the machine.
enum class MemoryExport : std::uint8_t {
  none,
  any,        ///< like other memory
  dedicated,  ///< allocated for one buffer alone
};

/// What a device gives to other interfaces of the machine.
struct Exports {
  MemoryExport memory = MemoryExport::none;
  bool timelines = false;
};

/// Everything is on by default; a test switches parts off to walk the fallbacks.
struct DeviceOptions {
  bool timeline = true;           ///< false: submissions signal fences
  bool push_descriptors = true;   ///< false: descriptor pools
  bool map_device_memory = true;  ///< false: device buffers are never mapped, so uploads are staged
  FaultPlan* faults = nullptr;    ///< of the device's calls; null: those of the instance
};

/// Memory that a host program hands out: a VkDeviceMemory, where the block begins in it, and its first byte where the
/// host has it mapped.
struct ExternalMemory {
  std::uint64_t memory = 0;
  std::uint64_t offset = 0;
  void* mapped = nullptr;
};

/// Where memory comes from when not from vkAllocateMemory. Called by any thread.
struct Allocator {
  /// Bytes, their alignment, the memory type, and whether the block must be mapped. A `memory` of 0: there is none
  /// left.
  std::function<ExternalMemory(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type, bool mapped)> allocate;
  std::function<void(const ExternalMemory& block)> release;
};

/// A device of the host program, lent for as long as anything made from the Device lives. Handles
/// are Vulkan's, as void*.
struct ExternalDevice {
  void* physical_device = nullptr;
  void* device = nullptr;
  void* queue = nullptr;
  std::uint32_t queue_family = 0;  ///< one that computes
  std::uint32_t api_version = 0;   ///< that the host's instance was made for; 0: 1.1
  /// The VkDeviceCreateInfo that the device was made with, read during adopt(): features and extensions that it does
  /// not enable are not used. Null: none is (T0 and subgroup arithmetic remain).
  const void* create_info = nullptr;
  /// Called around every use of the queue; empty: the host uses the queue only while vkfuse does not.
  std::function<void()> lock_queue;
  std::function<void()> unlock_queue;
  Allocator allocator;  ///< empty: vkAllocateMemory
};

/// What every buffer of ours is used for.
inline constexpr VkBufferUsageFlags kBufferUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;

/// Guards a queue among vkfuse's threads, and then against its host.
class QueueMutex {
 public:
  void lock() {
    mutex_.lock();
    if (lock_) lock_();
  }
  void unlock() {
    if (unlock_) unlock_();
    mutex_.unlock();
  }
  void with_host(std::function<void()> lock, std::function<void()> unlock) {
    lock_ = std::move(lock);
    unlock_ = std::move(unlock);
  }

 private:
  std::mutex mutex_;
  std::function<void()> lock_, unlock_;
};

/// Every useful feature the physical device has is enabled. Shared by everything made from it, so
/// it outlives them. Thread-safe. After VK_ERROR_DEVICE_LOST every submission and wait returns
/// ErrorCode::device_lost; open another Device.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// `index` into instance->devices(); invalid_argument beyond its end. Takes about 70 ms.
  static Result<std::shared_ptr<Device>> create(std::shared_ptr<const Instance> instance, std::size_t index,
                                                const DeviceOptions& options = {});
  /// Works on the host's device and does not destroy it.
  static Result<std::shared_ptr<Device>> adopt(std::shared_ptr<const Instance> instance,
                                               const ExternalDevice& external);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] const Caps& caps() const { return info_.caps; }
  [[nodiscard]] const std::shared_ptr<const Instance>& instance() const { return instance_; }
  [[nodiscard]] bool lost() const { return functions_.lost; }
  /// False where DeviceOptions or the driver rule them out.
  [[nodiscard]] bool has_timeline() const { return timeline_ != VK_NULL_HANDLE; }
  [[nodiscard]] bool has_push_descriptors() const { return push_descriptors_; }
  /// How memory leaves this device as a file descriptor.
  [[nodiscard]] MemoryExport memory_export() const { return exports_.memory; }
  /// Whether timeline semaphores do.
  [[nodiscard]] bool exports_timelines() const { return exports_.timelines; }

  /// Runs recorded commands, in order, after everything submitted earlier. The buffers, pipelines
  /// and command buffers in use must live until the submission is done.
  /// ErrorCode::unsupported if there are points and no timeline semaphores.
  Result<Submission> submit(std::span<const CommandBuffer* const> commands, const SubmissionPoints& points = {});
  Result<Submission> submit(const CommandBuffer& commands);
  /// Waits for everything submitted.
  Result<void> wait_idle();

  // For the classes of this folder.
  /// Waits for the queue, ignoring errors, before what it may be using goes away.
  void drain() const;
  [[nodiscard]] const DeviceFunctions& functions() const { return functions_; }
  [[nodiscard]] VkDevice handle() const { return device_; }
  [[nodiscard]] VkSemaphore timeline() const { return timeline_; }
  [[nodiscard]] std::uint32_t queue_family() const { return queue_family_; }
  [[nodiscard]] std::uint32_t timestamp_bits() const { return timestamp_bits_; }
  [[nodiscard]] const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }
  [[nodiscard]] bool maps_device_memory() const { return map_device_memory_; }
  /// The host's, or an empty one.
  [[nodiscard]] const Allocator& allocator() const { return allocator_; }
  /// What frees memory that is kept for later, and says whether there was any: called where memory is short. Set before
  /// the first buffer is made.
  void keep_spare_memory(std::function<bool()> free) { free_spare_memory_ = std::move(free); }
  [[nodiscard]] bool free_spare_memory() const { return free_spare_memory_ && free_spare_memory_(); }
  /// The buffers of this device that are alive, by heap.
  [[nodiscard]] std::uint64_t allocated(std::uint32_t heap) const { return allocated_[heap]; }
  void count_allocated(std::uint32_t heap, std::uint64_t bytes) const { allocated_[heap] += bytes; }
  void count_freed(std::uint32_t heap, std::uint64_t bytes) const { allocated_[heap] -= bytes; }

 private:
  Device() = default;
  Result<void> open(std::size_t index, const DeviceOptions& options);
  Result<void> use(const ExternalDevice& external);
  Result<void> finish_opening(VkPhysicalDevice physical, bool timeline);
  Result<void> make_timeline();
  Result<Submission> submit_locked(std::span<const VkCommandBuffer> buffers, const SubmissionPoints& points);
  void find_exports(VkPhysicalDevice physical, const FeatureChain& features);

  std::shared_ptr<const Instance> instance_;
  DeviceInfo info_;
  DeviceFunctions functions_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkPhysicalDeviceMemoryProperties memory_{};
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::uint32_t queue_family_ = 0;
  std::uint32_t timestamp_bits_ = 0;
  bool push_descriptors_ = false;
  bool map_device_memory_ = true;
  Exports exports_;

  bool owned_ = true;
  Allocator allocator_;
  std::function<bool()> free_spare_memory_;
  mutable std::array<std::atomic<std::uint64_t>, VK_MAX_MEMORY_HEAPS> allocated_{};

  mutable QueueMutex own_mutex_;
  QueueMutex* queue_mutex_ = &own_mutex_;  // guards the queue and the value below
  VkQueue queue_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0;
  std::optional<AtProcessEnd> at_end_;  ///< waits for what was submitted: drivers crash where they are at work
};

}  // namespace vkfuse::vulkan

// A device of its own whose Vulkan calls are counted. One at a time: the counts are global.
#pragma once

#include <atomic>

#include "api/states.hpp"
#include "support/device.hpp"

namespace vkfuse::test {

struct CallCounts {
  std::atomic<int> submits = 0;
  std::atomic<int> allocations = 0;
  std::atomic<int> dispatches = 0;
  std::atomic<int> barriers = 0;
  void clear() { submits = allocations = dispatches = barriers = 0; }
};

class WatchedDevice {
 public:
  explicit WatchedDevice(const DeviceOptions& options = {}) : device_(must(Device::open(options))) {
    vulkan::DeviceFunctions& calls = table();
    real() = {calls.QueueSubmit.pointer, calls.AllocateMemory.pointer, calls.CmdDispatch.pointer, calls.CmdPipelineBarrier.pointer};
    calls.QueueSubmit.pointer = submit;
    calls.AllocateMemory.pointer = allocate;
    calls.CmdDispatch.pointer = dispatch;
    calls.CmdPipelineBarrier.pointer = barrier;
    counts().clear();
  }

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] vulkan::DeviceFunctions& table() const { return const_cast<vulkan::DeviceFunctions&>(device_.state()->context->device()->functions()); }
  /// Bytes of the buffers that are alive in the device's main heap.
  [[nodiscard]] std::uint64_t allocated() const {
    const vulkan::Device& own = *device_.state()->context->device();
    return own.allocated(vulkan::expected_placement(own, vulkan::BufferKind::device).heap);
  }
  static CallCounts& counts() {
    static CallCounts all;
    return all;
  }

 private:
  struct Real {
    PFN_vkQueueSubmit submit = nullptr;
    PFN_vkAllocateMemory allocate = nullptr;
    PFN_vkCmdDispatch dispatch = nullptr;
    PFN_vkCmdPipelineBarrier barrier = nullptr;
  };
  static Real& real() {
    static Real all;
    return all;
  }
  static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
    ++counts().submits;
    return real().submit(queue, count, infos, fence);
  }
  static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    ++counts().allocations;
    return real().allocate(device, info, callbacks, memory);
  }
  static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    ++counts().dispatches;
    real().dispatch(commands, x, y, z);
  }
  static VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer commands, VkPipelineStageFlags before, VkPipelineStageFlags after, VkDependencyFlags flags,
                                            std::uint32_t memories, const VkMemoryBarrier* memory, std::uint32_t buffers, const VkBufferMemoryBarrier* buffer,
                                            std::uint32_t images, const VkImageMemoryBarrier* image) {
    ++counts().barriers;
    real().barrier(commands, before, after, flags, memories, memory, buffers, buffer, images, image);
  }

  Device device_;
};

/// Words of the text form for a chain of elementwise ops over x : f32[elements].
inline std::string chain_text(std::int64_t elements, const std::vector<std::string>& ops) {
  std::string text = fmt::format("graph \"chain\" {{\n %0 = input \"x\" : f32[{}]\n", elements);
  for (std::size_t i = 0; i < ops.size(); ++i) text += fmt::format(" %{} = {} %{} : f32[{}]\n", i + 1, ops[i], i, elements);
  return text + fmt::format(" output \"y\" = %{}\n}}", ops.size());
}

inline std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000) * 0.25F - 100.0F;
  return values;
}

}  // namespace vkfuse::test

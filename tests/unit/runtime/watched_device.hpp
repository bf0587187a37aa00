// A device of its own whose Vulkan calls are counted. One at a time: the counts are global.
#pragma once

#include <gtest/gtest.h>

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

/// Where a device's buffers lie: as the driver has it, or in memory of its own, which the host does not see, with host
/// memory in another heap.
enum class Memory : std::uint8_t { as_it_is, apart };

class WatchedDevice {
 public:
  explicit WatchedDevice(const DeviceOptions& options = {}, Memory memory = Memory::as_it_is)
      : device_(must(Device::open(without_self_check(options)))) {
    vulkan::DeviceFunctions& calls = table();
    real() = {calls.QueueSubmit.pointer, calls.AllocateMemory.pointer, calls.CmdDispatch.pointer,
              calls.CmdPipelineBarrier.pointer, calls.GetBufferMemoryRequirements.pointer};
    // Where the driver has it apart, both are the same.
    const bool is_made_up = memory == Memory::apart && !stages_inputs();
    if (is_made_up) set_memory_apart();
    calls.QueueSubmit.pointer = submit;
    if (!is_made_up) calls.AllocateMemory.pointer = allocate;
    calls.CmdDispatch.pointer = dispatch;
    calls.CmdPipelineBarrier.pointer = barrier;
    counts().clear();
  }

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] vulkan::DeviceFunctions& table() const {
    return const_cast<vulkan::DeviceFunctions&>(device_.state()->context->device()->functions());
  }
  /// Bytes of the buffers that are alive.
  [[nodiscard]] std::uint64_t allocated() const {
    const vulkan::Device& own = *device_.state()->context->device();
    std::uint64_t all = 0;
    for (std::uint32_t heap = 0; heap < own.memory().memoryHeapCount; ++heap) all += own.allocated(heap);
    return all;
  }
  /// Whether inputs go through host memory to the device's own.
  [[nodiscard]] bool stages_inputs() const { return !place(vulkan::BufferKind::device).mapped; }
  /// Whether outputs are copied to host memory before they are read.
  [[nodiscard]] bool stages_outputs() const { return !place(vulkan::BufferKind::device).host_cached; }
  /// Whether what is staged takes memory from the device's buffers.
  [[nodiscard]] bool staging_is_apart() const {
    return place(vulkan::BufferKind::device).heap != place(vulkan::BufferKind::upload).heap;
  }
  static CallCounts& counts() {
    static CallCounts all;
    return all;
  }

 private:
  /// What is counted are the calls of one run, and not those of a second one that checks it.
  static DeviceOptions without_self_check(DeviceOptions options) {
    options.self_check = false;
    return options;
  }
  [[nodiscard]] vulkan::Placement place(vulkan::BufferKind kind) const {
    return vulkan::expected_placement(*device_.state()->context->device(), kind);
  }

  /// A second heap and a second type, which the driver does not know: what is allocated there is its own that the host
  /// sees.
  void set_memory_apart() {
    constexpr VkMemoryPropertyFlags kSeen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkPhysicalDeviceMemoryProperties& of_driver = device_.state()->context->device()->memory();
    real_type() = 0;
    while ((of_driver.memoryTypes[real_type()].propertyFlags & kSeen) != kSeen) ++real_type();
    auto& memory = const_cast<VkPhysicalDeviceMemoryProperties&>(device_.state()->context->device()->memory());
    constexpr VkMemoryPropertyFlags kHost =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    memory.memoryHeapCount = memory.memoryTypeCount = 2;
    memory.memoryHeaps[1] = {memory.memoryHeaps[0].size, 0};
    memory.memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    memory.memoryTypes[1] = {kHost, 1};
    table().AllocateMemory.pointer = allocate_apart;
    table().GetBufferMemoryRequirements.pointer = requirements_apart;
  }

  struct Real {
    PFN_vkQueueSubmit submit = nullptr;
    PFN_vkAllocateMemory allocate = nullptr;
    PFN_vkCmdDispatch dispatch = nullptr;
    PFN_vkCmdPipelineBarrier barrier = nullptr;
    PFN_vkGetBufferMemoryRequirements requirements = nullptr;
  };
  static std::uint32_t& real_type() {
    static std::uint32_t type = 0;
    return type;
  }
  static Real& real() {
    static Real all;
    return all;
  }
  static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                                               VkFence fence) {
    ++counts().submits;
    return real().submit(queue, count, infos, fence);
  }
  static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                                 const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    ++counts().allocations;
    return real().allocate(device, info, callbacks, memory);
  }
  static VKAPI_ATTR VkResult VKAPI_CALL allocate_apart(VkDevice device, const VkMemoryAllocateInfo* info,
                                                       const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    VkMemoryAllocateInfo of_driver = *info;
    of_driver.memoryTypeIndex = real_type();
    return allocate(device, &of_driver, callbacks, memory);
  }
  static VKAPI_ATTR void VKAPI_CALL requirements_apart(VkDevice device, VkBuffer buffer, VkMemoryRequirements* needs) {
    real().requirements(device, buffer, needs);
    needs->memoryTypeBits = 3;
  }
  static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                             std::uint32_t z) {
    ++counts().dispatches;
    real().dispatch(commands, x, y, z);
  }
  static VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer commands, VkPipelineStageFlags before,
                                            VkPipelineStageFlags after, VkDependencyFlags flags, std::uint32_t memories,
                                            const VkMemoryBarrier* memory, std::uint32_t buffers,
                                            const VkBufferMemoryBarrier* buffer, std::uint32_t images,
                                            const VkImageMemoryBarrier* image) {
    ++counts().barriers;
    real().barrier(commands, before, after, flags, memories, memory, buffers, buffer, images, image);
  }

  Device device_;
};

/// Words of the text form for a chain of elementwise ops over x : f32[elements].
inline std::string chain_text(std::int64_t elements, const std::vector<std::string>& ops) {
  std::string text = fmt::format("graph \"chain\" {{\n %0 = input \"x\" : f32[{}]\n", elements);
  for (std::size_t i = 0; i < ops.size(); ++i)
    text += fmt::format(" %{} = {} %{} : f32[{}]\n", i + 1, ops[i], i, elements);
  return text + fmt::format(" output \"y\" = %{}\n}}", ops.size());
}

inline std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000) * 0.25F - 100.0F;
  return values;
}

/// A test on both. The second is made up, of memory that the host sees, where the device is the host.
class OfMemory : public testing::TestWithParam<Memory> {
 protected:
  void SetUp() override {
    if (GetParam() == Memory::apart && device().state()->context->device()->info().type != DeviceType::cpu)
      GTEST_SKIP() << "the device has memory of its own, which need not be made up";
  }
};

}  // namespace vkfuse::test

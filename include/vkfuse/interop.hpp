// Working inside a program that uses Vulkan itself: on its device, on its buffers, in its command buffers. Handles are
// Vulkan's: those that are pointers everywhere as void*, the others (buffers, memory) as 64-bit integers, and no header
// of Vulkan is needed here.
//
//     HostDevice mine{.instance = instance, .physical_device = physical, .device = device, .queue = queue,
//                     .queue_family = family, .api_version = VK_API_VERSION_1_2, .create_info = &device_info};
//     Result<Device> adopted = Device::adopt(mine);
//     Result<Buffer> x = adopted->wrap((std::uint64_t)my_buffer, my_bytes);
//     Result<Recording> recorded = program->record(my_commands, {.inputs = {{"x", *x}}, .outputs = {{"y", *y}}});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "vkfuse/device.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// A block of memory that the host hands out.
struct HostMemory {
  std::uint64_t memory = 0;  ///< VkDeviceMemory; 0: none is left
  std::uint64_t offset = 0;  ///< bytes from its start
  void* mapped = nullptr;    ///< the block's first byte, if the host has it mapped; memory is not mapped twice
};

/// Device memory from the host instead of vkAllocateMemory. Called by any thread that uses the device. What throws ends
/// up as an error of the call that asked.
struct HostAllocator {
  /// `bytes` of memory type `type`, at a multiple of `alignment` in its VkDeviceMemory. `mapped`: the block must be
  /// mapped (the type is host-visible and coherent); else it may be, and copies are staged where it is not.
  std::function<HostMemory(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type, bool mapped)> allocate;
  /// Takes a block back. No submission uses it any more. Nobody is there to be told what it throws: that is lost.
  std::function<void(const HostMemory& block)> release;
};

/// What a host lends. Everything stays the host's, and must live until the adopted Device and all that was made with it
/// (programs, buffers, submissions, recordings) are gone.
struct HostDevice {
  void (*get_instance_proc_addr)() = nullptr;  ///< PFN_vkGetInstanceProcAddr, cast; null: that of the machine's loader
  void* instance = nullptr;                    ///< VkInstance
  void* physical_device = nullptr;             ///< VkPhysicalDevice
  void* device = nullptr;                      ///< VkDevice
  void* queue = nullptr;                       ///< VkQueue of a family that computes
  std::uint32_t queue_family = 0;
  /// VkApplicationInfo::apiVersion, as the instance was made with; 0 stands for Vulkan 1.1, which is the least.
  std::uint32_t api_version = 0;
  /// The VkDeviceCreateInfo, with its chain, that the device was made with; read during adopt() alone. It says which
  /// features and extensions may be used: vkfuse uses 16-bit storage and float16, subgroup size control, timeline
  /// semaphores, push descriptors, 64-bit integers and floats, cooperative matrices and others where they are on, and
  /// does without where they are not. Null: nothing is on.
  const void* create_info = nullptr;
  /// Called around each use of the queue (submissions, waits until it is idle). Both, or neither: then the host does
  /// not use the queue while it calls vkfuse, and lets one thread at a time do so. They must not throw.
  std::function<void()> lock_queue;
  std::function<void()> unlock_queue;
  HostAllocator allocator;  ///< empty: vkAllocateMemory
};

/// What was appended to a host's command buffer: intermediate memory, descriptor sets, and references to buffers and
/// kernels. Copies share it. The last one must live until the command buffer has run for the last time or was reset.
class Recording {
 public:
  explicit Recording(std::shared_ptr<const void> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const void> state_;
};

}  // namespace VKFUSE_PUBLIC

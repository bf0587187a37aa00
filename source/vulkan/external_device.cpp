// Working on a device, and appending to command buffers, that belong to the host program.
#include <algorithm>

#include "vulkan/command_buffer.hpp"
#include "vulkan/loader.hpp"
#include "vulkan/query.hpp"

namespace vkfuse::vulkan {

Result<std::shared_ptr<Instance>> Instance::adopt(void* instance, void (*get_instance_proc_addr)()) {
  if (instance == nullptr) return invalid("A VkInstance to adopt is null.");
  std::shared_ptr<Instance> adopted(new Instance);
  auto lookup = reinterpret_cast<PFN_vkGetInstanceProcAddr>(get_instance_proc_addr);
  if (lookup == nullptr) {
    VKF_TRY(loader, open_loader());
    lookup = loader.lookup;
    adopted->library_ = loader.library;
  }
  adopted->owned_ = false;
  adopted->instance_ = static_cast<VkInstance>(instance);
  VKF_CHECK_OK(adopted->functions_.load_global(lookup));
  VKF_CHECK_OK(adopted->functions_.load_instance(adopted->instance_));
  VKF_CHECK_OK(adopted->find_devices());
  return adopted;
}

Result<std::size_t> Instance::index_of(void* physical_device) const {
  const auto found =
      std::find(physical_devices_.begin(), physical_devices_.end(), static_cast<VkPhysicalDevice>(physical_device));
  if (found == physical_devices_.end())
    return invalid("The physical device that is lent is none of its instance, or offers less than Vulkan 1.1.");
  return static_cast<std::size_t>(found - physical_devices_.begin());
}

Result<std::shared_ptr<Device>> Device::adopt(std::shared_ptr<const Instance> instance,
                                              const ExternalDevice& external) {
  if (!external.physical_device || !external.device || !external.queue) {
    return invalid("A device is lent with a null physical device, device or queue.");
  }
  if (!external.lock_queue != !external.unlock_queue)
    return invalid("A queue is lent with only one of the two functions that lock and unlock it.");
  if (!external.allocator.allocate != !external.allocator.release)
    return invalid("Memory is lent with only one of the two functions that allocate and release it.");
  std::shared_ptr<Device> device(new Device);
  device->instance_ = std::move(instance);
  device->owned_ = false;
  VKF_CHECK_OK(device->use(external));
  return device;
}

Result<void> Device::use(const ExternalDevice& external) {
  const InstanceFunctions& vk = instance_->functions();
  const auto physical = static_cast<VkPhysicalDevice>(external.physical_device);
  const Enabled enabled{std::max(external.api_version, VK_API_VERSION_1_1),
                        static_cast<const VkDeviceCreateInfo*>(external.create_info)};
  VKF_TRY(info, describe_device(vk, physical, &enabled));
  info_ = std::move(info);
  VKF_TRY(family, queue_family_at(vk, physical, external.queue_family));
  queue_family_ = family.index;
  timestamp_bits_ = family.timestamp_bits;
  device_ = static_cast<VkDevice>(external.device);
  VKF_CHECK_OK(functions_.load(vk, device_));
  queue_ = static_cast<VkQueue>(external.queue);
  queue_mutex_->with_host(external.lock_queue, external.unlock_queue);
  allocator_ = external.allocator;
  FeatureChain features;
  VKF_CHECK_OK(features.query(vk, physical, &enabled));
  push_descriptors_ = features.push_descriptors && functions_.CmdPushDescriptorSetKHR;
  find_exports(physical, features);
  return finish_opening(physical, features.timeline.timelineSemaphore);
}

Result<CommandBuffer> CommandBuffer::adopt(const std::shared_ptr<const Device>& device, void* command_buffer) {
  if (command_buffer == nullptr) return invalid("A VkCommandBuffer to append to is null.");
  CommandBuffer commands;
  commands.external_ = true;
  commands.pool_ = decltype(commands.pool_)(device, VkCommandPool(VK_NULL_HANDLE));
  commands.commands_ = static_cast<VkCommandBuffer>(command_buffer);
  return commands;
}

Result<Buffer> Buffer::wrap(const std::shared_ptr<const Device>& device, std::uint64_t handle, std::uint64_t bytes) {
  if (handle == 0 || bytes == 0) return invalid("A VkBuffer to wrap is null or has {} bytes.", bytes);
  Buffer buffer;
  buffer.buffer_ = decltype(buffer.buffer_)(device, VkBuffer(VK_NULL_HANDLE));
  buffer.handle_ = (VkBuffer)handle;  // a pointer or an integer, by platform: only this cast does both
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace vkfuse::vulkan

// Working on a device, and appending to command buffers, that belong to the host program.
#include "vulkan/command_buffer.hpp"
#include "vulkan/loader.hpp"
#include "vulkan/query.hpp"

namespace vkfuse::vulkan {
namespace {

// What a device is without any optional feature.
void drop_features(Caps& caps) {
  caps.subgroup_size_control = caps.full_subgroups = caps.subgroup_16bit = false;
  caps.subgroup_size_min = caps.subgroup_size_max = caps.subgroup_size;
  caps.storage_16bit = caps.storage_8bit = caps.float16 = false;
  caps.round_to_even_f16 = caps.keep_denorms_f16 = false;
  caps.dot_product_i8 = caps.dot_product_i8_accelerated = false;
  caps.matrix_shapes.clear();
  caps.matrix_bf16 = caps.matrix2_reductions = caps.matrix2_conversions = caps.matrix2_per_element = false;
  caps.matrix2_tensor_addressing = caps.matrix2_workgroup_scope = caps.matrix2_flexible = false;
  caps.int64 = caps.float64 = caps.int8 = caps.int16 = caps.executable_statistics = false;
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::adopt(void* instance, void* get_instance_proc_addr) {
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

Result<std::shared_ptr<Device>> Device::adopt(std::shared_ptr<const Instance> instance, const LentDevice& lent) {
  if (!lent.physical_device || !lent.device || !lent.queue) {
    return invalid("A device is lent with a null physical device, device or queue.");
  }
  std::shared_ptr<Device> device(new Device);
  device->instance_ = std::move(instance);
  device->owned_ = false;
  VKF_CHECK_OK(device->use(lent));
  return device;
}

Result<void> Device::use(const LentDevice& lent) {
  const InstanceFunctions& vk = instance_->functions();
  const auto physical = static_cast<VkPhysicalDevice>(lent.physical_device);
  VKF_TRY(info, describe_device(vk, physical));
  info_ = std::move(info);
  if (!lent.all_features) drop_features(info_.caps);
  VKF_TRY(family, queue_family_at(vk, physical, lent.queue_family));
  queue_family_ = family.index;
  timestamp_bits_ = family.timestamp_bits;
  device_ = static_cast<VkDevice>(lent.device);
  VKF_CHECK_OK(functions_.load(vk, device_));
  queue_ = static_cast<VkQueue>(lent.queue);
  if (lent.queue_mutex) queue_mutex_ = lent.queue_mutex;
  FeatureChain features;
  VKF_CHECK_OK(features.query(vk, physical));
  push_descriptors_ = lent.all_features && features.push_descriptors && functions_.CmdPushDescriptorSetKHR;
  return finish_opening(physical, lent.all_features && features.timeline.timelineSemaphore);
}

Result<CommandBuffer> CommandBuffer::adopt(const std::shared_ptr<const Device>& device, void* command_buffer) {
  if (command_buffer == nullptr) return invalid("A VkCommandBuffer to append to is null.");
  CommandBuffer commands;
  commands.lent_ = true;
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

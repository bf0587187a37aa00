#include "vulkan/device.hpp"

#include "base/background.hpp"
#include "vulkan/query.hpp"

namespace vkfuse::vulkan {

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<const Instance> instance, std::size_t index,
                                               const DeviceOptions& options) {
  if (index >= instance->devices().size()) {
    return invalid("There is no Vulkan device {}: this machine has {}.", index, instance->devices().size());
  }
  std::shared_ptr<Device> device(new Device);
  device->instance_ = std::move(instance);
  if (Result<void> opened = device->open(index, options); !opened.ok()) {
    return std::move(opened).error().within(fmt::format("opening the device '{}'", device->info_.name));
  }
  return device;
}

Result<void> Device::open(std::size_t index, const DeviceOptions& options) {
  const InstanceFunctions& vk = instance_->functions();
  const VkPhysicalDevice physical = instance_->physical_device(index);
  info_ = instance_->devices()[index];
  FeatureChain features;
  VKF_CHECK_OK(features.query(vk, physical));
  VKF_TRY(family, choose_queue_family(vk, physical));
  queue_family_ = family.index;
  timestamp_bits_ = family.timestamp_bits;

  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &features.core;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(features.extensions.size());
  info.ppEnabledExtensionNames = features.extensions.data();
  VkDevice device = VK_NULL_HANDLE;
  VKF_CHECK_OK(vk.call(vk.CreateDevice, physical, &info, nullptr, &device));
  device_ = device;
  VKF_CHECK_OK(functions_.load(vk, device_));
  if (options.faults != nullptr) functions_.faults = options.faults;
  functions_.GetDeviceQueue(device_, queue_family_, 0u, &queue_);

  push_descriptors_ = options.push_descriptors && features.push_descriptors && functions_.CmdPushDescriptorSetKHR;
  map_device_memory_ = options.map_device_memory;
  find_exports(physical, features);
  return finish_opening(physical, options.timeline && features.timeline.timelineSemaphore);
}

void Device::find_exports(VkPhysicalDevice physical, const FeatureChain& features) {
  const InstanceFunctions& vk = instance_->functions();
  if (features.memory_fd && functions_.GetMemoryFdKHR && vk.GetPhysicalDeviceExternalBufferProperties) {
    VkPhysicalDeviceExternalBufferInfo info{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
    info.usage = kBufferUsage;
    info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkExternalBufferProperties found{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    vk.GetPhysicalDeviceExternalBufferProperties(physical, &info, &found);
    const VkExternalMemoryFeatureFlags can = found.externalMemoryProperties.externalMemoryFeatures;
    if (can & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) {
      exports_.memory =
          can & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT ? MemoryExport::dedicated : MemoryExport::any;
    }
  }
  if (!features.semaphore_fd || !features.timeline.timelineSemaphore || !functions_.GetSemaphoreFdKHR ||
      !vk.GetPhysicalDeviceExternalSemaphoreProperties) {
    return;
  }
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkPhysicalDeviceExternalSemaphoreInfo info{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO};
  info.pNext = &type;
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkExternalSemaphoreProperties found{VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
  vk.GetPhysicalDeviceExternalSemaphoreProperties(physical, &info, &found);
  exports_.timelines = (found.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT) != 0;
}

Result<void> Device::finish_opening(VkPhysicalDevice physical, bool timeline) {
  end_before_drivers();
  if (owned_) {
    at_end_.emplace([this] {
      const std::lock_guard lock(*queue_mutex_);
      // As in the destructor: an idle queue is left alone.
      if (submitted_ != 0) functions_.QueueWaitIdle(queue_);
    });
  }
  instance_->functions().GetPhysicalDeviceMemoryProperties(physical, &memory_);
  if (timeline && functions_.WaitSemaphores) VKF_CHECK_OK(make_timeline());
  return {};
}

Result<void> Device::make_timeline() {
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  return functions_.call(functions_.CreateSemaphore, device_, &info, nullptr, &timeline_);
}

Result<void> Device::wait_idle() {
  const std::lock_guard lock(*queue_mutex_);
  return functions_.call(functions_.QueueWaitIdle, queue_);
}

// Past the seam: a planned fault must not skip the wait that keeps memory alive.
void Device::drain() const {
  if (!functions_.process.is_this()) return;
  const std::lock_guard lock(*queue_mutex_);
  functions_.QueueWaitIdle(queue_);
}

Device::~Device() {
  at_end_.reset();
  if (device_ == VK_NULL_HANDLE || !functions_.DestroyDevice || !functions_.process.is_this()) return;
  // A host may have submitted what was recorded for it. An idle queue of our own is left alone: drivers
  // that only compile have none that could be waited for.
  if (queue_ != VK_NULL_HANDLE && (submitted_ != 0 || !owned_)) drain();
  if (timeline_ != VK_NULL_HANDLE) functions_.DestroySemaphore(device_, timeline_, nullptr);
  if (owned_) functions_.DestroyDevice(device_, nullptr);
}

}  // namespace vkfuse::vulkan

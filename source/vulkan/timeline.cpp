#include "vulkan/timeline.hpp"

#include <algorithm>

namespace vkfuse::vulkan {

Result<Timeline> Timeline::create(const std::shared_ptr<const Device>& device) {
  if (!device->has_timeline()) return unsupported("The device '{}' has no timeline semaphores.", device->info().name);
  VkExportSemaphoreCreateInfo exported{VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO};
  exported.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  if (device->exports_timelines()) type.pNext = &exported;
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  VKF_TRY(semaphore, Semaphore::create(device, device->functions().CreateSemaphore, info));
  return Timeline(std::move(semaphore));
}

Result<void> Timeline::signal(std::uint64_t value) const {
  VkSemaphoreSignalInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  info.semaphore = handle();
  info.value = value;
  const DeviceFunctions& vk = device()->functions();
  return vk.call(vk.SignalSemaphore, device()->handle(), &info);
}

Result<bool> Timeline::wait(std::uint64_t value, std::chrono::nanoseconds time) const {
  const VkSemaphore semaphore = handle();
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  const DeviceFunctions& vk = device()->functions();
  const auto left = static_cast<std::uint64_t>(std::max(time, std::chrono::nanoseconds::zero()).count());
  const VkResult result = vk.raw(vk.WaitSemaphores, device()->handle(), &info, left);
  if (result == VK_SUCCESS || result == VK_TIMEOUT) return result == VK_SUCCESS;
  return Calls::failure("vkWaitSemaphores", result);
}

Result<std::uint64_t> Timeline::value() const {
  std::uint64_t now = 0;
  const DeviceFunctions& vk = device()->functions();
  VKF_CHECK_OK(vk.call(vk.GetSemaphoreCounterValue, device()->handle(), handle(), &now));
  return now;
}

Result<int> Timeline::export_fd() const {
  if (!device()->exports_timelines())
    return unsupported("The device '{}' does not share timeline semaphores (VK_KHR_external_semaphore_fd).",
                       device()->info().name);
  VkSemaphoreGetFdInfoKHR info{VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR};
  info.semaphore = handle();
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  int made = -1;
  const DeviceFunctions& vk = device()->functions();
  VKF_CHECK_OK(vk.call(vk.GetSemaphoreFdKHR, device()->handle(), &info, &made));
  return made;
}

}  // namespace vkfuse::vulkan

// The table through which every Vulkan call goes: entries are looked up at run time, failures
// become errors that name the call, and tests make any call fail.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/forked.hpp"
#include "vulkan/vulkan_compat.hpp"

namespace vkfuse::vulkan {

/// Makes one call fail without reaching the driver. Counts only calls that return a VkResult, and
/// of the polls of one wait, whose number varies, only the first. Owned by the test, and outlives
/// every object made while it is installed.
struct FaultPlan {
  int fail_call = -1;  ///< counted from 0; negative: only count
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  std::atomic<int> calls = 0;
  std::atomic<const char*> failed_call = nullptr;  ///< name of the call that was made to fail
};

/// In place of a call that a forked child makes, whose drivers and their threads are the parent's, or one made while
/// the process exits.
inline constexpr auto kForked = static_cast<VkResult>(-1'000'900'001);

/// "VK_ERROR_DEVICE_LOST", or "VkResult -1234" for one this table does not know.
std::string name_of(VkResult result);

/// One entry of the table. Calls that return nothing are made through operator(); those that
/// return a VkResult go through Calls::call or Calls::raw.
template <typename Pointer>
struct Command {
  const char* name;
  Pointer pointer = nullptr;

  explicit operator bool() const { return pointer != nullptr; }
  template <typename... Args>
  auto operator()(Args... args) const {
    return pointer(args...);
  }
};

/// Makes calls, turning results into errors. Not copyable: `lost` is the device's own.
class Calls {
 public:
  /// The VkResult itself, for calls whose positive results mean something (a poll, a timeout).
  template <typename Pointer, typename... Args>
  VkResult raw(const Command<Pointer>& command, Args... args) const {
    VkResult result = VK_ERROR_EXTENSION_NOT_PRESENT;
    if (!process.is_this()) return kForked;
    if (faults != nullptr && injected(command.name, result)) return noted(result);
    if (command) result = command.pointer(args...);
    return noted(result);
  }

  /// raw() for a poll that is not the first of its wait: no fault is planned for it.
  template <typename Pointer, typename... Args>
  VkResult repeat(const Command<Pointer>& command, Args... args) const {
    return process.is_this() ? noted(command.pointer(args...)) : kForked;
  }

  /// Success, or a sentence with the name of the call and of the result.
  template <typename Pointer, typename... Args>
  Result<void> call(const Command<Pointer>& command, Args... args) const {
    const VkResult result = raw(command, args...);
    if (result == VK_SUCCESS) return {};
    return failure(command.name, result);
  }

  /// The whole list of a call that counts first and fills then; it may grow in between.
  template <typename T, typename Pointer, typename... Args>
  Result<std::vector<T>> list(const T& blank, const Command<Pointer>& command, Args... args) const {
    for (;;) {
      std::uint32_t count = 0;
      VKF_CHECK_OK(call(command, args..., &count, static_cast<T*>(nullptr)));
      std::vector<T> items(count, blank);
      const VkResult result = raw(command, args..., &count, items.data());
      if (result == VK_INCOMPLETE) continue;
      if (result != VK_SUCCESS) return failure(command.name, result);
      items.resize(count);
      return items;
    }
  }

  static Error failure(const char* name, VkResult result);

  OwnProcess process;  ///< the only one that may call
  FaultPlan* faults = nullptr;
  mutable std::atomic<bool> lost = false;  ///< sticky: some call has returned VK_ERROR_DEVICE_LOST

 private:
  bool injected(const char* name, VkResult& result) const;
  VkResult noted(VkResult result) const {
    if (result == VK_ERROR_DEVICE_LOST) lost.store(true, std::memory_order_relaxed);
    return result;
  }
};

#define VKF_GLOBAL_COMMANDS(X)            \
  X(CreateInstance)                       \
  X(EnumerateInstanceExtensionProperties) \
  X(EnumerateInstanceLayerProperties)     \
  X(EnumerateInstanceVersion)

#define VKF_INSTANCE_COMMANDS(X)            \
  X(DestroyInstance)                        \
  X(EnumeratePhysicalDevices)               \
  X(GetPhysicalDeviceProperties)            \
  X(GetPhysicalDeviceProperties2)           \
  X(GetPhysicalDeviceFeatures2)             \
  X(GetPhysicalDeviceMemoryProperties)      \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(EnumerateDeviceExtensionProperties)     \
  X(CreateDevice)                           \
  X(GetDeviceProcAddr)

#define VKF_OPTIONAL_INSTANCE_COMMANDS(X)            \
  X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR) \
  X(GetPhysicalDeviceExternalBufferProperties)       \
  X(GetPhysicalDeviceExternalSemaphoreProperties)    \
  X(CreateDebugUtilsMessengerEXT)                    \
  X(DestroyDebugUtilsMessengerEXT)

#define VKF_DEVICE_COMMANDS(X)   \
  X(DestroyDevice)               \
  X(GetDeviceQueue)              \
  X(QueueWaitIdle)               \
  X(QueueSubmit)                 \
  X(AllocateMemory)              \
  X(FreeMemory)                  \
  X(MapMemory)                   \
  X(CreateBuffer)                \
  X(DestroyBuffer)               \
  X(GetBufferMemoryRequirements) \
  X(BindBufferMemory)            \
  X(CreateFence)                 \
  X(DestroyFence)                \
  X(GetFenceStatus)              \
  X(WaitForFences)               \
  X(CreateSemaphore)             \
  X(DestroySemaphore)            \
  X(CreateQueryPool)             \
  X(DestroyQueryPool)            \
  X(GetQueryPoolResults)         \
  X(CreateShaderModule)          \
  X(DestroyShaderModule)         \
  X(CreatePipelineCache)         \
  X(DestroyPipelineCache)        \
  X(GetPipelineCacheData)        \
  X(CreateComputePipelines)      \
  X(DestroyPipeline)             \
  X(CreatePipelineLayout)        \
  X(DestroyPipelineLayout)       \
  X(CreateDescriptorSetLayout)   \
  X(DestroyDescriptorSetLayout)  \
  X(CreateDescriptorPool)        \
  X(DestroyDescriptorPool)       \
  X(ResetDescriptorPool)         \
  X(AllocateDescriptorSets)      \
  X(UpdateDescriptorSets)        \
  X(CreateCommandPool)           \
  X(DestroyCommandPool)          \
  X(ResetCommandPool)            \
  X(AllocateCommandBuffers)      \
  X(BeginCommandBuffer)          \
  X(EndCommandBuffer)            \
  X(CmdBindPipeline)             \
  X(CmdBindDescriptorSets)       \
  X(CmdPushConstants)            \
  X(CmdDispatch)                 \
  X(CmdCopyBuffer)               \
  X(CmdFillBuffer)               \
  X(CmdPipelineBarrier)          \
  X(CmdResetQueryPool)           \
  X(CmdWriteTimestamp)

#define VKF_OPTIONAL_DEVICE_COMMANDS(X) \
  X(GetSemaphoreCounterValue)           \
  X(WaitSemaphores)                     \
  X(SignalSemaphore)                    \
  X(GetMemoryFdKHR)                     \
  X(GetSemaphoreFdKHR)                  \
  X(CmdPushDescriptorSetKHR)            \
  X(GetPipelineExecutablePropertiesKHR) \
  X(GetPipelineExecutableStatisticsKHR) \
  X(GetPipelineExecutableInternalRepresentationsKHR)

#define VKF_DECLARE_COMMAND(name) Command<PFN_vk##name> name{"vk" #name};

/// Calls that need no instance, then those of one instance.
struct InstanceFunctions : Calls {
  VKF_GLOBAL_COMMANDS(VKF_DECLARE_COMMAND)
  VKF_INSTANCE_COMMANDS(VKF_DECLARE_COMMAND)
  VKF_OPTIONAL_INSTANCE_COMMANDS(VKF_DECLARE_COMMAND)
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;

  /// Fills the first group; an error names an entry that is missing.
  Result<void> load_global(PFN_vkGetInstanceProcAddr lookup);
  /// Fills the rest.
  Result<void> load_instance(VkInstance instance);
};

/// Calls of one device, looked up without the loader's trampolines.
struct DeviceFunctions : Calls {
  VKF_DEVICE_COMMANDS(VKF_DECLARE_COMMAND)
  VKF_OPTIONAL_DEVICE_COMMANDS(VKF_DECLARE_COMMAND)

  Result<void> load(const InstanceFunctions& instance, VkDevice device);
};

#undef VKF_DECLARE_COMMAND

}  // namespace vkfuse::vulkan

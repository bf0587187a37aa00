#include "vulkan/functions.hpp"

#include <string>

namespace vkfuse::vulkan {
namespace {

ErrorCode code_of(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_TOO_MANY_OBJECTS: return ErrorCode::out_of_memory;
    case VK_ERROR_DEVICE_LOST: return ErrorCode::device_lost;
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_LAYER_NOT_PRESENT: return ErrorCode::unsupported;
    case VK_ERROR_INCOMPATIBLE_DRIVER: return ErrorCode::no_device;
    default: return ErrorCode::device_error;
  }
}

template <typename Pointer>
Result<void> require(const Command<Pointer>& command) {
  if (command) return {};
  return make_error(ErrorCode::no_device, "The Vulkan loader or driver does not offer {}, which Vulkan 1.1 has.",
                    command.name);
}

}  // namespace

std::string name_of(VkResult result) {
#define VKF_NAME(value) \
  case value: return #value
  switch (result) {
    VKF_NAME(VK_SUCCESS);
    VKF_NAME(VK_NOT_READY);
    VKF_NAME(VK_TIMEOUT);
    VKF_NAME(VK_INCOMPLETE);
    VKF_NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
    VKF_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    VKF_NAME(VK_ERROR_INITIALIZATION_FAILED);
    VKF_NAME(VK_ERROR_DEVICE_LOST);
    VKF_NAME(VK_ERROR_MEMORY_MAP_FAILED);
    VKF_NAME(VK_ERROR_LAYER_NOT_PRESENT);
    VKF_NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
    VKF_NAME(VK_ERROR_FEATURE_NOT_PRESENT);
    VKF_NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
    VKF_NAME(VK_ERROR_TOO_MANY_OBJECTS);
    VKF_NAME(VK_ERROR_FRAGMENTED_POOL);
    VKF_NAME(VK_ERROR_UNKNOWN);
    VKF_NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
    VKF_NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
    VKF_NAME(VK_ERROR_INVALID_SHADER_NV);
    default: return fmt::format("VkResult {}", static_cast<int>(result));
  }
#undef VKF_NAME
}

Error Calls::failure(const char* name, VkResult result) {
  if (result == kForked && is_exiting())
    return unsupported(
        "The process is exiting, and drivers are taking themselves apart: nothing runs on a device any more.");
  if (result == kForked) {
    return unsupported(
        "This process was forked from the one that opened the device, and Vulkan drivers do not survive a fork: open "
        "devices after it, or let the child exec.");
  }
  return make_error(code_of(result), "{} failed with {}.", name, name_of(result));
}

bool Calls::injected(const char* name, VkResult& result) const {
  if (faults->calls.fetch_add(1) != faults->fail_call) return false;
  faults->failed_call = name;
  result = faults->result;
  return true;
}

Result<void> InstanceFunctions::load_global(PFN_vkGetInstanceProcAddr lookup) {
  get_instance_proc_addr = lookup;
#define VKF_LOAD(entry)                                                          \
  entry.pointer = reinterpret_cast<PFN_vk##entry>(lookup(nullptr, "vk" #entry)); \
  VKF_CHECK_OK(require(entry));
  VKF_GLOBAL_COMMANDS(VKF_LOAD)
#undef VKF_LOAD
  return {};
}

Result<void> InstanceFunctions::load_instance(VkInstance instance) {
#define VKF_LOAD(entry) entry.pointer = reinterpret_cast<PFN_vk##entry>(get_instance_proc_addr(instance, "vk" #entry));
#define VKF_LOAD_REQUIRED(entry) VKF_LOAD(entry) VKF_CHECK_OK(require(entry));
  VKF_INSTANCE_COMMANDS(VKF_LOAD_REQUIRED)
  VKF_OPTIONAL_INSTANCE_COMMANDS(VKF_LOAD)
#undef VKF_LOAD_REQUIRED
#undef VKF_LOAD
  return {};
}

Result<void> DeviceFunctions::load(const InstanceFunctions& instance, VkDevice device) {
  faults = instance.faults;
  const auto lookup = [&](const std::string& name) { return instance.GetDeviceProcAddr(device, name.c_str()); };
  // What is core in a later version goes by its KHR name on a 1.1 device.
#define VKF_LOAD(entry)                                                 \
  entry.pointer = reinterpret_cast<PFN_vk##entry>(lookup("vk" #entry)); \
  if (!entry) entry.pointer = reinterpret_cast<PFN_vk##entry>(lookup("vk" #entry "KHR"));
#define VKF_LOAD_REQUIRED(entry) VKF_LOAD(entry) VKF_CHECK_OK(require(entry));
  VKF_DEVICE_COMMANDS(VKF_LOAD_REQUIRED)
  VKF_OPTIONAL_DEVICE_COMMANDS(VKF_LOAD)
#undef VKF_LOAD_REQUIRED
#undef VKF_LOAD
  return {};
}

}  // namespace vkfuse::vulkan

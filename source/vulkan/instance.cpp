#include "vulkan/instance.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vulkan/loader.hpp"
#include "vulkan/query.hpp"

namespace vkfuse::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr const char* kPortabilityEnumeration = "VK_KHR_portability_enumeration";
constexpr VkInstanceCreateFlags kEnumeratePortability = 1;  // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR

bool validation_requested(const InstanceOptions& options) {
  const char* value = std::getenv("VKFUSE_VALIDATE");
  return options.validate || (value && std::strcmp(value, "1") == 0);
}

VKAPI_ATTR VkBool32 VKAPI_CALL report(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT,
                                      const VkDebugUtilsMessengerCallbackDataEXT* data, void* counter) {
  if (severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT) {
    static_cast<std::atomic<int>*>(counter)->fetch_add(1);
    std::fprintf(stderr, "vkfuse: validation: %s\n", data->pMessage);
  }
  return VK_FALSE;
}

Error no_driver(const std::string& library, VkResult result) {
  return make_error(ErrorCode::no_device,
                    "The Vulkan loader {} found no usable driver ({}); install one, or point VK_DRIVER_FILES or "
                    "VK_ICD_FILENAMES at its manifest.",
                    library, name_of(result));
}

struct Requested {
  std::vector<const char*> layers;
  std::vector<const char*> extensions;
  VkInstanceCreateFlags flags = 0;
};

Result<Requested> choose(const InstanceFunctions& vk, bool validate) {
  Requested requested;
  VKF_TRY(extensions,
          vk.list(VkExtensionProperties{}, vk.EnumerateInstanceExtensionProperties, static_cast<const char*>(nullptr)));
  if (has_extension(extensions, kPortabilityEnumeration)) {
    requested.extensions.push_back(kPortabilityEnumeration);
    requested.flags |= kEnumeratePortability;
  }
  if (!validate) return requested;
  VKF_TRY(layers, vk.list(VkLayerProperties{}, vk.EnumerateInstanceLayerProperties));
  const bool installed = std::any_of(layers.begin(), layers.end(), [](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, kValidationLayer) == 0;
  });
  // A run that was meant to be validated and was not would prove nothing: refuse.
  if (!installed) return unsupported("Validation is asked for, but the layer {} is not installed.", kValidationLayer);
  requested.layers.push_back(kValidationLayer);
  requested.extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  return requested;
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::create(const InstanceOptions& options) {
  std::shared_ptr<Instance> instance(new Instance);
  VKF_CHECK_OK(instance->open(options));
  VKF_CHECK_OK(instance->find_devices());
  return instance;
}

Result<void> Instance::open(const InstanceOptions& options) {
  VKF_TRY(loader, open_loader(options.library));
  library_ = loader.library;
  functions_.faults = options.faults;
  VKF_CHECK_OK(functions_.load_global(loader.lookup));
  std::uint32_t loader_version = 0;
  VKF_CHECK_OK(functions_.call(functions_.EnumerateInstanceVersion, &loader_version));
  if (loader_version < VK_API_VERSION_1_1) {
    return make_error(ErrorCode::no_device, "The Vulkan loader {} offers {}; vkfuse needs 1.1.", library_,
                      version_text(loader_version));
  }
  VKF_TRY(requested, choose(functions_, validation_requested(options)));
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pEngineName = "vkfuse";
  application.apiVersion = VK_API_VERSION_1_3;  // the highest whose features are known here
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.flags = requested.flags;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = static_cast<std::uint32_t>(requested.layers.size());
  info.ppEnabledLayerNames = requested.layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(requested.extensions.size());
  info.ppEnabledExtensionNames = requested.extensions.data();
  const VkResult result = functions_.raw(functions_.CreateInstance, &info, nullptr, &instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) return no_driver(library_, result);
  if (result != VK_SUCCESS) return Calls::failure("vkCreateInstance", result);
  VKF_CHECK_OK(functions_.load_instance(instance_));
  // Without a messenger nobody would count what the layer finds.
  return requested.layers.empty() ? Result<void>() : start_messenger();
}

Result<void> Instance::start_messenger() {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = report;
  info.pUserData = &validation_errors_;
  return functions_.call(functions_.CreateDebugUtilsMessengerEXT, instance_, &info, nullptr, &messenger_);
}

Result<void> Instance::find_devices() {
  VKF_TRY(all, functions_.list(VkPhysicalDevice{}, functions_.EnumeratePhysicalDevices, instance_));
  std::string too_old;
  for (VkPhysicalDevice physical : all) {
    VkPhysicalDeviceProperties properties{};
    functions_.GetPhysicalDeviceProperties(physical, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_1) {
      too_old = fmt::format("{} (Vulkan {})", properties.deviceName, version_text(properties.apiVersion));
      continue;
    }
    VKF_TRY(info, describe_device(functions_, physical));
    physical_devices_.push_back(physical);
    devices_.push_back(std::move(info));
  }
  if (!devices_.empty()) return {};
  if (too_old.empty()) return no_driver(library_, VK_SUCCESS);
  return make_error(ErrorCode::no_device, "No Vulkan device offers Vulkan 1.1, which vkfuse needs; found {}.", too_old);
}

Instance::~Instance() {
  if (!owned_ || instance_ == VK_NULL_HANDLE || !functions_.DestroyInstance || !functions_.process.is_this()) return;
  if (messenger_ != VK_NULL_HANDLE) functions_.DestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  functions_.DestroyInstance(instance_, nullptr);
}

}  // namespace vkfuse::vulkan

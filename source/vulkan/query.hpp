// Asking a physical device what it can do; the same chain of features then opens it.
#pragma once

#include <vector>

#include "vulkan/device_info.hpp"
#include "vulkan/functions.hpp"

namespace vkfuse::vulkan {

bool has_extension(const std::vector<VkExtensionProperties>& extensions, const char* name);

/// "1.3.230".
std::string version_text(std::uint32_t version);

/// What a host program has enabled on a device that it lends.
struct Enabled {
  std::uint32_t api_version = VK_API_VERSION_1_1;  ///< that its instance was made for
  const VkDeviceCreateInfo* info = nullptr;        ///< null: no feature and no extension
};

/// Name, limits and features; of a device that is lent, those that its host has enabled.
Result<DeviceInfo> describe_device(const InstanceFunctions& vk, VkPhysicalDevice device,
                                   const Enabled* enabled = nullptr);

struct QueueFamily {
  std::uint32_t index = 0;
  std::uint32_t timestamp_bits = 0;  ///< 0: no timestamps
  bool compute_only = false;
};

/// A family that computes and does not draw where there is one (its work runs beside the
/// desktop's), else the first that computes.
Result<QueueFamily> choose_queue_family(const InstanceFunctions& vk, VkPhysicalDevice device);

/// That family; invalid_argument when there is none or it does not compute.
Result<QueueFamily> queue_family_at(const InstanceFunctions& vk, VkPhysicalDevice device, std::uint32_t index);

/// Every feature vkfuse knows how to use, as one pNext chain. A structure is linked only when the
/// device's version or extensions define it. Not copyable: the chain points into itself.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDevice16BitStorageFeatures storage16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features float16_int8{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures subgroup_types{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  VkPhysicalDeviceScalarBlockLayoutFeatures scalar_layout{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES};
  VkPhysicalDeviceMaintenance4Features maintenance4{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES};  // SPIR-V 1.6: sizes by specialisation
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_product{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR};
  bool push_descriptors = false;
  bool memory_fd = false;               ///< memory can be exported as a file descriptor
  bool semaphore_fd = false;            ///< and so can semaphores
  std::vector<const char*> extensions;  ///< to enable along with the chain

  FeatureChain() = default;
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  /// Links, asks the device, and clears what vkfuse does not want (robustness costs speed) and what is not enabled.
  Result<void> query(const InstanceFunctions& vk, VkPhysicalDevice device, const Enabled* enabled = nullptr);

 private:
  bool enable_offered(const std::vector<VkExtensionProperties>& offered, const char* extension);
};

}  // namespace vkfuse::vulkan

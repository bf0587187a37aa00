#include "vulkan/enabled.hpp"

#include <cstring>

namespace vkfuse::vulkan {
namespace {

constexpr std::size_t kHeader = sizeof(VkBaseOutStructure);  // type, next; a structure's flags follow

/// The host's own structure of this type, or null.
template <typename T>
const T* find(const VkDeviceCreateInfo* info, VkStructureType type) {
  if (info == nullptr) return nullptr;
  for (auto* next = static_cast<const VkBaseInStructure*>(info->pNext); next != nullptr; next = next->pNext) {
    if (next->sType == type) return reinterpret_cast<const T*>(next);
  }
  return nullptr;
}

/// Flags of ours that are not the host's are cleared: a structure of features is nothing but VkBool32 after its header.
template <typename T>
void keep(const VkDeviceCreateInfo* info, T& ours) {
  const T* theirs = find<T>(info, ours.sType);
  constexpr std::size_t count = (sizeof(T) - kHeader) / sizeof(VkBool32);
  VkBool32 flags[count];
  std::memcpy(flags, reinterpret_cast<const std::byte*>(&ours) + kHeader, sizeof flags);
  VkBool32 on[count] = {};
  if (theirs != nullptr) std::memcpy(on, reinterpret_cast<const std::byte*>(theirs) + kHeader, sizeof on);
  for (std::size_t i = 0; i < count; ++i) flags[i] = flags[i] != VK_FALSE && on[i] != VK_FALSE ? VK_TRUE : VK_FALSE;
  std::memcpy(reinterpret_cast<std::byte*>(&ours) + kHeader, flags, sizeof flags);
}

/// Flag `member` of the structure `T`, if the host has one.
template <typename T>
bool flag(const VkDeviceCreateInfo* info, VkStructureType type, VkBool32 T::*member) {
  const T* theirs = find<T>(info, type);
  return theirs != nullptr && theirs->*member != VK_FALSE;
}

/// The same of the structures that gather the features of a version.
using V11 = VkPhysicalDeviceVulkan11Features;
using V12 = VkPhysicalDeviceVulkan12Features;
using V13 = VkPhysicalDeviceVulkan13Features;
bool gathered(const VkDeviceCreateInfo* info, VkBool32 V11::*member) {
  return flag(info, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, member);
}
bool gathered(const VkDeviceCreateInfo* info, VkBool32 V12::*member) {
  return flag(info, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, member);
}
bool gathered(const VkDeviceCreateInfo* info, VkBool32 V13::*member) {
  return flag(info, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, member);
}

/// Features of Vulkan 1.0, which a host enables in one of two ways.
VkPhysicalDeviceFeatures core_features(const VkDeviceCreateInfo* info) {
  const auto* second = find<VkPhysicalDeviceFeatures2>(info, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  if (second != nullptr) return second->features;
  if (info != nullptr && info->pEnabledFeatures != nullptr) return *info->pEnabledFeatures;
  return {};
}

}  // namespace

std::vector<VkExtensionProperties> enabled_extensions(const Enabled& enabled) {
  std::vector<VkExtensionProperties> all;
  if (enabled.info == nullptr) return all;
  for (std::uint32_t i = 0; i < enabled.info->enabledExtensionCount; ++i) {
    VkExtensionProperties one{};
    std::strncpy(one.extensionName, enabled.info->ppEnabledExtensionNames[i], VK_MAX_EXTENSION_NAME_SIZE - 1);
    all.push_back(one);
  }
  return all;
}

void keep_enabled(const Enabled& enabled, FeatureChain& features) {
  const VkDeviceCreateInfo* info = enabled.info;
  const auto in = [info](auto member) { return gathered(info, member); };
  const auto both = [info](auto& ours, auto member, bool in_version) {
    const bool on = flag(info, ours.sType, member) || in_version;
    ours.*member = ours.*member != VK_FALSE && on ? VK_TRUE : VK_FALSE;
  };
  const VkPhysicalDeviceFeatures core = core_features(info);
  VkPhysicalDeviceFeatures& ours = features.core.features;
  ours.shaderInt16 = ours.shaderInt16 && core.shaderInt16;
  ours.shaderInt64 = ours.shaderInt64 && core.shaderInt64;
  ours.shaderFloat64 = ours.shaderFloat64 && core.shaderFloat64;

  both(features.storage16, &VkPhysicalDevice16BitStorageFeatures::storageBuffer16BitAccess,
       in(&V11::storageBuffer16BitAccess));
  both(features.storage8, &VkPhysicalDevice8BitStorageFeatures::storageBuffer8BitAccess,
       in(&V12::storageBuffer8BitAccess));
  both(features.float16_int8, &VkPhysicalDeviceShaderFloat16Int8Features::shaderFloat16, in(&V12::shaderFloat16));
  both(features.float16_int8, &VkPhysicalDeviceShaderFloat16Int8Features::shaderInt8, in(&V12::shaderInt8));
  both(features.subgroup_types, &VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures::shaderSubgroupExtendedTypes,
       in(&V12::shaderSubgroupExtendedTypes));
  both(features.timeline, &VkPhysicalDeviceTimelineSemaphoreFeatures::timelineSemaphore, in(&V12::timelineSemaphore));
  both(features.memory_model, &VkPhysicalDeviceVulkanMemoryModelFeatures::vulkanMemoryModel,
       in(&V12::vulkanMemoryModel));
  both(features.scalar_layout, &VkPhysicalDeviceScalarBlockLayoutFeatures::scalarBlockLayout,
       in(&V12::scalarBlockLayout));
  both(features.maintenance4, &VkPhysicalDeviceMaintenance4Features::maintenance4, in(&V13::maintenance4));
  both(features.subgroup_size, &VkPhysicalDeviceSubgroupSizeControlFeatures::subgroupSizeControl,
       in(&V13::subgroupSizeControl));
  both(features.subgroup_size, &VkPhysicalDeviceSubgroupSizeControlFeatures::computeFullSubgroups,
       in(&V13::computeFullSubgroups));
  both(features.dot_product, &VkPhysicalDeviceShaderIntegerDotProductFeatures::shaderIntegerDotProduct,
       in(&V13::shaderIntegerDotProduct));
  // Of no version.
  keep(info, features.executables);
  keep(info, features.matrix);
  keep(info, features.matrix2);
  keep(info, features.bfloat16);
}

}  // namespace vkfuse::vulkan

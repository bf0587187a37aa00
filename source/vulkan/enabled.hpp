// What a host program has enabled on the device that it lends, as its VkDeviceCreateInfo says it.
#pragma once

#include "vulkan/query.hpp"

namespace vkfuse::vulkan {

std::vector<VkExtensionProperties> enabled_extensions(const Enabled& enabled);

/// Clears every feature of the chain that the host has not enabled, in a structure of its own or in one that gathers
/// those of a version.
void keep_enabled(const Enabled& enabled, FeatureChain& features);

}  // namespace vkfuse::vulkan

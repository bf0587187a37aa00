// Descriptor sets where there are no push descriptors.
#pragma once

#include <vector>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

/// Hands out sets of storage buffers from pools that it adds as they fill up.
class DescriptorArena {
 public:
  Result<VkDescriptorSet> allocate(const std::shared_ptr<const Device>& device, VkDescriptorSetLayout layout,
                                   std::uint32_t buffers);
  /// Takes every set back; the pools stay.
  Result<void> reset();

 private:
  Result<void> add_pool(const std::shared_ptr<const Device>& device, std::uint32_t buffers);

  std::vector<Handle<VkDescriptorPool, &DeviceFunctions::DestroyDescriptorPool>> pools_;
  std::size_t current_ = 0;
};

}  // namespace vkfuse::vulkan

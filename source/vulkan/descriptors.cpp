#include "vulkan/descriptors.hpp"

#include <algorithm>

namespace vkfuse::vulkan {
namespace {

constexpr std::uint32_t kSetsPerPool = 64;
constexpr std::uint32_t kBuffersPerPool = 512;

}  // namespace

Result<void> DescriptorArena::add_pool(const std::shared_ptr<const Device>& device, std::uint32_t buffers) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(kBuffersPerPool, buffers)};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = kSetsPerPool;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  using Pool = Handle<VkDescriptorPool, &DeviceFunctions::DestroyDescriptorPool>;
  VKF_TRY(pool, Pool::create(device, device->functions().CreateDescriptorPool, info));
  pools_.push_back(std::move(pool));
  return {};
}

Result<VkDescriptorSet> DescriptorArena::allocate(const std::shared_ptr<const Device>& device,
                                                  VkDescriptorSetLayout layout, std::uint32_t buffers) {
  const DeviceFunctions& vk = device->functions();
  for (;;) {
    const bool fresh = current_ == pools_.size();
    if (fresh) VKF_CHECK_OK(add_pool(device, buffers));
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorPool = pools_[current_].get();
    info.descriptorSetCount = 1;
    info.pSetLayouts = &layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    const VkResult result = vk.raw(vk.AllocateDescriptorSets, device->handle(), &info, &set);
    if (result == VK_SUCCESS) return set;
    const bool full = result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    if (!full || fresh) return Calls::failure("vkAllocateDescriptorSets", result);
    ++current_;
  }
}

Result<void> DescriptorArena::reset() {
  for (const auto& pool : pools_) {
    const DeviceFunctions& vk = pool.device()->functions();
    VKF_CHECK_OK(vk.call(vk.ResetDescriptorPool, pool.device()->handle(), pool.get(), VkDescriptorPoolResetFlags{0}));
  }
  current_ = 0;
  return {};
}

}  // namespace vkfuse::vulkan

#include "vulkan/pipeline_cache.hpp"

#include <algorithm>
#include <cstring>

namespace vkfuse::vulkan {
namespace {

bool is_of(const DeviceInfo& info, std::span<const std::byte> bytes) {
  VkPipelineCacheHeaderVersionOne header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.headerSize >= sizeof header && header.headerSize <= bytes.size() &&
         header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == info.vendor_id &&
         header.deviceID == info.device_id &&
         std::equal(info.pipeline_cache_uuid.begin(), info.pipeline_cache_uuid.end(), header.pipelineCacheUUID);
}

}  // namespace

Result<PipelineCache> PipelineCache::create(const std::shared_ptr<const Device>& device,
                                            std::span<const std::byte> initial) {
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  if (is_of(device->info(), initial)) {
    info.initialDataSize = initial.size();
    info.pInitialData = initial.data();
  }
  PipelineCache made;
  VKF_TRY(cache, decltype(made.cache_)::create(device, device->functions().CreatePipelineCache, info));
  made.cache_ = std::move(cache);
  return made;
}

Result<std::vector<std::byte>> PipelineCache::data() const {
  const Device& device = *cache_.device();
  const DeviceFunctions& vk = device.functions();
  for (;;) {
    std::size_t size = 0;
    VKF_CHECK_OK(vk.call(vk.GetPipelineCacheData, device.handle(), cache_.get(), &size, nullptr));
    std::vector<std::byte> bytes(size);
    const VkResult result = vk.raw(vk.GetPipelineCacheData, device.handle(), cache_.get(), &size, bytes.data());
    if (result == VK_INCOMPLETE) continue;  // it has grown meanwhile
    if (result != VK_SUCCESS) return Calls::failure("vkGetPipelineCacheData", result);
    bytes.resize(size <= sizeof(VkPipelineCacheHeaderVersionOne) ? 0 : size);
    return bytes;
  }
}

}  // namespace vkfuse::vulkan

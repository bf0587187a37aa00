#include "vulkan/timestamps.hpp"

namespace vkfuse::vulkan {

Result<TimestampPool> TimestampPool::create(const std::shared_ptr<const Device>& device, std::uint32_t count) {
  if (device->timestamp_bits() == 0) {
    return unsupported("The compute queue of the device '{}' has no timestamps.", device->info().name);
  }
  VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  TimestampPool pool;
  VKF_TRY(handle, decltype(pool.pool_)::create(device, device->functions().CreateQueryPool, info));
  pool.pool_ = std::move(handle);
  pool.count_ = count;
  return pool;
}

Result<std::vector<double>> TimestampPool::nanoseconds() const {
  const Device& device = *pool_.device();
  const DeviceFunctions& vk = device.functions();
  std::vector<std::uint64_t> ticks(count_);
  VKF_CHECK_OK(vk.call(vk.GetQueryPoolResults, device.handle(), pool_.get(), 0u, count_,
                       ticks.size() * sizeof(std::uint64_t), static_cast<void*>(ticks.data()),
                       VkDeviceSize{sizeof(std::uint64_t)}, VkQueryResultFlags{VK_QUERY_RESULT_64_BIT}));
  const std::uint32_t bits = device.timestamp_bits();
  const std::uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  std::vector<double> times;
  times.reserve(ticks.size());
  for (std::uint64_t tick : ticks) {
    times.push_back(static_cast<double>((tick - ticks.front()) & mask) *
                    static_cast<double>(device.caps().profiling.timestamp_period_ns));
  }
  return times;
}

}  // namespace vkfuse::vulkan

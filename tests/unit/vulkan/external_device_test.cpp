// A host that already has Vulkan lends it.
#include "unit/vulkan/fixture.hpp"
#include "vulkan/query.hpp"

namespace vkfuse::vulkan::test {
namespace {

ExternalDevice lend(const Device& host, const VkDeviceCreateInfo* info) {
  VkQueue queue = VK_NULL_HANDLE;
  host.functions().GetDeviceQueue(host.handle(), host.queue_family(), 0u, &queue);
  return {.physical_device = host.instance()->physical_device(0),
          .device = host.handle(),
          .queue = queue,
          .queue_family = host.queue_family(),
          .api_version = VK_API_VERSION_1_3,
          .create_info = info,
          .lock_queue = {},
          .unlock_queue = {},
          .allocator = {}};
}

class LendTest : public testing::TestWithParam<bool> {};

TEST_P(LendTest, KernelsRunOnALentDeviceWhichOutlivesThem) {
  const auto host = open_device();
  {
    const auto instance = must(Instance::adopt(host->instance()->handle()));
    FeatureChain features;
    must(features.query(host->instance()->functions(), host->instance()->physical_device(0)));
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = &features.core;
    info.enabledExtensionCount = static_cast<std::uint32_t>(features.extensions.size());
    info.ppEnabledExtensionNames = features.extensions.data();
    const auto device = must(Device::adopt(instance, lend(*host, GetParam() ? &info : nullptr)));
    EXPECT_EQ(device->has_timeline(), GetParam() && host->has_timeline());
    EXPECT_EQ(device->caps().arithmetic.int64, GetParam() && host->caps().arithmetic.int64);
    const auto add = must(VectorAdd::create(device));
    must(add->record());
    add->write_inputs(ramp(1), ramp(2));
    must(must(device->submit(add->commands)).wait());
    EXPECT_EQ(add->output(), expected(ramp(1), ramp(2)));
  }
  must(must(VectorAdd::create(host))->record());
}

INSTANTIATE_TEST_SUITE_P(Features, LendTest, testing::Bool());

TEST(LendingTest, RecordsIntoALentCommandBufferAndWrapsABuffer) {
  const auto device = open_device();
  CommandBuffer hosts = must(CommandBuffer::create(device));
  const Buffer owned = must(Buffer::create(device, 64, BufferKind::readback));
  const Buffer wrapped = must(Buffer::wrap(device, (std::uint64_t)owned.handle(), 64));
  must(hosts.begin());
  CommandBuffer appended = must(CommandBuffer::adopt(device, hosts.handle()));
  must(appended.begin());
  appended.fill({&wrapped}, 7);
  appended.barrier(Access::transfer, Access::host);
  must(appended.end());
  must(hosts.end());
  must(must(device->submit(hosts)).wait());
  EXPECT_EQ(owned.bytes()[60], std::byte{7});
  EXPECT_EQ(device->instance()->validation_errors(), 0);
}

TEST(LendingTest, NullsAreSentences) {
  const auto device = open_device();
  EXPECT_EQ(Instance::adopt(nullptr).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(Device::adopt(device->instance(), {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(CommandBuffer::adopt(device, nullptr).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(Buffer::wrap(device, 0, 16).error().code, ErrorCode::invalid_argument);
  ExternalDevice external = lend(*device, nullptr);
  external.queue_family = 77;
  EXPECT_EQ(Device::adopt(device->instance(), external).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace vkfuse::vulkan::test

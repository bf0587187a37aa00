// What is known of devices and pipelines.
#include "unit/vulkan/fixture.hpp"

namespace vkfuse::vulkan::test {
namespace {

TEST(DeviceInfoTest, CapsAreThoseOfTheDriver) {
  const auto instance = must(Instance::create());
  ASSERT_FALSE(instance->devices().empty());
  for (const DeviceInfo& info : instance->devices()) {
    const Caps& caps = info.caps;
    EXPECT_FALSE(info.name.empty());
    EXPECT_EQ(to_text(info.device_uuid).size(), 32u);
    EXPECT_GE(caps.workgroup.max_invocations, 128u);
    EXPECT_GE(caps.memory.storage_buffers, 4u);
    EXPECT_GE(caps.memory.push_constant_bytes, 128u);
    EXPECT_GE(caps.memory.storage_buffer_range, 128u << 20);
    EXPECT_GT(info.device_memory(), 0u);
    EXPECT_LE(caps.memory.max_allocation, info.device_memory());
    EXPECT_LE(caps.subgroup.size_min, caps.subgroup.size);
    EXPECT_GE(caps.subgroup.size_max, caps.subgroup.size);
  }
}

TEST(DeviceInfoTest, TheTwoSoftwareDriversDifferAsExpected) {
  const auto instance = must(Instance::create());
  const DeviceInfo& info = instance->devices().front();
  const std::string driver = std::getenv("VKFUSE_TEST_DRIVER") ? std::getenv("VKFUSE_TEST_DRIVER") : "";
  if (driver == "lavapipe") {
    EXPECT_TRUE(info.caps.arithmetic.float16 && info.caps.arithmetic.int64 && info.caps.memory.storage_16bit &&
                info.caps.memory.storage_8bit);
    EXPECT_EQ(info.caps.memory.offset_alignment, 16u);
  } else if (driver == "swiftshader") {
    EXPECT_FALSE(info.caps.arithmetic.float16 || info.caps.arithmetic.int64 || info.caps.memory.storage_16bit ||
                 info.caps.memory.storage_8bit);
    EXPECT_EQ(info.caps.workgroup.max_invocations, 256u);
  } else {
    GTEST_SKIP() << "VKFUSE_TEST_DRIVER names no driver whose figures are known";
  }
  EXPECT_EQ(info.type, DeviceType::cpu);
}

TEST(PipelineTest, ReportsItsCreationTimeAndStatisticsWhereThereAreAny) {
  const auto device = open_device();
  PipelineInfo info = vector_add_info();
  info.capture_statistics = true;
  const ComputePipeline pipeline = must(ComputePipeline::create(device, info));
  EXPECT_GT(pipeline.creation_time().count(), 0);
  const auto figures = statistics(pipeline);
  if (!device->caps().profiling.executable_statistics) {
    ASSERT_FALSE(figures.ok());
    EXPECT_EQ(figures.error().code, ErrorCode::unsupported);
    EXPECT_EQ(representations(pipeline).error().code, ErrorCode::unsupported);
    return;
  }
  for (const Statistic& figure : must(std::move(figures))) EXPECT_FALSE(figure.name.empty());
  for (const Representation& stage : must(representations(pipeline))) EXPECT_FALSE(stage.text.empty());
}

TEST(PipelineTest, RequiredSubgroupSizeIsTakenWhereItIsOffered) {
  const auto device = open_device();
  const Caps& caps = device->caps();
  PipelineInfo info = vector_add_info();
  info.subgroup_size = caps.subgroup.size;
  info.full_subgroups = caps.subgroup.full;
  must(ComputePipeline::create(device, info));
}

TEST(PipelineCacheTest, OnlyTheDevicesOwnCacheIsUsed) {
  const auto device = open_device();
  PipelineInfo info = vector_add_info();
  info.keep_cache = true;
  const ComputePipeline pipeline = must(ComputePipeline::create(device, info));
  // A cache that begins as this driver writes it, whether or not this driver keeps anything.
  VkPipelineCacheHeaderVersionOne header{
      sizeof header, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, device->info().vendor_id, device->info().device_id, {}};
  std::copy_n(device->info().pipeline_cache_uuid.begin(), VK_UUID_SIZE, header.pipelineCacheUUID);
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  EXPECT_TRUE(pipeline.cache_data().empty() || std::equal(bytes.begin(), bytes.end(), pipeline.cache_data().begin()));
  info.cache = bytes;
  must(ComputePipeline::create(device, info));
  bytes[20] ^= std::byte{0xFF};  // another driver's UUID
  must(ComputePipeline::create(device, info));
  info.cache = std::span(bytes).first(10);
  must(ComputePipeline::create(device, info));
}

TEST(PipelineCacheTest, APipelineIsMadeWithoutACacheWhereThereIsNone) {
  FaultPlan counting;
  const auto device = open_device({}, &counting);
  PipelineInfo info = vector_add_info();
  info.keep_cache = true;
  counting.calls = 0;
  must(ComputePipeline::create(device, info));
  int without = 0;
  for (int call = 0, calls = counting.calls; call < calls; ++call) {
    counting.calls = 0;
    counting.fail_call = call;
    counting.failed_call = nullptr;
    const auto made = ComputePipeline::create(device, info);
    const std::string failed = counting.failed_call.load() == nullptr ? "" : counting.failed_call.load();
    const bool of_cache = failed.find("PipelineCache") != std::string::npos;
    EXPECT_EQ(made.ok(), of_cache) << failed;
    EXPECT_TRUE(!made.ok() || made->cache_data().empty());
    without += of_cache;
  }
  EXPECT_GE(without, 2);  // making it, and reading it
}

}  // namespace
}  // namespace vkfuse::vulkan::test

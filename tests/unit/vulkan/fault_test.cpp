// Drivers that fail: every call in turn, machines without Vulkan, limits.
#include <cstdlib>

#include "support/environment.hpp"
#include "unit/vulkan/fixture.hpp"

namespace vkfuse::vulkan::test {
namespace {

// From nothing to a result read back.
Result<std::vector<float>> whole_flow(FaultPlan& faults, const DeviceOptions& options) {
  VKF_TRY(instance, Instance::create({.faults = &faults}));
  VKF_TRY(device, Device::create(instance, 0, options));
  VKF_TRY(add, VectorAdd::create(device));
  VKF_TRY(times, TimestampPool::create(device, 2));
  VKF_CHECK_OK(add->record(&times));
  add->write_inputs(ramp(1), ramp(2));
  VKF_TRY(submission, device->submit(add->commands));
  VKF_CHECK_OK(submission.wait());
  VKF_TRY(ns, times.nanoseconds());
  VKF_CHECK_OK(device->wait_idle());
  return add->output();
}

class FaultTest : public testing::TestWithParam<VkResult> {};

// The number of polls of a wait varies from run to run, so a call that is not reached is no fault.
TEST_P(FaultTest, EveryCallMayFail) {
  // The loader unloads a driver with its last instance: keeping one saves loading it hundreds of
  // times, of which SwiftShader leaks a thread-local key each until there are none.
  const auto keeps_driver_loaded = must(Instance::create());
  const DeviceOptions floor{.timeline = false, .push_descriptors = false, .map_device_memory = false};
  for (const DeviceOptions& options : {DeviceOptions{}, floor}) {
    FaultPlan counting;
    const std::vector<float> expected = must(whole_flow(counting, options));
    int failed = 0;
    for (int k = 0; k < counting.calls; ++k) {
      FaultPlan faults;
      faults.fail_call = k;
      faults.result = GetParam();
      const auto result = whole_flow(faults, options);
      const char* call = faults.failed_call;
      if (call == nullptr) continue;
      ++failed;
      if (result.ok() && GetParam() == VK_ERROR_OUT_OF_DEVICE_MEMORY && std::string_view(call) == "vkAllocateMemory") {
        EXPECT_EQ(*result, expected) << "in another type of memory";
        continue;
      }
      ASSERT_FALSE(result.ok()) << "call " << k << ", " << call << ", failed and nobody noticed";
      // Allocation tries the next memory type, and then reports the last failure.
      EXPECT_NE(result.error().text().find("VK_ERROR_"), std::string::npos) << result.error().text();
      EXPECT_EQ(result.error().message.back(), '.') << result.error().text();
      if (GetParam() == VK_ERROR_DEVICE_LOST) {
        EXPECT_EQ(result.error().code, ErrorCode::device_lost);
      }
    }
    EXPECT_GT(failed, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Results, FaultTest,
                         testing::Values(VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST,
                                         VK_ERROR_INITIALIZATION_FAILED),
                         [](const auto& result) { return name_of(result.param); });

TEST(LostTest, ALostDeviceStaysLostAndAnotherOneWorks) {
  FaultPlan faults;
  const auto device = open_device({}, &faults);
  const auto add = must(VectorAdd::create(device));
  must(add->record());
  faults.result = VK_ERROR_DEVICE_LOST;
  faults.fail_call = faults.calls;
  EXPECT_EQ(device->submit(add->commands).error().code, ErrorCode::device_lost);
  EXPECT_TRUE(device->lost());
  const auto again = device->submit(add->commands);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message, "The device was lost by an earlier call; open it again.");
  const auto fresh = open_device();
  const auto works = must(VectorAdd::create(fresh));
  must(works->record());
  must(must(fresh->submit(works->commands)).wait());
}

TEST(NoVulkanTest, NoLoaderIsASentence) {
  const auto instance = Instance::create({.library = "libno-such-vulkan.so"});
  ASSERT_FALSE(instance.ok());
  EXPECT_EQ(instance.error().code, ErrorCode::no_device);
  EXPECT_EQ(instance.error().message,
            "No Vulkan loader could be opened (tried libno-such-vulkan.so); install the Vulkan runtime of this "
            "system.");
}

// The loader reads the environment when an instance is made; a child process keeps the change away
// from the other tests.
void expect_no_device(const char* manifest) {
  vkfuse::test::set_variable("VK_ICD_FILENAMES", manifest);
  vkfuse::test::set_variable("VK_DRIVER_FILES", manifest);
  const auto instance = Instance::create();
  const bool as_expected = !instance.ok() && instance.error().code == ErrorCode::no_device;
  std::fprintf(stderr, "%s\n", instance.ok() ? "found a device" : instance.error().text().c_str());
  std::_Exit(as_expected ? 0 : 1);
}

TEST(NoVulkanDeathTest, NoDriverIsASentence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(expect_no_device("/nonexistent/icd.json"), testing::ExitedWithCode(0), "found no usable driver");
}

TEST(NoVulkanTest, ALibraryWithoutVulkanIsASentence) {
  const auto instance = Instance::create({.library = "libm.so.6"});
  ASSERT_FALSE(instance.ok());
  EXPECT_EQ(instance.error().code, ErrorCode::no_device);
}

TEST(LimitTest, ErrorsNameTheNumbers) {
  const auto device = open_device();
  const Caps& caps = device->caps();
  const auto huge = Buffer::create(device, caps.memory.max_allocation + 1, BufferKind::device);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(huge.error().message.find(std::to_string(caps.memory.max_allocation + 1)), std::string::npos);
  EXPECT_EQ(must(Buffer::create(device, 0, BufferKind::device)).size(), 16u);
  EXPECT_EQ(must(Buffer::create(device, 17, BufferKind::device)).size(), 32u);

  PipelineInfo info = vector_add_info();
  info.buffers = caps.memory.storage_buffers + 1;
  EXPECT_EQ(ComputePipeline::create(device, info).error().code, ErrorCode::unsupported);
  info = vector_add_info();
  info.subgroup_size = 3;
  EXPECT_EQ(ComputePipeline::create(device, info).error().code, ErrorCode::unsupported);
  EXPECT_EQ(Device::create(device->instance(), 99).error().code, ErrorCode::invalid_argument);
}

TEST(LimitTest, WrongRecordingsAreReportedByEnd) {
  const auto device = open_device();
  const auto add = must(VectorAdd::create(device));
  CommandBuffer& commands = add->commands;
  const auto error_of = [&](auto&& record) {
    must(commands.begin());
    commands.bind(add->pipeline);
    record();
    const Result<void> ended = commands.end();
    return ended.ok() ? std::string() : ended.error().message;
  };
  const BufferRange two[] = {{&add->a}, {&add->b}};
  EXPECT_EQ(error_of([&] { commands.bind_buffers(two); }), "2 buffers are bound to a kernel that has 3.");
  const BufferRange beyond[] = {{&add->a}, {&add->b}, {&add->c, 0, 1u << 20}};
  EXPECT_NE(error_of([&] { commands.bind_buffers(beyond); }).find("are not inside a buffer of 4000 bytes"),
            std::string::npos);
  const BufferRange skewed[] = {{&add->a}, {&add->b}, {&add->c, 4}};
  EXPECT_NE(error_of([&] { commands.bind_buffers(skewed); }).find("at offset 4"), std::string::npos);
  EXPECT_NE(error_of([&] { commands.push_constants(std::as_bytes(std::span("too long"))); }), "");
  EXPECT_EQ(error_of([&] { commands.dispatch(1); }), "A dispatch needs a kernel to be bound, and then its buffers.");
  EXPECT_EQ(device->submit(commands).error().code, ErrorCode::invalid_argument);
  const BufferRange three[] = {{&add->a}, {&add->b}, {&add->c}};
  const auto too_many = [&] {
    commands.bind_buffers(three);
    commands.dispatch(0xFFFFFFFF);
  };
  EXPECT_NE(error_of(too_many), "");
  EXPECT_NE(error_of([&] { commands.copy({&add->a}, {&add->b, 16}); }), "");
  must(add->record());  // and it recovers
  EXPECT_EQ(device->instance()->validation_errors(), 0);
}

}  // namespace
}  // namespace vkfuse::vulkan::test

// A kernel runs and its result comes back, on every path through the layer.
#include <cstdlib>

#include "spirv/compile.hpp"
#include "unit/vulkan/fixture.hpp"

namespace vkfuse::vulkan::test {
namespace {

struct Path {
  const char* name;
  DeviceOptions options;
};

class RunTest : public testing::TestWithParam<Path> {};

TEST_P(RunTest, VectorAddReadsBackAndReplays) {
  const auto device = open_device(GetParam().options);
  const auto add = must(VectorAdd::create(device));
  must(add->record());
  for (float start : {0.0F, 5.0F, -3.0F}) {
    const auto a = ramp(start);
    const auto b = ramp(2 * start + 1);
    add->write_inputs(a, b);
    must(must(device->submit(add->commands)).wait());
    EXPECT_EQ(add->output(), expected(a, b));
  }
  EXPECT_EQ(device->instance()->validation_errors(), 0);
}

TEST_P(RunTest, SubmissionsComeInOrder) {
  const auto device = open_device(GetParam().options);
  const auto add = must(VectorAdd::create(device, /*concurrent=*/true));
  must(add->record());
  add->write_inputs(ramp(1), ramp(2));
  const Submission first = must(device->submit(add->commands));
  const Submission second = must(device->submit(add->commands));
  EXPECT_LT(first.value(), second.value());
  EXPECT_TRUE(must(second.wait_for(std::chrono::seconds(20))));
  EXPECT_TRUE(must(first.done()));
  EXPECT_TRUE(must(Submission().done()));
  must(device->wait_idle());
  EXPECT_EQ(device->instance()->validation_errors(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Paths, RunTest,
    testing::Values(Path{"best", {}}, Path{"staged", {.map_device_memory = false}}, Path{"fences", {.timeline = false}},
                    Path{"pools", {.push_descriptors = false}},
                    Path{"floor", {.timeline = false, .push_descriptors = false, .map_device_memory = false}}),
    [](const testing::TestParamInfo<Path>& path) { return path.param.name; });

TEST(VulkanTest, PathsAreThoseAskedFor) {
  const auto floor = open_device({.timeline = false, .push_descriptors = false, .map_device_memory = false});
  EXPECT_FALSE(floor->has_timeline());
  EXPECT_FALSE(floor->has_push_descriptors());
  EXPECT_EQ(must(Buffer::create(floor, 64, BufferKind::device)).mapped(), nullptr);
  EXPECT_NE(must(Buffer::create(floor, 64, BufferKind::upload)).mapped(), nullptr);
  const auto best = open_device();
  EXPECT_TRUE(best->has_timeline());
  EXPECT_NE(must(Buffer::create(best, 64, BufferKind::device)).mapped(), nullptr);
}

// That the layer is silent about everything else shows nothing unless it sees this and the next. tests/layers.sh sets
// what they need.
TEST(LayerTest, SynchronisationValidationSeesAMissingBarrier) {
  if (std::getenv("VK_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC") == nullptr)
    GTEST_SKIP() << "synchronisation validation is off";
  const auto device = open_device();
  const auto add = must(VectorAdd::create(device));
  CommandBuffer& commands = add->commands;
  must(commands.begin());
  commands.bind(add->pipeline);
  commands.push_constants(std::as_bytes(std::span(&kCount, 1)));
  const BufferRange once[] = {{&add->a}, {&add->b}, {&add->c}};
  const BufferRange again[] = {{&add->c}, {&add->b}, {&add->a}};
  commands.bind_buffers(once);
  commands.dispatch(16);
  commands.bind_buffers(again);  // reads what the dispatch before writes
  commands.dispatch(16);
  must(commands.end());
  must(must(device->submit(commands)).wait());
  EXPECT_GT(device->instance()->validation_errors(), 0);
}

TEST(LayerTest, GpuAssistedValidationSeesAWriteBehindTheEnd) {
  if (std::getenv("VK_VALIDATION_GPUAV_ENABLE") == nullptr) GTEST_SKIP() << "GPU-assisted validation is off";
  const auto device = open_device();
  const auto add = must(VectorAdd::create(device));
  CommandBuffer& commands = add->commands;
  must(commands.begin());
  commands.bind(add->pipeline);
  commands.push_constants(std::as_bytes(std::span(&kCount, 1)));
  const BufferRange ranges[] = {{&add->a}, {&add->b}, {&add->c, 0, 256}};  // the buffer goes on where the binding ends
  commands.bind_buffers(ranges);
  commands.dispatch(16);
  must(commands.end());
  must(must(device->submit(commands)).wait());
  EXPECT_GT(device->instance()->validation_errors(), 0);
}

TEST(LayerTest, GpuAssistedValidationSeesARaceInSharedMemory) {
  if (std::getenv("VK_VALIDATION_GPUAV_ENABLE") == nullptr) GTEST_SKIP() << "GPU-assisted validation is off";
  if (std::getenv("VK_VALIDATION_GPUAV_SHARED_MEMORY_DATA_RACE") != nullptr)
    GTEST_SKIP() << "it does not look at shared memory here: tests/layers.sh says why";
  const std::string barriers[] = {"barrier();", ""};
  for (const std::string& between : barriers) {
    const auto words = must(
        spirv::compile_glsl("#version 450\nlayout(local_size_x = 64) in;\nlayout(set = 0, binding = 0) buffer Result { "
                            "float result[]; };\nshared float seen[64];\n"
                            "void main() {\n  uint lane = gl_LocalInvocationID.x;\n  seen[lane] = float(lane);\n  " +
                                between + "\n  result[lane] = seen[(lane + 9u) % 64u];\n}\n",
                            "race"));
    const auto device = open_device();
    PipelineInfo info;
    info.name = "race";
    info.spirv = words;
    info.buffers = 1;
    const auto pipeline = must(ComputePipeline::create(device, info));
    const Buffer result = must(Buffer::create(device, 256, BufferKind::device));
    CommandBuffer commands = must(CommandBuffer::create(device, false));
    must(commands.begin());
    commands.bind(pipeline);
    const BufferRange ranges[] = {{&result}};
    commands.bind_buffers(ranges);
    commands.dispatch(1);
    must(commands.end());
    must(must(device->submit(commands)).wait());
    EXPECT_EQ(device->instance()->validation_errors() > 0, between.empty());
  }
}

TEST(VulkanTest, TimestampsAreOrderedAndPlausible) {
  const auto device = open_device();
  if (device->timestamp_bits() == 0) GTEST_SKIP() << "the queue has no timestamps";
  const auto add = must(VectorAdd::create(device));
  const auto times = must(TimestampPool::create(device, 2));
  must(add->record(&times));
  add->write_inputs(ramp(0), ramp(0));
  must(must(device->submit(add->commands)).wait());
  const std::vector<double> ns = must(times.nanoseconds());
  EXPECT_EQ(ns[0], 0.0);
  EXPECT_GT(ns[1], 0.0);
  EXPECT_LT(ns[1], 5e9);
}

TEST(VulkanTest, DispatchesSeeEachOtherThroughABarrierAndFillsWork) {
  const auto device = open_device();
  const auto add = must(VectorAdd::create(device));
  CommandBuffer& commands = add->commands;
  must(commands.begin());
  commands.fill({&add->a}, 0x3F800000);  // 1.0f
  commands.fill({&add->b}, 0x40000000);  // 2.0f
  commands.barrier(Access::transfer, Access::compute);
  commands.bind(add->pipeline);
  commands.push_constants(std::as_bytes(std::span(&kCount, 1)));
  const BufferRange once[] = {{&add->a}, {&add->b}, {&add->c}};
  const BufferRange again[] = {{&add->c}, {&add->b}, {&add->a}};
  commands.bind_buffers(once);
  commands.dispatch(16);
  commands.barrier(Access::compute, Access::compute);
  commands.bind_buffers(again);
  commands.dispatch(16);
  commands.barrier(Access::compute, Access::transfer);
  commands.copy({&add->a}, {&add->staging});
  commands.barrier(Access::transfer, Access::host);
  must(commands.end());
  must(must(device->submit(commands)).wait());
  float last = 0;
  std::memcpy(&last, add->staging.mapped() + (kCount - 1) * sizeof(float), sizeof last);
  EXPECT_EQ(last, 9.0F);
}

}  // namespace
}  // namespace vkfuse::vulkan::test

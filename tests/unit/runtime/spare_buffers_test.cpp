// Memory that is not in use any more, and what those who ask next get of it.
#include <gtest/gtest.h>

#include <thread>

#include "support/environment.hpp"
#include "unit/runtime/faults.hpp"
#include "vkfuse/interop.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t spare_bytes(const Device& device) { return device.state()->context->memory().spares()->bytes(); }
std::uint64_t alive_bytes(const Device& device) { return device.state()->context->device()->allocated(0); }

TEST(SpareBuffers, AreTakenByTheNextOneOfTheirSize) {
  const Device own = must(Device::open());
  Buffer one = must(own.allocate(4000));
  const std::uint64_t memory = one.vulkan_handle();
  const Buffer other = must(own.allocate(4000));
  one = {};
  EXPECT_GE(spare_bytes(own), 4000u);
  EXPECT_NE(must(own.allocate(5000)).vulkan_handle(), memory);
  const Buffer next = must(own.allocate(3990));  // the same in multiples of 16 bytes
  EXPECT_EQ(next.vulkan_handle(), memory);
  EXPECT_EQ(next.size(), 3990u);
  EXPECT_NE(next.vulkan_handle(), other.vulkan_handle());
}

TEST(SpareBuffers, AreAtMostWhatIsInUse) {
  const Device own = must(Device::open());
  { const Buffer large = must(own.allocate(80 * kMiB)); }
  EXPECT_EQ(spare_bytes(own), 0u) << "more than 64 MiB, and nothing is in use";
  {
    const Buffer used = must(own.allocate(90 * kMiB));
    { const Buffer large = must(own.allocate(80 * kMiB)); }
    EXPECT_GE(spare_bytes(own), 80 * kMiB);
    { const Buffer more = must(own.allocate(30 * kMiB)); }
    EXPECT_LT(spare_bytes(own), 80 * kMiB) << "the oldest went";
    EXPECT_GE(spare_bytes(own), 30 * kMiB);
  }
  EXPECT_LE(spare_bytes(own), 64 * kMiB);
  for (int i = 0; i < 40; ++i) {
    const Buffer small = must(own.allocate(kMiB + 16 * static_cast<std::uint64_t>(i)));
  }
  EXPECT_LE(spare_bytes(own), 64 * kMiB);
}

TEST(SpareBuffers, AreCountedAsFree) {
  const Device own = must(Device::open({.limits = {{"memory_bytes", 40 * kMiB}}}));
  { const Buffer one = must(own.allocate(30 * kMiB)); }
  EXPECT_GE(spare_bytes(own), 30 * kMiB);
  const Buffer other = must(own.allocate(35 * kMiB));
  EXPECT_EQ(spare_bytes(own), 0u);
  EXPECT_LT(alive_bytes(own), 40 * kMiB) << "the limit is of both";
}

TEST(SpareBuffers, MakeWayForIntermediateValues) {
  const Device own = must(Device::open({.limits = {{"memory_bytes", 40 * kMiB}}}));
  CompileOptions options;
  options.fusion = false;
  const Tensor x = Tensor::input("x", DType::f32, {1 << 21});
  const Executable program = must(compile(own, {exp(x * 2.0F)}, options));  // three times 8 MiB
  Bindings bindings{.inputs = {{"x", must(own.allocate(8 * kMiB))}}, .outputs = {{"y", must(own.allocate(8 * kMiB))}}};
  { const Buffer spare = must(own.allocate(20 * kMiB)); }
  ASSERT_GE(spare_bytes(own), 20 * kMiB);
  must(must(program.submit(bindings)).wait());
  EXPECT_EQ(spare_bytes(own), 0u);
}

TEST(SpareBuffers, AreFreedWhereTheDriverHasNoMemoryLeft) {
  const Device own = must(Device::open());
  { const Buffer spare = must(own.allocate(8 * kMiB)); }
  int calls = 0;
  {
    Faults faults(own);
    must(own.allocate(4 * kMiB));
    calls = faults.plan.calls;
  }
  for (int call = 0; call < calls; ++call) {
    own.state()->context->memory().spares()->forget();
    { const Buffer spare = must(own.allocate(8 * kMiB)); }
    Faults faults(own);
    faults.plan.fail_call = call;
    EXPECT_TRUE(own.allocate(4 * kMiB).ok()) << faults.plan.failed_call;
    EXPECT_NE(faults.plan.failed_call, nullptr);
  }
}

TEST(SpareBuffers, AreNotTakenFromRunsThatAreUnderWay) {
  const Device own = must(Device::open());
  const std::size_t elements = 300000;
  const Tensor x = Tensor::input("x", DType::f32, {static_cast<std::int64_t>(elements)});
  const Executable program = must(compile(own, {x + 1.0F}));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i) {
        const auto first = static_cast<float>(100 * thread + i);
        const std::vector<float> given(elements, first);
        Bindings bindings;
        bindings.inputs["x"] = must(own.allocate(4 * elements));
        must(bindings.inputs["x"].write(std::as_bytes(std::span(given))));
        Buffer result = bindings.outputs["y"] = must(own.allocate(4 * elements));
        const Submission run = must(program.submit(bindings));
        bindings = {};  // the run keeps its buffers
        std::vector<float> read(elements);
        must(run.wait());
        must(result.read(std::as_writable_bytes(std::span(read))));
        EXPECT_EQ(read, std::vector<float>(elements, first + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(spare_bytes(own), 64 * kMiB);
}

}  // namespace
}  // namespace vkfuse::test

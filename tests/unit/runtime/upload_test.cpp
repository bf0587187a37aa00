// Elements of the host that become buffers of the device, and runs that begin before all of them is recorded.
#include <gtest/gtest.h>

#include "support/cases.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kUploaded[] = {1000};

Buffer uploaded(const Device& device, float value) {
  const std::vector<float> elements(1000, value);
  return must(device.upload(DType::f32, kUploaded, std::as_bytes(std::span(elements))));
}

TEST(Upload, IsSeenByRunsThoughNobodyWaitsForIt) {
  for (const Memory memory : {Memory::as_it_is, Memory::apart}) {
    const WatchedDevice watched({}, memory);
    const Executable program = must(compile(watched.device(), {Tensor::input("x", DType::f32, {1000}) * 2.0}));
    std::vector<Buffer> results;
    for (int i = 0; i < 20; ++i) {
      Bindings bindings;
      bindings.inputs["x"] = uploaded(watched.device(), static_cast<float>(i));
      bindings.outputs["y"] = results.emplace_back(must(watched.device().allocate(4000)));
      must(program.submit(bindings));
      uploaded(watched.device(), -1);  // that nobody reads, gone at once
    }
    for (int i = 0; i < 20; ++i) {
      std::vector<float> result(1000);
      must(results[static_cast<std::size_t>(i)].read(std::as_writable_bytes(std::span(result))));
      for (const float value : result) ASSERT_EQ(value, 2.0F * static_cast<float>(i));
    }
  }
}

TEST(Upload, DoesNotWaitForWhatWasSubmittedBefore) {
  const WatchedDevice watched({}, Memory::apart);
  // A hundred milliseconds on a large GPU.
  const bool is_gpu = target(false).type != DeviceType::cpu;
  const std::int64_t size = is_gpu ? 1536 : 768;
  const Tensor a = Tensor::input("a", DType::f32, {size, size});
  Tensor product = a;
  for (int i = 0; i < (is_gpu ? 1000 : 8); ++i) product = matmul(product, a);
  const Executable slow = must(compile(watched.device(), {product}));
  Bindings bindings;
  bindings.inputs["a"] = must(watched.device().allocate(static_cast<std::uint64_t>(size * size * 4)));
  bindings.outputs["y"] = must(watched.device().allocate(static_cast<std::uint64_t>(size * size * 4)));
  must(must(slow.submit(bindings)).wait());
  const Submission running = must(slow.submit(bindings));
  for (int i = 0; i < 7; ++i) uploaded(watched.device(), static_cast<float>(i));
  const Buffer buffer = uploaded(watched.device(), 7);
  EXPECT_FALSE(running.done());
  std::vector<float> read(1000);
  must(buffer.read(std::as_writable_bytes(std::span(read))));
  EXPECT_TRUE(running.done()) << "the copy comes after it";
  EXPECT_EQ(read, std::vector<float>(1000, 7.0F));
}

TEST(Upload, OfAnotherNumberOfBytesIsASentence) {
  const std::vector<float> elements(999);
  EXPECT_EQ(device().upload(DType::f32, kUploaded, std::as_bytes(std::span(elements))).error().message,
            "A tensor of type f32[1000] takes 4000 bytes, and 3996 were given.");
}

TEST(LongRuns, BeginBeforeTheirLastKernelIsRecorded) {
  const WatchedDevice watched;
  CompileOptions options;
  options.fusion = false;
  std::vector<std::string> ops;
  for (int i = 0; i < 75; ++i) ops.insert(ops.end(), {"neg", "abs"});
  const Executable program = must(compile_text(watched.device(), chain_text(1000, ops), options));
  ASSERT_EQ(program.kernel_count(), 150);
  const std::vector<float> data = ramp(1000);
  std::vector<float> result(1000);
  Bindings bindings;
  bindings.inputs["x"] = must(watched.device().allocate(4000));
  must(bindings.inputs["x"].write(std::as_bytes(std::span(data))));
  bindings.outputs["y"] = must(watched.device().allocate(4000));
  for (int i = 0; i < 3; ++i) {  // the first is whole, and fails before it begins if it does; the third is recorded
    WatchedDevice::counts().clear();
    must(must(program.submit(bindings)).wait());
    EXPECT_EQ(WatchedDevice::counts().submits, i == 0 ? 1 : 2);
    EXPECT_EQ(WatchedDevice::counts().dispatches, i < 2 ? 150 : 0);
    must(bindings.outputs["y"].read(std::as_writable_bytes(std::span(result))));
    for (std::size_t k = 0; k < 1000; ++k) ASSERT_EQ(result[k], std::abs(data[k]));
  }
}

}  // namespace
}  // namespace vkfuse::test

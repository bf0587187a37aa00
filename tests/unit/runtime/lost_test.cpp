// Devices that are lost and memory that is not to be had, seen from the public interface; and two devices in one
// process.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "support/environment.hpp"
#include "unit/runtime/faults.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

const std::vector<float>& data() {
  static const std::vector<float> values = ramp(600);
  return values;
}

/// Compiles, runs on the host, runs on buffers, reads back. The sum of the result.
Result<double> whole_flow(const Device& device) {
  CompileOptions options;
  options.fusion = false;
  const Tensor x = Tensor::input("x", DType::f32, {600});
  VKF_TRY(program,
          compile(device, {abs(x + 1.5F) * Tensor::constant(DType::f32, {600}, std::as_bytes(std::span(data())))},
                  options));
  VKF_TRY(results, program.run({{"x", HostView(data())}}));
  Bindings bindings;
  VKF_TRY(in, device.allocate(2400));
  VKF_TRY(out, device.allocate(2400));
  bindings.inputs["x"] = in;
  bindings.outputs["y"] = out;
  VKF_CHECK_OK(in.write(std::as_bytes(std::span(data()))));
  VKF_TRY(submission, program.submit(bindings));
  VKF_CHECK_OK(submission.wait());
  std::vector<float> values(600);
  VKF_CHECK_OK(out.read(std::as_writable_bytes(std::span(values))));
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] == results.at("y").as<float>()[i] ? values[i] : 1e30;
  return sum;
}

double expected_sum() {
  double sum = 0;
  for (const float x : data()) sum += std::abs(x + 1.5F) * x;
  return sum;
}

TEST(Lost, EveryCallMayFindNoMemoryAndTheDeviceGoesOn) {
  const Device own = must(Device::open());
  must(whole_flow(own));  // what is tested once a device has been
  int calls = 0;
  {
    own.state()->context->kernels().forget();
    Faults faults(own);
    must(whole_flow(own));
    calls = faults.plan.calls;
  }
  EXPECT_GT(calls, 40);
  int failed = 0;
  for (int call = 0; call < calls; ++call) {
    own.state()->context->kernels().forget();
    Faults faults(own);
    faults.plan.fail_call = call;
    const auto sum = whole_flow(own);
    if (faults.plan.failed_call == nullptr) continue;  // the number of polls differs from run to run
    if (sum.ok()) {  // a cache of pipelines is no loss, and another type of memory may do
      EXPECT_NEAR(*sum, expected_sum(), 1) << faults.plan.failed_call;
      continue;
    }
    ++failed;
    EXPECT_EQ(sum.error().code, ErrorCode::out_of_memory) << faults.plan.failed_call;
    EXPECT_EQ(sum.error().message.back(), '.') << sum.error().text();
  }
  EXPECT_GT(failed, calls / 2);
  EXPECT_NEAR(must(whole_flow(own)), expected_sum(), 1);
  own.state()->context->memory().spares()->forget();
  EXPECT_EQ(own.state()->context->device()->allocated(0), 0u) << "nothing is left of runs that failed";
}

TEST(Lost, ADeviceIsLostAtAnyCallAndTheNextOneWorks) {
  int calls = 0;
  {
    const Device own = must(Device::open());
    Faults faults(own);
    must(whole_flow(own));
    calls = faults.plan.calls;
  }
  int failed = 0;
  for (int call = 1; call < calls; call += calls / 6) {
    const Device own = must(Device::open());
    {
      Faults faults(own);
      faults.plan.fail_call = call;
      faults.plan.result = VK_ERROR_DEVICE_LOST;
      const auto sum = whole_flow(own);
      if (faults.plan.failed_call == nullptr) continue;
      if (sum.ok()) {  // lost where the submission is released, after its result was read
        ASSERT_STREQ(faults.plan.failed_call.load(), "vkGetSemaphoreCounterValue");
        EXPECT_NEAR(*sum, expected_sum(), 1);
      } else {
        ++failed;
        EXPECT_EQ(sum.error().code, ErrorCode::device_lost) << sum.error().text();
      }
    }
    const auto again = whole_flow(own);
    ASSERT_FALSE(again.ok()) << "what is lost stays lost";
    EXPECT_EQ(again.error().code, ErrorCode::device_lost) << again.error().text();
    EXPECT_NE(again.error().message.find("open it again"), std::string::npos) << again.error().text();
    EXPECT_NEAR(must(whole_flow(must(Device::open()))), expected_sum(), 1);
  }
  EXPECT_GE(failed, 4);
}

TEST(Lost, ARunInFlightIsAnErrorAndNothingCrashes) {
  const Device own = must(Device::open());
  const Executable program = must(compile_text(own, chain_text(600, {"neg", "exp"})));
  must(program.run({{"x", HostView(data())}}));
  std::optional<Submission> submission;
  {
    Faults faults(own);
    Bindings bindings;
    bindings.inputs["x"] = must(own.allocate(2400));
    bindings.outputs["y"] = must(own.allocate(2400));
    submission = must(program.submit(bindings));
    faults.plan.fail_call = faults.plan.calls;
    faults.plan.result = VK_ERROR_DEVICE_LOST;
    EXPECT_EQ(submission->wait().error().code, ErrorCode::device_lost);
  }
  EXPECT_TRUE(submission->done()) << "there is nothing left to wait for";
  EXPECT_EQ(program.run({{"x", HostView(data())}}).error().code, ErrorCode::device_lost);
}

/// lavapipe's manifest, which has the processor in its name or has not, and SwiftShader's.
std::vector<std::string> manifests() {
  std::string mesa = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";
  if (!std::filesystem::exists(mesa)) mesa = "/usr/share/vulkan/icd.d/lvp_icd.json";
  return {mesa, "/usr/lib/chromium/vk_swiftshader_icd.json"};
}

/// Both drivers, on two threads, and one of them lost meanwhile.
void use_two_devices() {
  const std::string both = fmt::format("{}", fmt::join(manifests(), ":"));
  set_variable("VK_ICD_FILENAMES", both);
  set_variable("VK_DRIVER_FILES", both);
  try {
    const Device one = must(Device::open({.name = "llvmpipe"}));
    const Device other = must(Device::open({.name = "SwiftShader"}));
    std::atomic<int> wrong = 0;
    const auto work = [&](const Device& device) {
      for (int i = 0; i < 3; ++i) {
        if (std::abs(must(whole_flow(device)) - expected_sum()) > 1) ++wrong;
      }
    };
    std::thread beside([&] { work(one); });
    work(other);
    beside.join();
    {
      Faults faults(one);
      faults.plan.fail_call = 5;
      faults.plan.result = VK_ERROR_DEVICE_LOST;
      if (whole_flow(one).ok()) ++wrong;
    }
    work(other);
    work(must(Device::open({.name = "llvmpipe"})));
    std::fprintf(stderr, "%d wrong results\n", wrong.load());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::_Exit(0);
}

TEST(TwoDevicesDeathTest, WorkInOneProcess) {
  for (const std::string& manifest : manifests()) {
    if (!std::filesystem::exists(manifest)) GTEST_SKIP() << manifest << " is not there.";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use_two_devices(), testing::ExitedWithCode(0), "^0 wrong results");
}

}  // namespace
}  // namespace vkfuse::test

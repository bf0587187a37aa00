// What happens where the shader compiler refuses a kernel that vkfuse wrote.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "api/states.hpp"
#include "support/device.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse::test {
namespace {

/// A kernel that the compiler refuses is a defect, and shows itself in tests. Elsewhere its ops get a kernel each, and
/// the log says so.
TEST(RefusedKernels, ArePlannedAgainOpByOp) {
  for (const bool symbolic : {false, true}) {
    std::vector<std::string> warnings;
    DeviceOptions options;
    options.store.enabled = false;
    options.self_check = false;
    options.log = [&](LogLevel level, std::string_view sentence) {
      if (level == LogLevel::warning) warnings.emplace_back(sentence);
    };
    const Device own = must(Device::open(options));
    own.state()->context->kernels().refuse([](const lowering::Kernel& kernel) {
      return kernel.glsl.find("tanh") != std::string::npos && kernel.glsl.find("sqrt") != std::string::npos;
    });
    const Tensor x = Tensor::input("x", DType::f32, {symbolic ? Dim::any("n") : Dim(6)});
    const Tensor y = Tensor::apply("abs", {x});
    const Executable program = must(compile(own, {Tensor::apply("tanh", {Tensor::apply("sqrt", {y})}), y + y}, {}));
    const std::vector<float> data = {0, -1, 4, -9, 16, -0.25F};
    const Outputs outputs = must(program.run({{"x", HostView(data)}}));
    for (std::size_t i = 0; i < data.size(); ++i) {
      EXPECT_NEAR(outputs.at("y").as<float>()[i], std::tanh(std::sqrt(std::abs(data[i]))), 1e-6);
      EXPECT_EQ(outputs.at("y1").as<float>()[i], 2 * std::abs(data[i]));
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("the compiler refuses the kernel of segment 0"), std::string::npos) << warnings[0];
  }
  DeviceOptions checking;
  checking.self_check = true;
  const Device checked = must(Device::open(checking));
  checked.state()->context->kernels().refuse([](const lowering::Kernel&) { return true; });
  const auto refused =
      compile(checked, {Tensor::apply("tanh", {Tensor::apply("sqrt", {Tensor::input("x", DType::f32, {6})})})}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::internal);
}

/// Two threads meet it at once, in plans that were made before either knew.
TEST(RefusedKernels, AreSetApartForAllThreads) {
  DeviceOptions options;
  options.store.enabled = false;
  options.self_check = false;
  const Device own = must(Device::open(options));
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n")});
  const Executable program = must(compile(own, {Tensor::apply("tanh", {Tensor::apply("sqrt", {x})})}, {}));
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> waiting;
  bool met = true;
  own.state()->context->kernels().refuse([&](const lowering::Kernel& kernel) {
    if (kernel.glsl.find("tanh") == std::string::npos || kernel.glsl.find("sqrt") == std::string::npos) return false;
    std::unique_lock<std::mutex> lock(mutex);
    waiting.insert(std::this_thread::get_id());
    changed.notify_all();
    met = changed.wait_for(lock, std::chrono::seconds(5), [&] { return waiting.size() > 1; }) && met;
    return true;
  });
  // In other buckets: kernels of one bucket are compiled once, and so are those of one text, as buckets without vectors
  // have it on a GPU.
  const auto at = [&](std::size_t count) {
    const std::vector<float> data(count, 4);
    const auto outputs = program.run({{"x", HostView(data)}});
    ASSERT_TRUE(outputs.ok()) << outputs.error().text();
    EXPECT_NEAR(outputs->at("y").as<float>()[count - 1], std::tanh(2.0F), 1e-6);
  };
  std::thread other([&] { at(7); });
  at(target(false).type == DeviceType::cpu ? 4099 : 4096);
  other.join();
  EXPECT_TRUE(met) << "one had ended before the other began";
}

}  // namespace
}  // namespace vkfuse::test

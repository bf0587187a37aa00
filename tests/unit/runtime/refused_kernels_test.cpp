// What happens where the shader compiler refuses a kernel that vkfuse wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "api/states.hpp"
#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

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

/// What the other kernels of the plan have beside values is found by their new numbers.
TEST(RefusedKernels, LeaveOthersTheirScratchMemory) {
  const auto input = [](const char* name, std::int64_t rows) {
    return Tensor::input(name, DType::f32, {1, 1, rows, 16});
  };
  const Tensor y = attention(input("q", 2), input("k", 64), input("v", 64), {});
  const ir::Graph graph = graph_of({Tensor::apply("tanh", {Tensor::apply("sqrt", {input("x", 4)})}), y});
  std::vector<float> q(32), k(1024), v(1024);
  const std::vector<float> x(64, 4);
  for (std::size_t i = 0; i < k.size(); ++i) {
    k[i] = static_cast<float>(i % 7) / 8 - 0.25F;
    v[i] = static_cast<float>(i % 11) / 4 - 1;
    q[i % q.size()] = static_cast<float>(i % 5) / 4;
  }
  const auto result = [&](bool refuses) {
    DeviceOptions options;
    options.store.enabled = false;
    options.self_check = false;
    const Device own = must(Device::open(options));
    own.state()->context->kernels().refuse([refuses](const lowering::Kernel& kernel) {
      return refuses && kernel.glsl.find("tanh") != std::string::npos && kernel.glsl.find("sqrt") != std::string::npos;
    });
    const Executable program = compile_graph(
        graph,
        {.device = &own,
         .tuning = {
             .splits = 3, .matmul = true, .attention = schedule::AttentionShape{.threads_m = 2, .threads_k = 4}}});
    const auto specialization = specialization_of(program);
    EXPECT_EQ(specialization->other != nullptr, refuses);
    EXPECT_TRUE(has_least_limits() ||
                std::any_of(specialization->steps.begin(), specialization->steps.end(),
                            [](const plan::ScheduledKernel& step) { return step.schedule.counter_bytes > 0; }));
    return must(program.run({{"x", HostView(x)}, {"q", HostView(q)}, {"k", HostView(k)}, {"v", HostView(v)}}))
        .at("y1")
        .bytes;
  };
  EXPECT_TRUE(result(true) == result(false));
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

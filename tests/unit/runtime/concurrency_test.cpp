// One executable on several threads at once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/compare.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

/// Matrix products, a softmax and intermediate values, of any number of rows.
Executable block(const Device& on) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 32});
  std::vector<float> weights(32 * 32);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 13) * 0.05F - 0.3F;
  const Tensor w = Tensor::constant(DType::f32, {32, 32}, std::as_bytes(std::span(weights)));
  const Tensor products = matmul(matmul(x, w), x.transpose());
  const Tensor powers = exp(products - products.max({1}, true));
  const Tensor scores = powers / powers.sum({1}, true);
  CompileOptions options;
  options.fusion = false;  // more kernels, more intermediate values
  return must(compile(on, {matmul(scores, x) + x}, options));
}

std::vector<float> rows(std::size_t n, unsigned seed) {
  std::vector<float> values(n * 32);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + seed * 31) % 101) * 0.01F - 0.5F;
  return values;
}

std::vector<std::byte> run(const Executable& program, const std::vector<float>& data) {
  return must(program.run({{"x", HostView(data)}})).at("y").bytes;
}

TEST(Concurrency, EightThreadsGetTheirOwnResults) {
  const Executable program = block(device());
  const char* wanted = std::getenv("VKFUSE_TEST_RUNS");
  const int runs = wanted == nullptr ? 25 : std::atoi(wanted);
  constexpr int kThreads = 8;
  // Three sizes and eight sets of numbers, each computed alone first.
  const auto data_of = [](int thread, int at) {
    return rows(static_cast<std::size_t>(8 << at % 3), static_cast<unsigned>(thread));
  };
  std::vector<std::vector<std::vector<std::byte>>> alone(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int size = 0; size < 3; ++size)
      alone[static_cast<std::size_t>(thread)].push_back(run(program, data_of(thread, size)));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < runs; ++i) {
        const auto results = program.run({{"x", HostView(data_of(thread, i))}});
        const auto& expected = alone[static_cast<std::size_t>(thread)][static_cast<std::size_t>(i % 3)];
        if (!results || results->at("y").bytes != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "of " << kThreads * runs << " runs";
}

/// On buffers of their own, and on others every third time: commands that are kept go from thread to thread.
TEST(Concurrency, EightThreadsSubmitOnBuffersOfTheirOwn) {
  const Executable program = block(device());
  const char* wanted = std::getenv("VKFUSE_TEST_RUNS");
  const int runs = wanted == nullptr ? 25 : std::atoi(wanted);
  constexpr int kThreads = 8;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    const std::vector<float> data = rows(8, static_cast<unsigned>(thread));
    threads.emplace_back([&wrong, &program, runs, data, expected = run(program, data)] {
      Bindings bindings[2];
      for (Bindings& one : bindings) {
        one.symbols["n"] = 8;
        one.inputs["x"] = must(device().allocate(data.size() * 4));
        one.outputs["y"] = must(device().allocate(data.size() * 4));
        must(one.inputs["x"].write(std::as_bytes(std::span(data))));
      }
      std::vector<std::byte> got(expected.size());
      for (int i = 0; i < runs; ++i) {
        const Bindings& own = bindings[i % 3 == 0 ? 1 : 0];
        const auto submission = program.submit(own);
        if (!submission || !submission->wait().ok() || !own.outputs.at("y").read(got).ok() || got != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "of " << kThreads * runs << " runs";
}

TEST(Concurrency, ARunDoesNotWaitForAnother) {
  const Executable program = block(device());
  const std::vector<float> data = rows(8, 1);
  const std::vector<std::byte> alone = run(program, data);
  // Three runs that do not end: a fourth has memory of its own, and ends.
  const SymbolValues symbols = {{"n", 8}};
  const auto first = must(program.state()->runs.take(symbols));
  const auto second = must(program.state()->runs.take(symbols));
  const auto third = must(program.state()->runs.take({{"n", 16}}));
  EXPECT_EQ(run(program, data), alone);
}

TEST(Concurrency, ThePoolHoldsFourRuns) {
  const WatchedDevice watched;
  const Executable program =
      must(compile(watched.device(), {exp(Tensor::input("x", DType::f32, {Dim::any("n"), 32}))}));
  for (const std::size_t n : {1, 2, 3, 4}) run(program, rows(n * 1000, 1));
  const std::uint64_t four = watched.allocated();
  for (const std::size_t n : {5, 6, 7}) run(program, rows(n, 1));
  EXPECT_LT(watched.allocated(), four)
      << "the largest of the four was the last to be used, and is kept; three small ones took the place of the others";
  const std::uint64_t now = watched.allocated();
  WatchedDevice::counts().clear();
  run(program, rows(4000, 1));
  EXPECT_EQ(WatchedDevice::counts().allocations, 0);
  EXPECT_EQ(watched.allocated(), now);
}

TEST(Concurrency, WhoFindsNoMemoryWaitsForWhoHasIt) {
  // 1.2 MB a run where there are 2: a second thread waits for the first, and both are right.
  DeviceOptions options;
  options.limits["memory_bytes"] = 2000000;
  const WatchedDevice watched(options);
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n")});
  const Executable program = must(compile(watched.device(), {exp(x)}));
  const std::vector<float> data(150000, 0.0F);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto results = program.run({{"x", HostView(data)}});
        if (!results || results->at("y").as<float>()[9] != 1.0F) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const std::vector<float> other(160000, 0.0F);  // the idle run of another size goes
  EXPECT_TRUE(program.run({{"x", HostView(other)}}).ok());
}

}  // namespace
}  // namespace vkfuse::test

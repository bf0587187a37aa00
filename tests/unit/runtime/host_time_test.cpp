// What the host does between a call and the device: for a replay, and for sizes that are new.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "api/tensor_node.hpp"
#include "support/judge.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double, std::micro>(to - from).count(); }

/// The queue's part of a submission: from the call of vkQueueSubmit to its return, of the last one.
Clock::time_point entered, returned;
PFN_vkQueueSubmit real_submit = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL timed_submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  entered = Clock::now();
  const VkResult result = real_submit(queue, count, infos, fence);
  returned = Clock::now();
  return result;
}

TEST(HostTime, OfAReplayIsSmall) {
  const Device own = must(Device::open());
  auto& calls = const_cast<vulkan::DeviceFunctions&>(own.state()->context->device()->functions());
  real_submit = calls.QueueSubmit.pointer;
  calls.QueueSubmit.pointer = timed_submit;
  std::vector<std::string> ops;
  for (int i = 0; i < 60; ++i) ops.emplace_back(i % 3 == 0 ? "neg" : i % 3 == 1 ? "abs" : "relu");
  CompileOptions options;
  options.fusion = false;
  const Executable program = must(compile_text(own, chain_text(64, ops), options));
  const std::vector<float> data = ramp(64);
  must(program.run({{"x", HostView(data)}}));
  double before = 1e9;  // the driver is called
  double within = 1e9;
  for (int i = 0; i < 100; ++i) {
    const auto start = Clock::now();
    must(program.run({{"x", HostView(data)}}));
    before = std::min(before, microseconds(start, entered));
    within = std::min(within, microseconds(entered, returned));
  }
  const int kernels = program.kernel_count();
  fmt::print("replay of {} kernels: {:.1f} us of the host before vkQueueSubmit, {:.1f} us in it\n", kernels, before, within);
  EXPECT_GE(kernels, 50);
  EXPECT_LT(before + within, 20.0 + kernels) << "20 us and 1 us a kernel; the least of 100 runs, because the machine does other things too";
}

/// One block of a transformer of `n` rows.
std::vector<Tensor> block(const Dim& n) {
  constexpr std::int64_t kWidth = 32, kHeads = 4;
  unsigned state = 7;
  const auto weight = [&](std::vector<std::int64_t> sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>((state = state * 1664525u + 1013904223u) >> 24) * 0.001F - 0.128F;
    return Tensor::constant(DType::f32, Shape(sizes.begin(), sizes.end()), std::as_bytes(std::span(values)));
  };
  const auto heads = [&](const Tensor& x) { return x.reshape({1, n, kHeads, kWidth / kHeads}).permute({0, 2, 1, 3}); };
  const auto linear = [&](const Tensor& x, std::int64_t from, std::int64_t to) { return matmul(x, weight({from, to})) + weight({to}); };
  const Tensor x = Tensor::input("x", DType::f32, {n, kWidth});
  const Tensor normal = normalize(x, {1}, 1e-5) * weight({kWidth}) + weight({kWidth});
  const Tensor q = heads(linear(normal, kWidth, kWidth)), k = heads(linear(normal, kWidth, kWidth)), v = heads(linear(normal, kWidth, kWidth));
  const Tensor seen = x + linear(attention(q, k, v).permute({0, 2, 1, 3}).reshape({n, kWidth}), kWidth, kWidth);
  const Tensor hidden = silu(linear(normalize(seen, {1}, 1e-5), kWidth, 4 * kWidth));
  return {seen + linear(hidden, 4 * kWidth, kWidth)};
}

TEST(DynamicShapes, OneProgramIsRightAtEveryLength) {
  const Executable program = must(compile(device(), block(Dim::any("n"))));
  const bool all = std::getenv("VKFUSE_TEST_LENGTHS") != nullptr;
  const std::vector<std::int64_t> some = {17, 64};
  std::vector<std::int64_t> lengths = some;
  for (std::int64_t n = 1; all && n <= 512; ++n) lengths.push_back(n);
  const auto& plan = program.state()->program->plan();
  std::vector<std::set<std::string>> texts(plan.steps.size());
  for (const std::int64_t n : lengths) {
    const ir::Graph graph = must(api::to_graph(block(Dim(n)), {}, "block"));
    const Data data = data_for({graph, {}, static_cast<std::uint64_t>(n), false});
    const Outputs outputs = must(program.run({{"x", HostView(std::span<const std::byte>(data.inputs.at("x")))}}));
    EXPECT_EQ(check_outputs(graph, data, {{"y", outputs.at("y").bytes}}).wrong, "") << n;
    const auto variant = variant_of(program, {{"n", n}});
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i].insert(variant->kernels[i].front().glsl);
  }
  std::size_t most = 0;
  for (const auto& one : texts) most = std::max(most, one.size());
  fmt::print("{} lengths: at most {} texts of a segment\n", lengths.size(), most);
}

TEST(DynamicShapes, ASizeThatWasSeenCostsNothing) {
  const WatchedDevice watched;
  const Executable program = must(compile(watched.device(), block(Dim::any("n"))));
  const auto variant = [&](std::int64_t n) { return must(program.state()->program->variant({{"n", n}})); };
  const auto first = variant(40);
  EXPECT_EQ(variant(40), first) << "kept";
  const std::uint64_t calls = watched.device().store().compiler_calls;
  const auto next = variant(41);  // like 40 in nothing but the number of rows
  static_cast<void>(next);
  const auto again = variant(39);
  EXPECT_NE(again, first);
  const std::uint64_t after = watched.device().store().compiler_calls;
  static_cast<void>(variant(43));
  EXPECT_EQ(watched.device().store().compiler_calls, after) << "43 differs from 39 and 41 in nothing that the text of a kernel depends on";
  EXPECT_GE(after, calls);
}

}  // namespace
}  // namespace vkfuse::test

#include "runtime/timer.hpp"

#include <algorithm>

#include "vulkan/command_buffer.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::uint32_t kRuns = 5;  // of each kernel; the median counts

}  // namespace

Result<KernelTimer> KernelTimer::create(OpenDevice& opened, std::uint64_t bytes) {
  VKF_TRY(stamps, vulkan::TimestampPool::create(opened.device(), 2 * kRuns));
  VKF_TRY(from, vulkan::Buffer::create(opened.device(), bytes, vulkan::BufferKind::device));
  VKF_TRY(to, vulkan::Buffer::create(opened.device(), bytes, vulkan::BufferKind::device));
  return KernelTimer(opened, std::move(stamps), std::move(from), std::move(to));
}

Result<double> KernelTimer::time(const Timed& timed) {
  VKF_TRY(pipeline, make_pipeline(*opened_, timed.kernel));
  VKF_TRY(commands, vulkan::CommandBuffer::create(opened_->device()));
  VKF_CHECK_OK(commands.begin());
  commands.reset_timestamps(stamps_);
  commands.bind(pipeline);
  const vulkan::BufferRange ranges[] = {{&from_, 0, 0}, {&to_, 0, 0}};
  commands.bind_buffers(ranges);
  // The first run finds cold clocks and caches.
  commands.dispatch(timed.workgroups);
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    commands.write_timestamp(stamps_, 2 * run);
    for (int i = 0; i < timed.times; ++i) {
      if (i > 0) commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
      commands.dispatch(timed.workgroups);
    }
    commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    commands.write_timestamp(stamps_, 2 * run + 1);
  }
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, opened_->device()->submit(commands));
  VKF_CHECK_OK(submission.wait());
  VKF_TRY(at, stamps_.nanoseconds());
  std::vector<double> spans;
  for (std::size_t run = 0; run < kRuns; ++run) spans.push_back((at[2 * run + 1] - at[2 * run]) * 1e-3);
  std::nth_element(spans.begin(), spans.begin() + kRuns / 2, spans.end());
  return std::max(spans[kRuns / 2], 0.01);
}

}  // namespace vkfuse::runtime

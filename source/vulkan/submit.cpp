// Submitting, and waiting for what was submitted.
#include <algorithm>
#include <thread>

#include "base/background.hpp"
#include "base/mutations.hpp"
#include "vulkan/command_buffer.hpp"
#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a blocked thread takes about 30 us, which a small kernel does not last: poll first.
constexpr auto kSpin = std::chrono::microseconds(50);
// Where a driver wakes a thread by an interrupt, that takes 0.2 ms (5.67 ms in place of 5.42 on an H100). Naps that are
// a small part of what has been waited for see the end sooner, and keep a core 3 % busy at most. A nap takes some 55 us
// more than it is asked for, so a wait takes none about the end that is expected, a sixteenth to either side: an eighth
// of a core if the end is missed.
constexpr auto kPatience = std::chrono::milliseconds(200);
constexpr Clock::duration kLeastNap = std::chrono::microseconds(20);
constexpr int kNaps = 64;
constexpr Clock::duration kLeastWindow = std::chrono::microseconds(150);
constexpr int kWindows = 16;
// Becomes the largest timeout of Vulkan: drivers add smaller ones to a clock, and may overflow.
constexpr auto kForever = std::chrono::nanoseconds::max();

Error lost_before() {
  return make_error(ErrorCode::device_lost, "The device was lost by an earlier call; open it again.");
}

}  // namespace

std::chrono::nanoseconds nap_between_polls(std::chrono::nanoseconds waited, std::chrono::nanoseconds age,
                                           std::chrono::nanoseconds expected) {
  if (waited < kSpin) return {};
  const std::chrono::nanoseconds nap = std::max<Clock::duration>(waited / kNaps, kLeastNap);
  if (expected == expected.zero()) return nap;
  const std::chrono::nanoseconds window = std::max<Clock::duration>(expected / kWindows, kLeastWindow);
  if (age > expected + window) return nap;
  return std::clamp(expected - window - age, std::chrono::nanoseconds::zero(), nap);
}

Result<Submission> Device::submit(const CommandBuffer& commands) {
  const CommandBuffer* one = &commands;
  return submit(std::span(&one, 1));
}

Result<Submission> Device::submit(std::span<const CommandBuffer* const> commands, const SubmissionPoints& points) {
  if (VKF_PLANT(lost_device_forgotten, lost(), false)) return lost_before();
  if (!has_timeline() && !(points.wait_for.empty() && points.signal.empty()))
    return unsupported("The device '{}' has no timeline semaphores, and a run is to wait for one or to signal one.",
                       info_.name);
  if (commands.empty()) return Submission();
  std::vector<VkCommandBuffer> buffers;
  buffers.reserve(commands.size());
  for (const CommandBuffer* command : commands) {
    if (!command->recorded()) return invalid("A command buffer is submitted whose recording did not end in success.");
    buffers.push_back(command->handle());
  }
  const std::lock_guard lock(*queue_mutex_);
  return submit_locked(buffers, points);
}

namespace {

/// What vkQueueSubmit takes of timeline semaphores.
struct SubmittedPoints {
  std::vector<VkSemaphore> waits, signals;
  std::vector<std::uint64_t> wait_values, signal_values;
  std::vector<VkPipelineStageFlags> stages;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};

  void signal(const TimelineValue& one) {
    signals.push_back(one.semaphore);
    signal_values.push_back(one.value);
  }
  explicit SubmittedPoints(const SubmissionPoints& points) {
    for (const TimelineValue& one : points.wait_for) {
      waits.push_back(one.semaphore);
      wait_values.push_back(one.value);
      stages.push_back(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    }
    for (const TimelineValue& one : points.signal) signal(one);
  }
  void link(VkSubmitInfo& info) {
    values.waitSemaphoreValueCount = info.waitSemaphoreCount = static_cast<std::uint32_t>(waits.size());
    values.signalSemaphoreValueCount = info.signalSemaphoreCount = static_cast<std::uint32_t>(signals.size());
    values.pWaitSemaphoreValues = wait_values.data();
    values.pSignalSemaphoreValues = signal_values.data();
    info.pNext = &values;
    info.pWaitSemaphores = waits.data();
    info.pWaitDstStageMask = stages.data();
    info.pSignalSemaphores = signals.data();
  }
};

}  // namespace

Result<Submission> Device::submit_locked(std::span<const VkCommandBuffer> buffers, const SubmissionPoints& points) {
  Submission submission;
  submission.device_ = shared_from_this();
  submission.value_ = submitted_ + 1;
  submission.submitted_at_ = Clock::now();
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = static_cast<std::uint32_t>(buffers.size());
  info.pCommandBuffers = buffers.data();
  SubmittedPoints submitted(points);
  VkFence fence = VK_NULL_HANDLE;
  if (has_timeline()) {
    submitted.signal({timeline_, submission.value_});
    submitted.link(info);
  } else {
    const VkFenceCreateInfo blank{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VKF_TRY(handle,
            Handle<VkFence, &DeviceFunctions::DestroyFence>::create(submission.device_, functions_.CreateFence, blank));
    fence = handle.get();
    submission.fence_ = std::make_shared<Fence>(Fence{std::move(handle)});
  }
  VKF_CHECK_OK(functions_.call(functions_.QueueSubmit, queue_, 1u, &info, fence));
  submitted_ = submission.value_;
  return submission;
}

// What failed may still be running, and the caller frees its buffers next: wait for the end of it.
// On a lost device this returns at once.
Error Submission::drained(Error error) const {
  device_->drain();
  return error;
}

Result<bool> Submission::poll(bool again) const {
  const DeviceFunctions& vk = device_->functions();
  const VkDevice device = device_->handle();
  const auto ask = [&](const auto& command, auto... args) {
    return again ? vk.repeat(command, args...) : vk.raw(command, args...);
  };
  if (fence_) {
    const VkResult result = ask(vk.GetFenceStatus, device, fence_->handle.get());
    if (result == VK_SUCCESS || result == VK_NOT_READY) return result == VK_SUCCESS;
    return drained(Calls::failure("vkGetFenceStatus", result));
  }
  std::uint64_t reached = 0;
  const VkResult result = ask(vk.GetSemaphoreCounterValue, device, device_->timeline(), &reached);
  if (result != VK_SUCCESS) return drained(Calls::failure("vkGetSemaphoreCounterValue", result));
  return reached >= value_;
}

Result<bool> Submission::block(std::uint64_t nanoseconds) const {
  const DeviceFunctions& vk = device_->functions();
  VkResult result = VK_SUCCESS;
  if (fence_) {
    const VkFence fence = fence_->handle.get();
    result = vk.raw(vk.WaitForFences, device_->handle(), 1u, &fence, static_cast<VkBool32>(VK_TRUE), nanoseconds);
  } else {
    const VkSemaphore timeline = device_->timeline();
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline;
    info.pValues = &value_;
    result = vk.raw(vk.WaitSemaphores, device_->handle(), &info, nanoseconds);
  }
  if (result == VK_SUCCESS || result == VK_TIMEOUT) return result == VK_SUCCESS;
  return drained(Calls::failure(fence_ ? "vkWaitForFences" : "vkWaitSemaphores", result));
}

Result<bool> Submission::done() const {
  if (value_ == 0) return true;
  if (device_->lost()) return lost_before();
  return poll();
}

Result<bool> Submission::wait_for(std::chrono::nanoseconds time, std::chrono::nanoseconds expected) const {
  const Clock::time_point start = Clock::now();
  VKF_TRY(ended, done());
  if (!ended && device_->info().type == DeviceType::cpu) expected = {};
  while (!ended) {
    const auto spent = Clock::now() - start;
    if (spent >= time) return false;
    if (spent >= kPatience) return block(time == kForever ? ~std::uint64_t{0} : (time - spent).count());
    const std::chrono::nanoseconds nap = nap_between_polls(spent, age(), expected);
    if (nap > nap.zero()) std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(nap, time - spent));
    VKF_TRY(now, poll(/*again=*/true));
    ended = now;
  }
  return true;
}

Result<void> Submission::wait(std::chrono::nanoseconds expected) const {
  VKF_TRY(ended, wait_for(kForever, expected));
  end_before_drivers_of_new_pipelines();
  if (ended) return {};
  return make_error(ErrorCode::device_error, "Submission {} of the device '{}' did not end.", value_,
                    device_->info().name);
}

}  // namespace vkfuse::vulkan

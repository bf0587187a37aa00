// Device times of a program's kernels.
#include <algorithm>

#include "runtime/host_run.hpp"

namespace vkfuse::runtime {

Result<std::vector<StepTime>> profile_runs(const Program& program, const Specialization& specialization,
                                           const Ranges& ranges) {
  // A device that waits lowers its clocks: one recording is queued while the other runs, for 0.3 s before samples
  // count.
  constexpr std::size_t fewest = 9, most = 99;
  constexpr double settle_us = 0.3e6, patience_us = 2e6;
  struct Recording {
    vulkan::TimestampPool times;
    vulkan::CommandBuffer commands;
    vulkan::Submission submission;
  };
  const auto& device = program.context()->device();
  const std::size_t steps = specialization.kernels.size();
  std::vector<Recording> recordings;
  for (int i = 0; i < 2; ++i) {
    VKF_TRY(times, vulkan::TimestampPool::create(device, static_cast<std::uint32_t>(steps) + 1));
    VKF_TRY(commands, vulkan::CommandBuffer::create(device));
    VKF_CHECK_OK(commands.begin());
    commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    VKF_CHECK_OK(program.record(commands, specialization, ranges, &times));
    VKF_CHECK_OK(commands.end());
    recordings.push_back({std::move(times), std::move(commands), {}});
  }
  std::vector<std::vector<double>> samples(steps);  // nanoseconds
  double passed_us = 0;
  const auto enough = [&] {
    const std::size_t taken = steps == 0 ? most : samples.front().size();
    return taken >= most || passed_us > patience_us || (taken >= fewest && passed_us > settle_us);
  };
  // Whatever ends this, nothing is freed that the device still works on.
  struct Waits {
    std::vector<Recording>& all;
    ~Waits() {
      for (const Recording& one : all) static_cast<void>(one.submission.wait());
    }
  } const waits{recordings};
  for (Recording& recording : recordings) {
    VKF_TRY(submission, device->submit(recording.commands));
    recording.submission = submission;
  }
  for (std::size_t turn = 0, queued = recordings.size(); queued > 0; ++turn) {
    Recording& recording = recordings[turn % recordings.size()];
    VKF_CHECK_OK(recording.submission.wait());
    --queued;
    VKF_TRY(times, recording.times.nanoseconds());
    if (passed_us < settle_us) {
      for (auto& of_step : samples) of_step.clear();  // the clocks were still rising
    }
    passed_us += times.back() * 1e-3;
    for (std::size_t i = 0; i < steps; ++i) samples[i].push_back(times[i + 1] - times[i]);
    if (enough()) continue;
    VKF_TRY(submission, device->submit(recording.commands));
    recording.submission = submission;
    ++queued;
  }
  std::vector<StepTime> result;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto middle = samples[i].begin() + static_cast<std::ptrdiff_t>(samples[i].size() / 2);
    std::nth_element(samples[i].begin(), middle, samples[i].end());
    result.push_back({specialization.kernels[i].front().kernel->name, *middle * 1e-3, specialization.bytes_moved(i)});
  }
  return result;
}

}  // namespace vkfuse::runtime

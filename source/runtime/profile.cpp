// Device times of a program's kernels.
#include <algorithm>

#include "runtime/host_run.hpp"

namespace vkfuse::runtime {

namespace {

// A device that waits lowers its clocks: one recording is queued while the other runs, for 0.3 s before samples count.
constexpr int kRecordings = 2;
constexpr double kSettleUs = 0.3e6, kPatienceUs = 2e6;
constexpr std::size_t kFewestSamples = 9, kMostSamples = 99;  // of a step

struct TimedRun {
  vulkan::TimestampPool times;
  vulkan::CommandBuffer commands;
  vulkan::Submission submission;
};

Result<TimedRun> record_timed_run(const Program& program, const Specialization& specialization, const Ranges& ranges) {
  const auto& device = program.context()->device();
  VKF_TRY(times, vulkan::TimestampPool::create(device, static_cast<std::uint32_t>(specialization.kernels.size()) + 1));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
  VKF_CHECK_OK(program.record(commands, specialization, ranges, &times));
  VKF_CHECK_OK(commands.end());
  return TimedRun{std::move(times), std::move(commands), {}};
}

/// However profiling ends, nothing is freed that the device still works on.
struct WaitsForRuns {
  const std::vector<TimedRun>& runs;
  ~WaitsForRuns() {
    for (const TimedRun& run : runs) static_cast<void>(run.submission.wait());
  }
};

/// Nanoseconds of each step in the runs that count.
class StepSamples {
 public:
  explicit StepSamples(std::size_t steps) : of_step_(steps) {}

  /// `times` are the timestamps of a run: where it begins, and the end of each step.
  void add(const std::vector<double>& times) {
    if (passed_us_ < kSettleUs) {
      for (auto& samples : of_step_) samples.clear();  // the clocks were still rising
    }
    passed_us_ += times.back() * 1e-3;
    for (std::size_t i = 0; i < of_step_.size(); ++i) of_step_[i].push_back(times[i + 1] - times[i]);
  }

  [[nodiscard]] bool is_enough() const {
    const std::size_t taken = of_step_.empty() ? kMostSamples : of_step_.front().size();
    return taken >= kMostSamples || passed_us_ > kPatienceUs || (taken >= kFewestSamples && passed_us_ > kSettleUs);
  }

  [[nodiscard]] double median(std::size_t step) {
    std::vector<double>& samples = of_step_[step];
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    return *middle;
  }

 private:
  std::vector<std::vector<double>> of_step_;
  double passed_us_ = 0;
};

}  // namespace

Result<std::vector<StepTime>> profile_runs(const Program& program, const Specialization& specialization,
                                           const Ranges& ranges) {
  const auto& device = program.context()->device();
  const std::size_t steps = specialization.kernels.size();
  std::vector<TimedRun> runs;
  for (int i = 0; i < kRecordings; ++i) {
    VKF_TRY(run, record_timed_run(program, specialization, ranges));
    runs.push_back(std::move(run));
  }
  StepSamples samples(steps);
  const WaitsForRuns waits{runs};
  for (TimedRun& run : runs) {
    VKF_TRY(submission, device->submit(run.commands));
    run.submission = submission;
  }
  for (std::size_t turn = 0, queued = runs.size(); queued > 0; ++turn) {
    TimedRun& run = runs[turn % runs.size()];
    VKF_CHECK_OK(run.submission.wait());
    --queued;
    VKF_TRY(times, run.times.nanoseconds());
    samples.add(times);
    if (samples.is_enough()) continue;
    VKF_TRY(submission, device->submit(run.commands));
    run.submission = submission;
    ++queued;
  }
  std::vector<StepTime> result;
  for (std::size_t i = 0; i < steps; ++i)
    result.push_back(
        {specialization.kernels[i].front().kernel->name, samples.median(i) * 1e-3, specialization.bytes_moved(i)});
  return result;
}

}  // namespace vkfuse::runtime

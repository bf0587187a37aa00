// Device times of a program's kernels, and of a run as a whole.
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

/// What of a program is timed, and where its values lie.
struct TimedProgram {
  const Program& program;
  const Specialization& specialization;
  const Ranges& ranges;
  /// A timestamp between kernels keeps one from beginning before the last has ended, as a run may let it.
  bool by_step = true;

  [[nodiscard]] std::size_t spans() const { return by_step ? specialization.kernels.size() : 1; }
};

Result<TimedRun> record_timed_run(const TimedProgram& what) {
  const auto& device = what.program.context()->device();
  VKF_TRY(times, vulkan::TimestampPool::create(device, static_cast<std::uint32_t>(what.spans()) + 1));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
  if (what.by_step) {
    VKF_CHECK_OK(what.program.record(commands, what.specialization, what.ranges, &times));
  } else {
    commands.reset_timestamps(times);
    commands.write_timestamp(times, 0);
    VKF_CHECK_OK(what.program.record(commands, what.specialization, what.ranges));
    commands.write_timestamp(times, 1);
  }
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

/// Nanoseconds of each step, or of all as one, in the runs that count.
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

Result<StepSamples> sample_runs(const TimedProgram& what) {
  const auto& device = what.program.context()->device();
  std::vector<TimedRun> runs;
  for (int i = 0; i < kRecordings; ++i) {
    VKF_TRY(run, record_timed_run(what));
    runs.push_back(std::move(run));
  }
  StepSamples samples(what.spans());
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
  return samples;
}

}  // namespace

Result<std::vector<StepTime>> profile_runs(const Program& program, const Specialization& specialization,
                                           const Ranges& ranges) {
  VKF_TRY(samples, sample_runs({program, specialization, ranges}));
  std::vector<StepTime> result;
  for (std::size_t i = 0; i < specialization.kernels.size(); ++i)
    result.push_back(
        {specialization.kernels[i].front().kernel->name, samples.median(i) * 1e-3, specialization.bytes_moved(i)});
  return result;
}

Result<double> replay_us(const Program& program, const Specialization& specialization, const Ranges& ranges) {
  if (specialization.kernels.empty()) return 0.0;  // nothing runs that would ever have taken long enough
  VKF_TRY(samples, sample_runs({program, specialization, ranges, /*by_step=*/false}));
  return samples.median(0) * 1e-3;
}

}  // namespace vkfuse::runtime

#include "timing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "batch.hpp"
#include "interrupt.hpp"

namespace vkfuse::bench {

namespace {

constexpr int kMaxUnits = 1024;           // runs in one command buffer
constexpr std::size_t kSteadyWindow = 9;  // runs per median while warming up
constexpr double kSteady = 0.01;

using Samples = std::vector<std::vector<double>>;  // by program

double median_of(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

/// Batches that together visit every set, at least two of them so that one waits in the queue while
/// another runs. A round that is too long for one submission is split into its programs.
Result<std::vector<Batch>> make_batches(std::span<const Bound* const> programs, double round_us, double submission_us) {
  const std::size_t sets = programs.front()->sets;
  const bool split = round_us > submission_us;
  const auto fitting = static_cast<std::size_t>(submission_us / round_us);
  const std::size_t rounds = std::clamp<std::size_t>(std::min(fitting, kMaxUnits / programs.size()), 1, 32);
  const std::size_t count = std::max<std::size_t>(2, (sets + rounds - 1) / rounds);
  std::vector<Batch> batches;
  std::size_t round = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Unit> units;
    for (std::size_t r = 0; r < rounds; ++r, ++round) {
      for (std::size_t program = 0; program < programs.size(); ++program) {
        // Every run takes the next set, whichever program it is: programs that share buffers would else
        // read what the one before has just brought into the cache.
        units.push_back({program, (round * programs.size() + program) % programs[program]->sets});
        if (!split) continue;
        VKF_TRY(batch, Batch::alone(programs, {units.back()}));
        batches.push_back(std::move(batch));
        units.clear();
      }
    }
    if (units.empty()) continue;
    VKF_TRY(batch, Batch::alone(programs, std::move(units)));
    batches.push_back(std::move(batch));
  }
  return batches;
}

int fewest(const Samples& samples) {
  std::size_t least = samples.front().size();
  for (const auto& one : samples) least = std::min(least, one.size());
  return static_cast<int>(least);
}

/// Submits batches in turn, one always waiting in the queue while another runs. `after` is called when one is done,
/// and says whether to go on.
template <typename After>
Result<void> turn(std::vector<Batch>& batches, Samples& samples, const bool& counted, After&& after) {
  VKF_CHECK_OK(batches.back().submit(false));
  for (std::size_t i = 0;; i = (i + 1) % batches.size()) {
    VKF_CHECK_OK(batches[i].submit(counted));
    Batch& done = batches[(i + batches.size() - 1) % batches.size()];
    VKF_CHECK_OK(done.finish(samples));
    if (!after(done) || interrupted()) break;
  }
  for (Batch& batch : batches) VKF_CHECK_OK(batch.finish(samples));
  return {};
}

/// Times of the first program while warming up decide when the samples of all begin to count.
Result<void> measure_alone(std::span<const Bound* const> programs, const TimingOptions& options, double round_us,
                           Measurement& result) {
  VKF_TRY(batches, make_batches(programs, round_us, options.submission_us));
  Samples samples(programs.size());
  Steadiness steadiness;
  const Clock::time_point start = Clock::now();
  bool warm = false;
  const bool counted = true;
  VKF_CHECK_OK(turn(batches, samples, counted, [&](const Batch&) {
    const double seconds = seconds_since(start);
    if (!warm) {
      for (double us : samples.front()) steadiness.add(us);
      for (auto& one : samples) one.clear();
      warm = (steadiness.steady() && seconds >= options.warm_seconds) || seconds >= options.most_warm_seconds;
      result.warm_seconds = seconds;
      return true;
    }
    return fewest(samples) < (seconds > options.budget_seconds ? options.min_samples : options.samples);
  }));
  result.steady = steadiness.steady();
  for (std::size_t i = 0; i < programs.size(); ++i) result.programs[i].alone = summarise(std::move(samples[i]));
  return {};
}

/// Batches of one program each, in turn; the time between the ends of two submissions is the later one's, unless that
/// was submitted later yet.
Result<void> measure_stream(std::span<const Bound* const> programs, const TimingOptions& options,
                            const std::vector<double>& run_us, Measurement& result) {
  std::vector<Batch> batches;
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const int runs = static_cast<int>(std::clamp(options.stream_us / run_us[i], 2.0, 256.0));
      const int fitting = std::max(1, static_cast<int>(options.submission_us / run_us[i]));
      VKF_TRY(batch, Batch::stream(*programs[i], i, half * static_cast<std::size_t>(runs), std::min(runs, fitting)));
      batches.push_back(std::move(batch));
    }
  }
  Samples samples(programs.size()), walls(programs.size());
  const Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  std::size_t finished = 0;
  bool counted = false;
  VKF_CHECK_OK(turn(batches, samples, counted, [&](const Batch& done) {
    // A turn of all batches passes before anything counts: descriptors and memory are touched for the first time.
    const std::chrono::duration<double, std::micro> wall = done.ended() - std::max(last, done.started());
    if (finished++ > batches.size() + 1) walls[done.program()].push_back(wall.count() / done.runs());
    counted = finished >= batches.size();
    last = done.ended();
    const bool late = seconds_since(start) > options.budget_seconds;
    return fewest(samples) < (late ? std::min(3, options.stream_samples) : options.stream_samples);
  }));
  for (std::size_t i = 0; i < programs.size(); ++i) {
    result.programs[i].stream = summarise(std::move(samples[i]));
    result.programs[i].wall = summarise(std::move(walls[i]));
  }
  return {};
}

/// The first program alone, a submission for each run.
Result<void> measure_replay(const Bound& program, const TimingOptions& options, Measurement& result) {
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < std::max<std::size_t>(2, program.sets); ++i) {
    const Bound* const only = &program;
    VKF_TRY(batch, Batch::alone({&only, 1}, {{0, i % program.sets}}));
    batches.push_back(std::move(batch));
  }
  Samples samples(1);
  std::size_t finished = 0;
  bool counted = false;
  const Clock::time_point start = Clock::now();
  VKF_CHECK_OK(turn(batches, samples, counted, [&](const Batch&) {
    // As with streams: every submission has run once before one counts.
    counted = ++finished >= batches.size();
    const bool late = seconds_since(start) > options.budget_seconds;
    return fewest(samples) < (late ? std::min(options.min_samples, options.replay_samples) : options.replay_samples);
  }));
  result.programs.front().replay = summarise(std::move(samples.front()));
  return {};
}

Result<Measurement> measure(std::span<const Bound* const> programs, const std::vector<double>& run_us,
                            const TimingOptions& options) {
  Measurement result;
  result.programs.resize(programs.size());
  VKF_CHECK_OK(measure_alone(programs, options, std::accumulate(run_us.begin(), run_us.end(), 0.0), result));
  if (options.stream_samples > 0) VKF_CHECK_OK(measure_stream(programs, options, run_us, result));
  if (options.replay_samples > 0) VKF_CHECK_OK(measure_replay(*programs.front(), options, result));
  return result;
}

}  // namespace

Times summarise(std::vector<double> samples) {
  Times times;
  times.samples = samples;
  if (samples.empty()) return times;
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    const double position = part * static_cast<double>(samples.size() - 1);
    const auto low = static_cast<std::size_t>(position);
    const double rest = position - std::floor(position);
    return samples[low] + (low + 1 < samples.size() ? rest * (samples[low + 1] - samples[low]) : 0);
  };
  times.median = at(0.5);
  times.p10 = at(0.1);
  times.p90 = at(0.9);
  return times;
}

void add_samples(Times& times, const Times& later, std::size_t most) {
  std::vector<double> all = std::move(times.samples);
  all.insert(all.end(), later.samples.begin(),
             later.samples.begin() + static_cast<std::ptrdiff_t>(std::min(most, later.samples.size())));
  times = summarise(std::move(all));
}

TimingOptions TimingOptions::of_a_visit() const {
  const auto part = [&](int count) { return (count + visits - 1) / visits; };
  TimingOptions one = *this;
  one.budget_seconds /= visits;
  one.samples = part(samples);
  one.min_samples = part(min_samples);
  one.stream_samples = part(stream_samples);
  one.replay_samples = part(replay_samples);
  return one;
}

void Steadiness::add(double us) {
  window_.push_back(us);
  if (window_.size() < kSteadyWindow) return;
  const double median = median_of(std::move(window_));
  window_.clear();
  steady_ = last_ > 0 && std::abs(median - last_) < kSteady * last_;
  last_ = median;
}

Result<std::vector<double>> estimate(std::span<const Bound* const> programs) {
  std::vector<double> all;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Samples samples(programs.size());
    VKF_TRY(batch, Batch::alone(programs, {{i, 0}}));
    for (int repeat = 0; repeat < 2; ++repeat) {
      VKF_CHECK_OK(batch.submit(repeat == 1));
      VKF_CHECK_OK(batch.finish(samples));
    }
    all.push_back(std::max(samples[i].front(), 0.1));
  }
  return all;
}

Result<Measurement> time_interleaved(std::span<const Bound* const> programs, const std::vector<double>& run_us,
                                     const TimingOptions& options) {
  auto result = measure(programs, run_us, options);
  // After an error the other batches may still run, and their buffers go next.
  if (!result) static_cast<void>(programs.front()->context().device()->wait_idle());
  return result;
}

}  // namespace vkfuse::bench

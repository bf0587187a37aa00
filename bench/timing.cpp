#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vkfuse::bench {

namespace {

using Clock = std::chrono::steady_clock;
using vulkan::Access;

constexpr double kBatchMicroseconds = 100e3;
constexpr int kMaxUnits = 1024;  // runs in one command buffer

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One timed run of a program on one of its sets.
struct Unit {
  std::size_t program = 0;
  std::size_t set = 0;
};

/// A recorded sequence of runs that is submitted again and again.
class Batch {
 public:
  static Result<Batch> create(std::span<const Bound* const> programs, std::vector<Unit> units) {
    Batch batch;
    batch.units_ = std::move(units);
    const std::shared_ptr<vulkan::Device>& device = programs.front()->program->context()->device();
    VKF_TRY(pool, vulkan::TimestampPool::create(device, static_cast<std::uint32_t>(2 * batch.units_.size())));
    VKF_TRY(commands, vulkan::CommandBuffer::create(device));
    VKF_CHECK_OK(commands.begin());
    commands.reset_timestamps(pool);
    std::uint32_t query = 0;
    for (const Unit& unit : batch.units_) {
      const Bound& bound = *programs[unit.program];
      // The time starts when everything before has ended, so no two runs overlap.
      commands.barrier(Access::compute | Access::transfer, Access::compute);
      commands.write_timestamp(pool, query++);
      VKF_CHECK_OK(bound.program->record(commands, *bound.variant, bound.sets[unit.set]));
      commands.write_timestamp(pool, query++);
    }
    VKF_CHECK_OK(commands.end());
    batch.device_ = device;
    batch.pool_ = std::move(pool);
    batch.commands_ = std::move(commands);
    return batch;
  }

  /// Nothing of it may be in flight. `counted` says whether the times are wanted.
  Result<void> submit(bool counted) {
    VKF_TRY(ticket, device_->submit(*commands_));
    ticket_ = std::move(ticket);
    counted_ = counted;
    return {};
  }

  /// Waits, and adds the microseconds of each run to its program.
  Result<void> finish(std::vector<std::vector<double>>& samples) {
    if (!ticket_) return {};
    VKF_CHECK_OK(ticket_->wait());
    ticket_.reset();
    if (!counted_) return {};
    VKF_TRY(times, pool_->nanoseconds());
    for (std::size_t i = 0; i < units_.size(); ++i) {
      samples[units_[i].program].push_back((times[2 * i + 1] - times[2 * i]) * 1e-3);
    }
    return {};
  }

 private:
  Batch() = default;
  std::vector<Unit> units_;
  std::shared_ptr<vulkan::Device> device_;
  std::optional<vulkan::TimestampPool> pool_;
  std::optional<vulkan::CommandBuffer> commands_;
  std::optional<vulkan::Ticket> ticket_;
  bool counted_ = false;
};

/// Microseconds of one run of every program, the second of two: a first one may still compile.
Result<double> estimate_round(std::span<const Bound* const> programs) {
  double total = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::vector<std::vector<double>> samples(programs.size());
    VKF_TRY(batch, Batch::create(programs, {{i, 0}}));
    for (int repeat = 0; repeat < 2; ++repeat) {
      VKF_CHECK_OK(batch.submit(repeat == 1));
      VKF_CHECK_OK(batch.finish(samples));
    }
    total += samples[i].front();
  }
  return std::max(total, 0.1);
}

/// Batches that together visit every set, at least two of them so that one waits in the queue while
/// another runs. A round that is too long for one submission is split into its programs.
Result<std::vector<Batch>> make_batches(std::span<const Bound* const> programs, double round_us) {
  const std::size_t sets = programs.front()->sets.size();
  const bool split = round_us > kBatchMicroseconds;
  const auto fitting = static_cast<std::size_t>(kBatchMicroseconds / round_us);
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
        units.push_back({program, (round * programs.size() + program) % programs[program]->sets.size()});
        if (!split) continue;
        VKF_TRY(batch, Batch::create(programs, {units.back()}));
        batches.push_back(std::move(batch));
        units.clear();
      }
    }
    if (units.empty()) continue;
    VKF_TRY(batch, Batch::create(programs, std::move(units)));
    batches.push_back(std::move(batch));
  }
  return batches;
}

Times summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    const double position = part * static_cast<double>(samples.size() - 1);
    const auto low = static_cast<std::size_t>(position);
    const double rest = position - std::floor(position);
    return samples[low] + (low + 1 < samples.size() ? rest * (samples[low + 1] - samples[low]) : 0);
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(samples.size())};
}

/// Turns the ring of batches until there are enough samples of every program.
Result<void> collect(std::vector<Batch>& batches, const TimingOptions& options, std::vector<std::vector<double>>& samples) {
  const auto fewest = [&] {
    std::size_t least = samples.front().size();
    for (const auto& one : samples) least = std::min(least, one.size());
    return static_cast<int>(least);
  };
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0;; i = (i + 1) % batches.size()) {
    VKF_CHECK_OK(batches[i].submit(seconds_since(start) >= options.warm_seconds));
    // One batch is left in the queue while the one before is read: more would only outlast the budget.
    VKF_CHECK_OK(batches[(i + batches.size() - 1) % batches.size()].finish(samples));
    const bool late = seconds_since(start) > options.budget_seconds;
    if (fewest() >= (late ? options.min_samples : options.samples)) break;
  }
  for (Batch& batch : batches) VKF_CHECK_OK(batch.finish(samples));
  return {};
}

}  // namespace

Result<std::vector<Times>> time_interleaved(std::span<const Bound* const> programs, const TimingOptions& options) {
  VKF_TRY(round_us, estimate_round(programs));
  VKF_TRY(batches, make_batches(programs, round_us));
  std::vector<std::vector<double>> samples(programs.size());
  if (auto collected = collect(batches, options, samples); !collected.ok()) {
    // The other batches may still run, and their buffers go next.
    static_cast<void>(programs.front()->program->context()->device()->wait_idle());
    return std::move(collected).error();
  }
  std::vector<Times> times;
  for (auto& one : samples) times.push_back(summarise(std::move(one)));
  return times;
}

}  // namespace vkfuse::bench

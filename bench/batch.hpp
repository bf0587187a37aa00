// A recorded sequence of runs between device timestamps, submitted again and again.
#pragma once

#include <chrono>

#include "bound.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One timed run of a program on one of its sets.
struct Unit {
  std::size_t program = 0;
  std::size_t set = 0;
};

class Batch {
 public:
  /// Each unit by itself: a barrier and a timestamp before and after it.
  static Result<Batch> alone(std::span<const Bound* const> programs, std::vector<Unit> units);
  /// `runs` of one program, from set `first` on, one after the other; one time for all of them. A barrier where a run
  /// writes what an earlier one touched.
  static Result<Batch> stream(const Bound& bound, std::size_t program, std::size_t first, int runs);

  /// Nothing of it may be in flight. `counted` says whether the times are wanted.
  Result<void> submit(bool counted);
  /// Waits, and adds the microseconds of each run to its program.
  Result<void> finish(std::vector<std::vector<double>>& samples);

  /// When it was submitted and when its end was seen, by the host's clock. Some drivers run it before they return from
  /// the submission.
  [[nodiscard]] Clock::time_point started() const { return started_; }
  [[nodiscard]] Clock::time_point ended() const { return ended_; }
  [[nodiscard]] std::size_t program() const { return units_.front().program; }
  [[nodiscard]] int runs() const { return runs_; }

 private:
  Batch() = default;
  Result<void> begin(const Bound& bound, std::size_t timestamps);

  std::vector<Unit> units_;
  int runs_ = 1;  ///< between two timestamps
  std::shared_ptr<vulkan::Device> device_;
  std::optional<vulkan::TimestampPool> pool_;
  std::optional<vulkan::CommandBuffer> commands_;
  std::optional<vulkan::Submission> submission_;
  bool counted_ = false;
  bool done_ = false;
  Clock::time_point started_, ended_;
};

}  // namespace vkfuse::bench

// Device times of several programs, measured side by side.
#pragma once

#include <span>

#include "bound.hpp"

namespace vkfuse::bench {

/// No submission is planned to be longer; a row that has a longer run is run smaller.
constexpr double kMostSubmissionUs = 250e3;

struct TimingOptions {
  double warm_seconds = 0.3;     ///< at least, before the first sample counts: clocks rise with load, not at once
  double most_warm_seconds = 1;  ///< whether times are steady by then or not
  double budget_seconds = 5;     ///< of each protocol: stop with fewer samples rather than take longer
  int samples = 51;
  int min_samples = 5;           ///< whatever the budget says
  int stream_samples = 25;       ///< 0: runs back to back are not measured
  int replay_samples = 0;        ///< of the first program; 0: replays are not measured
  double stream_us = 4e3;        ///< length of a sample of runs back to back
  double submission_us = 100e3;  ///< planned for one, unless one run is longer
  /// A row is measured in as many visits, between which all others are: what else the machine does slows some rows of a
  /// visit and not others, and seldom the same ones in the next.
  int visits = 1;
  double row_seconds = 1e9;  ///< a row that has taken so long gets no further visit

  /// What one visit takes of it.
  [[nodiscard]] TimingOptions of_a_visit() const;
};

/// In microseconds.
struct Times {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  std::vector<double> samples;  ///< as measured, the earliest first

  [[nodiscard]] int n() const { return static_cast<int>(samples.size()); }
};
Times summarise(std::vector<double> samples);
/// With the samples of a later visit behind its own; `most` of them.
void add_samples(Times& times, const Times& later, std::size_t most = ~std::size_t{0});

/// Of one program. Empty where the protocol was not asked for.
struct Timing {
  Times alone;   ///< one run between barriers: it starts when everything before has ended, and ends before the next
  Times stream;  ///< one of many runs back to back, with barriers only where they use the same memory
  Times wall;    ///< the same by the host's clock, from one submission's end to the next one's, the queue never empty
  Times replay;  ///< one run that is a submission, between a timestamp at its begin and one at its end
};

struct Measurement {
  std::vector<Timing> programs;
  double warm_seconds = 0;
  bool steady = false;  ///< the rolling median had settled when the first sample was taken
};

/// Whether times have settled: the medians of the last two windows differ by less than 1 %.
class Steadiness {
 public:
  void add(double us);
  [[nodiscard]] bool steady() const { return steady_; }

 private:
  std::vector<double> window_;
  double last_ = 0;
  bool steady_ = false;
};

/// Microseconds of one run of each program by itself, the second of two: a first one may still compile.
Result<std::vector<double>> estimate(std::span<const Bound* const> programs);

/// `run_us`: estimates. Warms up, then measures each protocol. Runs take turns (a, b, c, a, b, c, ...) and each take
/// the next set of buffers; the next submission is queued before the last one is waited for. An interrupt
/// (interrupt.hpp) ends it with what there is.
Result<Measurement> time_interleaved(std::span<const Bound* const> programs, const std::vector<double>& run_us,
                                     const TimingOptions& options);

}  // namespace vkfuse::bench

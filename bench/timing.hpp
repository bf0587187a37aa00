// Device times of several programs, measured side by side.
#pragma once

#include <span>

#include "bound.hpp"

namespace vkfuse::bench {

struct TimingOptions {
  double warm_seconds = 0.3;  ///< run before the first sample counts: clocks rise with load, not at once
  double budget_seconds = 5;  ///< stop with fewer samples rather than take longer
  int samples = 51;
  int min_samples = 5;        ///< whatever the budget says
};

/// Of one program, in microseconds.
struct Times {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
  int n = 0;
};

/// A sample is one run between two device timestamps. Runs take turns (a, b, c, a, b, c, ...) and
/// each take the next set of buffers; the next submission is queued before the last one is waited for. No
/// submission is longer than about 100 ms, unless one run is.
Result<std::vector<Times>> time_interleaved(std::span<const Bound* const> programs, const TimingOptions& options);

}  // namespace vkfuse::bench

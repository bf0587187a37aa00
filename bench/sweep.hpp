// Is the default schedule the best one? Every other is measured beside it.
#pragma once

#include "bench_row.hpp"

namespace vkfuse::bench {

struct SweepPoint {
  int workgroup = 0;
  int vector_bytes = 0;  ///< of the widest access
  int items_in_flight = 0;
  Times times;
};

struct SweepResult {
  const Row* row = nullptr;
  Outcome outcome = Outcome::failed;
  std::string detail;
  std::string size;
  SweepPoint standard;  ///< what the model chooses
  SweepPoint best;      ///< the fastest of `all`
  std::vector<SweepPoint> all;
  /// Median of the default over median of the best, measured again with only the two: the best of many
  /// noisy figures looks better than it is.
  double ratio = 0;
};

SweepResult sweep_row(const Session& session, const Row& row);

}  // namespace vkfuse::bench

// Is the default schedule the best one? Every other is measured beside it.
#pragma once

#include "bench_row.hpp"

namespace vkfuse::bench {

struct SweepPoint {
  /// Of the step that moves the most bytes, one that folds before any other. Pointwise and tiled: "workgroup x widest
  /// access x chunks in flight"; rows: "lanes of rows x lanes of columns, widest access x chunks in flight", and what
  /// is kept, online, or split in parts.
  std::string text;
  schedule::Schedule schedule;  ///< the same step's
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
  int refused = 0;  ///< tunings that no schedule has: beyond a limit, or longer chains of additions than promised
  /// Median of the default over median of the best, measured again with only the two: the best of many
  /// noisy figures looks better than it is.
  double ratio = 0;
};

/// Bytes of one load or store instruction.
int widest_access(const schedule::Schedule& schedule);

SweepResult sweep_row(const Session& session, const Request& request);

}  // namespace vkfuse::bench

// What each planner makes of a row: who decides what is stored, over the same templates.
#pragma once

#include "bench_row.hpp"

namespace vkfuse::bench {

/// One planner's program.
struct PlannerPoint {
  partition::Policy policy = partition::Policy::bytes;
  int kernels = 0;
  std::int64_t bytes = 0;  ///< that they read and write
  double modelled_us = 0;
  std::optional<partition::Policy> same_as;  ///< an earlier planner made the same kernels: they are timed once
  Times times;  ///< of one run between barriers; none where a run takes longer than a submission may
};

struct PlannersResult {
  const Row* row = nullptr;
  Outcome outcome = Outcome::failed;
  std::string detail;
  std::string name_of_case;
  std::vector<PlannerPoint> points;

  /// A planner that does better than `bytes`: moves fewer bytes in no more modelled time, is modelled more than a
  /// percent faster for no more bytes, or more than 15 % faster for whatever it moves (for fewer bytes `bytes` takes so
  /// much longer, where the costs of a device are not measured).
  [[nodiscard]] const PlannerPoint* better_by_model() const;
  /// The same of measured times, by more than they scatter: the fastest tenth of `bytes` is slower than the other's
  /// slowest tenth.
  [[nodiscard]] const PlannerPoint* faster_measured() const;
};

PlannersResult planners_row(const Session& session, const Request& request);

}  // namespace vkfuse::bench

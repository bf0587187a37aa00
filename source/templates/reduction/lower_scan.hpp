// How the threads that share a row tell each other what they have seen of a chunk, so that a running reduction
// goes on from thread to thread.
#pragma once

#include "templates/reduction/lower_combine.hpp"

namespace vkfuse::lowering {

/// The names of one scan in the text. Its accumulator is the carry: the reduction of the iterations before.
struct ScanText {
  ReductionText reduction;
  bool exclusive = false;
  int depth = 1;  ///< 1 more than the scans that its operand is computed from
  Code total;     ///< of the thread's elements of this chunk, then of all threads'
  Code before;    ///< of the elements of the threads before this one
  Code threads;   ///< shared memory
  [[nodiscard]] const Code& carry() const { return reduction.accumulators[0].name; }
  [[nodiscard]] const Code& identity() const { return reduction.accumulators[0].identity; }
};

class WorkgroupScan {
 public:
  WorkgroupScan(const schedule::Schedule& schedule, const Combine& combine)
      : schedule_(schedule), params_(schedule.as<schedule::ReductionParams>()), combine_(combine) {}

  /// Whether threads meet in shared memory. Its two halves serve by turns, so that one barrier is enough.
  [[nodiscard]] bool uses_memory() const { return params_.scan_slots(schedule_.subgroup) > 0; }
  void declare_shared(const ScanText& scan, Writer& shared) const;

  /// From each thread's `total`: `before`, and `total` of all threads of the row.
  void across_threads(std::span<const ScanText* const> scans, Writer& main) const;

 private:
  void butterfly(std::span<const ScanText* const> scans, int threads, Writer& main) const;
  void across_subgroups(std::span<const ScanText* const> scans, Writer& main) const;
  void by_memory(std::span<const ScanText* const> scans, Writer& main) const;

  const schedule::Schedule& schedule_;
  const schedule::ReductionParams& params_;
  const Combine& combine_;
};

}  // namespace vkfuse::lowering

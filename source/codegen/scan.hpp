// How the lanes that share a row tell each other what they have seen of an item, so that a running fold
// goes on from lane to lane.
#pragma once

#include "codegen/combine.hpp"

namespace vkfuse::codegen {

/// The names of one scan in the text. Its accumulator is the carry: the fold of the trips before.
struct ScanText {
  ReductionText reduction;
  bool exclusive = false;
  int depth = 1;       ///< 1 more than the scans that its operand is computed from
  std::string total;   ///< of the lane's elements of this item, then of all lanes'
  std::string before;  ///< of the elements of the lanes before this one
  std::string lanes;   ///< shared memory
  [[nodiscard]] const std::string& carry() const { return reduction.fields[0].name; }
  [[nodiscard]] const std::string& identity() const { return reduction.fields[0].identity; }
};

class WorkgroupScan {
 public:
  WorkgroupScan(const schedule::Schedule& schedule, const Combine& combine) : schedule_(schedule), combine_(combine) {}

  /// Whether lanes meet in shared memory. Its two halves serve by turns, so that one barrier is enough.
  [[nodiscard]] bool uses_memory() const { return schedule::scan_slots(schedule_) > 0; }
  void declare_shared(const ScanText& scan, Writer& shared) const;

  /// From each lane's `total`: `before`, and `total` of all lanes of the row.
  void across_threads(std::span<const ScanText* const> scans, Writer& main) const;

 private:
  void butterfly(std::span<const ScanText* const> scans, int lanes, Writer& main) const;
  void across_subgroups(std::span<const ScanText* const> scans, Writer& main) const;
  void by_memory(std::span<const ScanText* const> scans, Writer& main) const;

  const schedule::Schedule& schedule_;
  const Combine& combine_;
};

}  // namespace vkfuse::codegen

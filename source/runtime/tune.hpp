// Which schedule is the fastest on this device, by measurement.
#pragma once

#include <functional>

#include "runtime/program.hpp"

namespace vkfuse::runtime {

struct TuneOptions {
  double budget_ms = 0;
  /// Told after each kernel that was looked at; may be empty.
  std::function<void(const TuneProgress&)> progress;
  /// Asked between measurements; true ends the search early. May be empty.
  std::function<bool()> stop;
};

/// Measures other schedules of a program's kernels beside their own, those that take longest first, and has the program
/// adopt what is faster beyond noise. A schedule whose results are not those of the kernel's own is never adopted. What
/// was found is kept in the store, and taken from there without a measurement. Ends with the budget, between two
/// measurements. ErrorCode::unsupported where the queue has no timestamps and the store does not know a kernel.
Result<TuneProgress> tune(Program& program, const SymbolValues& symbols, const TuneOptions& options);

/// Whether times of a candidate, each taken right after one of the standard's, are shorter by more than such times
/// differ anyway.
bool beyond_noise(std::span<const double> standard, std::span<const double> candidate);

/// Whether two kernels computed the same: integers exactly, floats as near as other orders of additions leave them.
bool agree(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace vkfuse::runtime

// What schedules promise about rounding and the reference relies on.
#pragma once

#include <cstdint>

namespace vkfuse {

/// The most partial results that a sum of n elements adds one after the other, on any device and in any
/// schedule: its error is at most this many units of the sum of magnitudes.
constexpr std::int64_t longest_sum_chain(std::int64_t n) { return n < 1024 ? n : 1024 + n / 64; }

}  // namespace vkfuse

// What schedules promise of rounding, so that bounds can be stated before one is chosen.
#pragma once

#include <cstdint>

namespace vkfuse {

/// The most partial results of a reduction over `n` elements that any schedule adds one after the other: no
/// sum rounds an element more often. Schedules keep to this, and the reference's error bounds count on it.
constexpr std::int64_t longest_sum_chain(std::int64_t n) { return n < 1024 ? n : 1024 + n / 64; }

/// The same of a sum of products: one after the other, as tiles of a matrix product add them up.
constexpr std::int64_t longest_dot_chain(std::int64_t n) { return n; }

}  // namespace vkfuse

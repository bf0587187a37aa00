// What drivers may make of numbers below the smallest normal one.
#pragma once

#include <cmath>
#include <limits>

namespace vkfuse::reference {

/// Whether an infinity stands for `want`, of which the reference has no bound, because it is the logarithm, the
/// reciprocal or the reciprocal square root of a denormal: a driver may take a computed one as zero. Natural logarithms
/// of denormals of f32 are -103.3 to -87.3, those to base 2 are -149 to -126; reciprocals are 2^126 and more, those of
/// square roots 2^63 to 2^74.5.
inline bool is_of_flushed(double got, double want, double bound) {
  if (!std::isinf(bound) || !std::isinf(got)) return false;
  if (got < 0 && ((want >= -103.3 && want <= -87.3) || (want >= -149 && want <= -126))) return true;
  const bool is_reciprocal = std::abs(want) >= 0x1p126;
  const bool is_of_root = want >= 0x1p63 && want <= 0x1.7p74;
  return std::signbit(got) == std::signbit(want) && (is_reciprocal || is_of_root);
}

}  // namespace vkfuse::reference

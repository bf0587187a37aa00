// What drivers may make of numbers below the smallest normal one.
#pragma once

#include <cmath>
#include <limits>

namespace vkfuse::reference {

/// Whether -infinity stands for `want`, of which the reference has no bound, because it is the logarithm of a denormal:
/// a driver may take a computed one as zero. Natural logarithms of denormals of f32 are -103.3 to -87.3, those to base
/// 2 are -149 to -126.
inline bool is_log_of_flushed(double got, double want, double bound) {
  const bool natural = want >= -103.3 && want <= -87.3;
  const bool binary = want >= -149 && want <= -126;
  return std::isinf(bound) && got == -std::numeric_limits<double>::infinity() && (natural || binary);
}

}  // namespace vkfuse::reference

#include "reference/tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace vkfuse::reference {

Tolerance tolerance_for(DType dtype, std::span<const double> values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  return {half ? 1e-2 : 1e-3, std::max(1e-7, (half ? 1e-3 : 1e-5) * largest)};
}

bool agrees(double got, double want, const Tolerance& tolerance, double bound) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (got == want) return true;
  const double base = tolerance.relative * std::abs(want) + tolerance.absolute;
  return std::abs(got - want) <= base + std::min(bound, 16 * base);
}

}  // namespace vkfuse::reference

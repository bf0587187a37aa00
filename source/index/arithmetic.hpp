// 64-bit arithmetic that neither wraps nor is undefined: saturating for intervals, checked for coefficients.
#pragma once

#include <cstdint>
#include <limits>

#include "base/error.hpp"

namespace vkfuse::index {

inline constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

/// Rounds towards minus infinity; divisor > 0.
inline std::int64_t floor_quotient(std::int64_t value, std::int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}
inline std::int64_t floor_remainder(std::int64_t value, std::int64_t divisor) {
  const std::int64_t remainder = value % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

inline std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? kLowest : kHighest;
}
inline std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? kHighest : kLowest;
}

/// For what sizes that fit 64 bits cannot exceed: a wrapped coefficient would be a wrong address.
inline std::int64_t exact_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  check(!__builtin_add_overflow(a, b, &sum), "A sum in an index expression does not fit 64 bits.");
  return sum;
}
inline std::int64_t exact_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  check(!__builtin_mul_overflow(a, b, &product), "A product in an index expression does not fit 64 bits.");
  return product;
}

}  // namespace vkfuse::index

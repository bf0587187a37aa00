// What the files of rows share: the families, the error model and the ways errors spread.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "ops/op.hpp"

namespace vkfuse::ops {

std::span<const OpRow> arithmetic_rows();
std::span<const OpRow> special_rows();
std::span<const OpRow> bit_and_logic_rows();
std::span<const OpRow> compare_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> reduction_rows();
std::span<const OpRow> float_format_rows();

using Reals = const double*;
using Integers = const std::int64_t*;
using Approxes = const Approx*;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Error model. ----------------------------------------------------------------------------------

/// Whether `eps` is the unit of f64.
constexpr bool is_double(double eps) { return eps < 0x1p-40; }

/// The smallest normal number of the register type whose unit is `eps`. A driver may flush any
/// smaller operand or result to zero.
constexpr double smallest_normal(double eps) { return is_double(eps) ? 0x1p-1022 : 0x1p-126; }

/// The largest finite number of that type, as a threshold for overflow.
constexpr double largest_finite(double eps) { return is_double(eps) ? 0x1.fffffffffffffp1023 : 0x1.fffffep127; }

inline bool is_subnormal(double x, double eps) { return x != 0 && std::abs(x) < smallest_normal(eps); }

/// `count` units of the result, and what flushing may lose: the result, or about as much from the
/// operands of a function whose slope at zero is near one. Infinite and NaN results have no error.
inline double units(double count, double y, double eps) {
  return std::isfinite(y) ? count * eps * std::abs(y) + 2 * smallest_normal(eps) : 0;
}

template <int kUnits>
double ulps(Reals, double y, double eps) {
  return units(kUnits, y, eps);
}

/// The same for functions that are steep or discontinuous at zero: undecided where an operand is
/// subnormal, because a driver may take it as zero.
template <int kUnits, int kArity = 1>
double ulps_of_normals(Reals x, double y, double eps) {
  for (int i = 0; i < kArity; ++i) {
    if (is_subnormal(x[i], eps)) return kInfinity;
  }
  return units(kUnits, y, eps);
}

/// Exact, but for subnormal operands, which a driver may take as zero.
template <int kArity>
double exact_of_normals(Reals x, double, double eps) {
  for (int i = 0; i < kArity; ++i) {
    if (is_subnormal(x[i], eps)) return kInfinity;
  }
  return 0;
}

// Spread. ---------------------------------------------------------------------------------------

/// How far f(corner) is from y at most, over all corners x_i +- e_i; undecided where f has no value.
/// This bounds functions that are monotone in each operand by itself, and convex ones.
double corner_propagation(double (*f)(Reals), int arity, Approxes x, double y);

/// True where an operand that is not exactly zero may be subnormal or change its sign.
inline bool may_vanish(const Approx& x) {
  const bool exactly_zero = x.value == 0 && x.bound == 0;
  return !exactly_zero && std::abs(x.value) - x.bound < smallest_normal(0x1p-23);
}

inline bool contains_zero(const Approx& x) { return std::abs(x.value) <= x.bound; }

/// Corners for a function with a pole or a branch point at zero of its operand.
template <double (*kFunction)(Reals)>
double propagate_off_zero(Approxes x, double y) {
  return may_vanish(x[0]) ? kInfinity : corner_propagation(kFunction, 1, x, y);
}

/// Corners for a function whose domain has an edge: undecided where a corner lies outside.
template <double (*kFunction)(Reals)>
double propagate_in_domain(Approxes x, double y) {
  return corner_propagation(kFunction, 1, x, y);
}

// Glsl entries. ---------------------------------------------------------------------------------

/// One text for every number type; `pair64` apart.
constexpr Glsl on_numbers(std::string_view text, std::string_view pair64) {
  return {.f32 = text, .i32 = text, .u32 = text, .i64 = text, .u64 = text, .pair64 = pair64, .f64 = text};
}
/// One text for every integer type; `pair64` apart.
constexpr Glsl on_integers(std::string_view text, std::string_view pair64) {
  return {.i32 = text, .u32 = text, .i64 = text, .u64 = text, .pair64 = pair64};
}

// Integer helpers without undefined behaviour. ----------------------------------------------------

constexpr bool is_unsigned(DType dtype) { return is_integer(dtype) && !is_signed_integer(dtype); }
constexpr std::uint64_t as_unsigned(std::int64_t x) { return static_cast<std::uint64_t>(x); }
constexpr std::int64_t as_signed(std::uint64_t x) { return static_cast<std::int64_t>(x); }
constexpr bool less(std::int64_t a, std::int64_t b, DType dtype) {
  return is_unsigned(dtype) ? as_unsigned(a) < as_unsigned(b) : a < b;
}

}  // namespace vkfuse::ops

// Rows of the arithmetic that floats and integers share, and of rounding.
#include <algorithm>

#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

// References that more than one field of a row needs, or that take more than a line. ---------------

double real_div(Reals x) { return x[0] / x[1]; }
double real_sqrt(Reals x) { return std::sqrt(x[0]); }
double real_rsqrt(Reals x) { return 1 / std::sqrt(x[0]); }
double real_reciprocal(Reals x) { return 1 / x[0]; }
double real_sign(Reals x) { return std::isnan(x[0]) ? kNaN : double((x[0] > 0) - (x[0] < 0)); }

double real_min(Reals x) {
  if (std::isnan(x[0]) || std::isnan(x[1])) return kNaN;
  return x[1] < x[0] ? x[1] : x[0];
}

double real_max(Reals x) {
  if (std::isnan(x[0]) || std::isnan(x[1])) return kNaN;
  return x[0] < x[1] ? x[1] : x[0];
}

double real_clamp(Reals x) {
  const double raised[] = {x[0], x[1]};
  const double lowered[] = {real_max(raised), x[2]};
  return real_min(lowered);
}

/// Python's: the remainder takes the sign of the divisor.
double real_mod(Reals x) {
  const double rest = std::fmod(x[0], x[1]);
  if (rest == 0) return std::copysign(0.0, x[1]);
  return (rest < 0) != (x[1] < 0) ? rest + x[1] : rest;
}

std::int64_t integer_div(Integers x, DType dtype) {
  if (x[1] == 0) return 0;
  if (is_unsigned(dtype)) return as_signed(as_unsigned(x[0]) / as_unsigned(x[1]));
  return x[1] == -1 ? as_signed(0 - as_unsigned(x[0])) : x[0] / x[1];
}

std::int64_t integer_rem(Integers x, DType dtype) {
  if (x[1] == 0) return x[0];
  if (is_unsigned(dtype)) return as_signed(as_unsigned(x[0]) % as_unsigned(x[1]));
  return x[1] == -1 ? 0 : x[0] % x[1];
}

std::int64_t integer_mod(Integers x, DType dtype) {
  const std::int64_t rest = integer_rem(x, dtype);
  const bool other_sign = !is_unsigned(dtype) && x[1] != 0 && rest != 0 && (rest < 0) != (x[1] < 0);
  return other_sign ? rest + x[1] : rest;
}

std::int64_t integer_min(Integers x, DType dtype) { return less(x[1], x[0], dtype) ? x[1] : x[0]; }
std::int64_t integer_max(Integers x, DType dtype) { return less(x[0], x[1], dtype) ? x[1] : x[0]; }

std::int64_t integer_clamp(Integers x, DType dtype) {
  const std::int64_t raised[] = {integer_max(x, dtype), x[2]};
  return integer_min(raised, dtype);
}

std::int64_t integer_sign(Integers x, DType dtype) { return is_unsigned(dtype) ? x[0] != 0 : (x[0] > 0) - (x[0] < 0); }

// Error bounds. -----------------------------------------------------------------------------------

/// A subnormal factor may be taken as zero, and then all of the product is lost.
double mul_error(Reals x, double y, double eps) {
  const bool flushed = is_subnormal(x[0], eps) || is_subnormal(x[1], eps);
  return units(1, y, eps) + (flushed && !std::isnan(y) ? std::abs(y) : 0);
}

/// As a product that is rounded and then added: a driver may take fma() apart.
double fma_error(Reals x, double y, double eps) {
  const double product = x[0] * x[1];
  if (!std::isfinite(x[0]) || !std::isfinite(x[1])) return mul_error(x, product, eps);
  if (std::abs(product) >= largest_finite(eps))
    return kInfinity;  // the rounded product overflows, the fused one may not
  return mul_error(x, product, eps) + units(1, y, eps) + units(1, product, eps);
}

/// The remainder is exact (integer arithmetic); the addition that changes its sign rounds.
double mod_error(Reals x, double y, double eps) {
  return is_subnormal(x[0], eps) || is_subnormal(x[1], eps) ? kInfinity
                                                            : units(1, std::max(std::abs(y), std::abs(x[1])), eps);
}

double div_spread(Approxes x, double y) { return may_vanish(x[1]) ? kInfinity : corner_propagation(real_div, 2, x, y); }

/// Between two jumps the remainder is linear: it moves with x, and with y times the quotient.
template <double (*kRound)(double)>
double remainder_spread(Approxes x, double) {
  if (x[0].bound == 0 && x[1].bound == 0) return 0;
  if (may_vanish(x[1])) return kInfinity;
  const double quotient = kRound(x[0].value / x[1].value);
  for (const double a : {x[0].value - x[0].bound, x[0].value + x[0].bound}) {
    for (const double b : {x[1].value - x[1].bound, x[1].value + x[1].bound}) {
      if (kRound(a / b) != quotient) return kInfinity;
    }
  }
  return x[0].bound + std::abs(quotient) * x[1].bound;
}

double truncated(double x) { return std::trunc(x); }
double floored(double x) { return std::floor(x); }

// One row each. -----------------------------------------------------------------------------------

// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "add", .role = Role::add, .arity = 2, .types = kNumbers,
     .glsl = on_numbers("{0} + {1}", "pair_add({0}, {1})"),
     .real = [](Reals x) { return x[0] + x[1]; },
     .integer = [](Integers x, DType) { return as_signed(as_unsigned(x[0]) + as_unsigned(x[1])); },
     .own_error = ulps<1>, .commutative = true, .of_product = "fma",
     .doc = "Sum. Integers wrap."},
    {.name = "sub", .role = Role::sub, .arity = 2, .types = kNumbers,
     .glsl = on_numbers("{0} - {1}", "pair_sub({0}, {1})"),
     .real = [](Reals x) { return x[0] - x[1]; },
     .integer = [](Integers x, DType) { return as_signed(as_unsigned(x[0]) - as_unsigned(x[1])); },
     .own_error = ulps<1>,
     .doc = "Difference. Integers wrap."},
    {.name = "mul", .role = Role::mul, .arity = 2, .types = kNumbers,
     .glsl = on_numbers("{0} * {1}", "pair_mul({0}, {1})"),
     .real = [](Reals x) { return x[0] * x[1]; },
     .integer = [](Integers x, DType) { return as_signed(as_unsigned(x[0]) * as_unsigned(x[1])); },
     .own_error = mul_error, .commutative = true, .is_product = true,
     .doc = "Product. Integers wrap."},
    {.name = "div", .role = Role::div, .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_div({0}, {1})", .i32 = "i32_div({0}, {1})", .u32 = "u32_div({0}, {1})",
              .i64 = "i64_div({0}, {1})", .u64 = "u64_div({0}, {1})", .pair64 = "{s}p_div({0}, {1})",
              .f64 = "{0} / {1}"},
     .real = real_div, .integer = integer_div,
     .propagation = ErrorPropagation::custom, .own_error = ulps_of_normals<3, 2>, .custom_propagation = div_spread,
     .cost = 4,
     .doc = "Quotient; x/0 of floats is an infinity, or NaN for 0/0. Integers truncate; x/0 is 0 and the "
            "smallest number divided by -1 wraps."},
    {.name = "rem", .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_rem({0}, {1})", .i32 = "i32_rem({0}, {1})", .u32 = "u32_rem({0}, {1})",
              .i64 = "i64_rem({0}, {1})", .u64 = "u64_rem({0}, {1})", .pair64 = "{s}p_rem({0}, {1})",
              .f64 = "f64_rem({0}, {1})"},
     .real = [](Reals x) { return std::fmod(x[0], x[1]); }, .integer = integer_rem,
     .propagation = ErrorPropagation::custom, .own_error = exact_of_normals<2>,
     .custom_propagation = remainder_spread<truncated>,
     .cost = 24,
     .doc = "Remainder with the sign of the dividend, exact (C's fmod); x rem 0 is NaN. Integers: x rem 0 is x."},
    {.name = "mod", .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_mod({0}, {1})", .i32 = "i32_mod({0}, {1})", .u32 = "u32_rem({0}, {1})",
              .i64 = "i64_mod({0}, {1})", .u64 = "u64_rem({0}, {1})", .pair64 = "{s}p_mod({0}, {1})",
              .f64 = "f64_mod({0}, {1})"},
     .real = real_mod, .integer = integer_mod,
     .propagation = ErrorPropagation::custom, .own_error = mod_error, .custom_propagation = remainder_spread<floored>,
     .cost = 25,
     .doc = "Remainder with the sign of the divisor (Python's %); x mod 0 is NaN. Integers: x mod 0 is x."},
    {.name = "min", .role = Role::min, .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_min({0}, {1})", .i32 = "min({0}, {1})", .u32 = "min({0}, {1})", .i64 = "min({0}, {1})",
              .u64 = "min({0}, {1})", .pair64 = "{s}p_min({0}, {1})", .f64 = "f64_min({0}, {1})"},
     .real = real_min, .integer = integer_min, .own_error = ulps<0>, .commutative = true, .cost = 2,
     .doc = "The smaller; NaN if either operand is NaN. Either zero may stand for both zeros."},
    {.name = "max", .role = Role::max, .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_max({0}, {1})", .i32 = "max({0}, {1})", .u32 = "max({0}, {1})", .i64 = "max({0}, {1})",
              .u64 = "max({0}, {1})", .pair64 = "{s}p_max({0}, {1})", .f64 = "f64_max({0}, {1})"},
     .real = real_max, .integer = integer_max, .own_error = ulps<0>, .commutative = true, .cost = 2,
     .doc = "The larger; NaN if either operand is NaN. Either zero may stand for both zeros."},
    {.name = "clamp", .arity = 3, .types = kNumbers,
     .glsl = {.f32 = "f32_min(f32_max({0}, {1}), {2})", .i32 = "min(max({0}, {1}), {2})",
              .u32 = "min(max({0}, {1}), {2})", .i64 = "min(max({0}, {1}), {2})", .u64 = "min(max({0}, {1}), {2})",
              .pair64 = "{s}p_min({s}p_max({0}, {1}), {2})", .f64 = "f64_min(f64_max({0}, {1}), {2})"},
     .real = real_clamp, .integer = integer_clamp, .own_error = ulps<0>, .cost = 4,
     .doc = "clamp(x, low, high) = min(max(x, low), high), also where low > high; NaN if any operand is NaN."},
    {.name = "fma", .arity = 3, .types = kNumbers,
     .glsl = {.f32 = "fma({0}, {1}, {2})", .i32 = "{0} * {1} + {2}", .u32 = "{0} * {1} + {2}",
              .i64 = "{0} * {1} + {2}", .u64 = "{0} * {1} + {2}", .pair64 = "pair_add(pair_mul({0}, {1}), {2})",
              .f64 = "fma({0}, {1}, {2})"},
     .real = [](Reals x) { return std::fma(x[0], x[1], x[2]); },
     .integer = [](Integers x, DType) { return as_signed(as_unsigned(x[0]) * as_unsigned(x[1]) + as_unsigned(x[2])); },
     .own_error = fma_error,
     .doc = "fma(a, b, c) = a*b + c, with or without rounding the product. Integers wrap."},
    {.name = "neg", .role = Role::neg, .types = kNumbers, .glsl = on_numbers("-{0}", "pair_neg({0})"),
     .real = [](Reals x) { return -x[0]; },
     .integer = [](Integers x, DType) { return as_signed(0 - as_unsigned(x[0])); },
     .own_error = ulps<0>,
     .doc = "Opposite. Integers wrap, unsigned ones too."},
    {.name = "abs", .types = kNumbers,
     .glsl = {.f32 = "abs({0})", .i32 = "abs({0})", .u32 = "{0}", .i64 = "abs({0})", .u64 = "{0}",
              .pair64 = "{s}p_abs({0})", .f64 = "abs({0})"},
     .real = [](Reals x) { return std::abs(x[0]); },
     .integer = [](Integers x, DType dtype) { return less(x[0], 0, dtype) ? as_signed(0 - as_unsigned(x[0])) : x[0]; },
     .propagation = ErrorPropagation::lipschitz, .own_error = ulps<0>,
     .doc = "Magnitude. The smallest signed integer stays itself."},
    {.name = "sign", .types = kNumbers,
     .glsl = {.f32 = "f32_sign({0})", .i32 = "sign({0})", .u32 = "min({0}, 1u)", .i64 = "sign({0})",
              .u64 = "min({0}, uint64_t(1))", .pair64 = "{s}p_sign({0})", .f64 = "f64_sign({0})"},
     .real = real_sign, .integer = integer_sign,
     .propagation = ErrorPropagation::jump, .own_error = exact_of_normals<1>, .cost = 2,
     .doc = "-1, 0 or 1; NaN for NaN."},
    {.name = "relu", .types = kNumbers,
     .glsl = {.f32 = "f32_max({0}, 0.0)", .i32 = "max({0}, 0)", .u32 = "{0}", .i64 = "max({0}, int64_t(0))",
              .u64 = "{0}", .pair64 = "{s}p_max({0}, uvec2(0u))", .f64 = "f64_max({0}, 0.0)"},
     .real = [](Reals x) { return x[0] < 0 ? 0 : x[0]; },
     .integer = [](Integers x, DType dtype) { return less(x[0], 0, dtype) ? 0 : x[0]; },
     .own_error = ulps<0>, .cost = 2,
     .doc = "max(x, 0); NaN for NaN."},
    {.name = "floor", .types = kFloats, .glsl = {.f32 = "floor({0})", .f64 = "f64_floor({0})"},
     .real = [](Reals x) { return std::floor(x[0]); },
     .propagation = ErrorPropagation::jump, .own_error = exact_of_normals<1>,
     .doc = "The largest whole number not above x."},
    {.name = "ceil", .types = kFloats, .glsl = {.f32 = "ceil({0})", .f64 = "f64_ceil({0})"},
     .real = [](Reals x) { return std::ceil(x[0]); },
     .propagation = ErrorPropagation::jump, .own_error = exact_of_normals<1>,
     .doc = "The smallest whole number not below x."},
    {.name = "round", .types = kFloats, .glsl = {.f32 = "roundEven({0})", .f64 = "f64_round({0})"},
     .real = [](Reals x) { return std::nearbyint(x[0]); },
     .propagation = ErrorPropagation::jump,
     .doc = "The nearest whole number; halves go to the even one."},
    {.name = "trunc", .types = kFloats, .glsl = {.f32 = "trunc({0})", .f64 = "f64_trunc({0})"},
     .real = [](Reals x) { return std::trunc(x[0]); },
     .propagation = ErrorPropagation::jump,
     .doc = "The whole part, towards zero."},
    {.name = "sqrt", .types = kFloats, .glsl = {.f32 = "f32_sqrt({0})", .f64 = "sqrt({0})"},
     .real = real_sqrt,
     .propagation = ErrorPropagation::custom, .own_error = ulps_of_normals<5>,
     .custom_propagation = propagate_off_zero<real_sqrt>,
     .low = 0, .high = 16, .cost = 4,
     .doc = "Square root; NaN below zero."},
    {.name = "rsqrt", .types = kFloats, .glsl = {.f32 = "f32_rsqrt({0})", .f64 = "1.0 / sqrt({0})"},
     .real = real_rsqrt,
     .propagation = ErrorPropagation::custom, .own_error = [](Reals x, double y, double eps) {
       return is_double(eps) ? ulps_of_normals<8>(x, y, eps) : ulps_of_normals<2>(x, y, eps);  // f64: sqrt, then divide
     }, .custom_propagation = propagate_off_zero<real_rsqrt>,
     .low = 0, .high = 16, .cost = 3,
     .doc = "1/sqrt(x); infinity of the sign of a zero, NaN below zero."},
    {.name = "reciprocal", .types = kFloats, .glsl = {.f32 = "f32_div(1.0, {0})", .f64 = "1.0 / {0}"},
     .real = real_reciprocal,
     .propagation = ErrorPropagation::custom, .own_error = ulps_of_normals<3>,
     .custom_propagation = propagate_off_zero<real_reciprocal>,
     .cost = 3,
     .doc = "1/x; infinity of the sign of a zero."},
};
// clang-format on

}  // namespace

double corner_propagation(double (*f)(Reals), int arity, Approxes x, double y) {
  double farthest = 0;
  for (unsigned corner = 0; corner < (1u << arity); ++corner) {
    double at[3] = {};
    for (int i = 0; i < arity; ++i) at[i] = (corner >> i & 1) != 0 ? x[i].value + x[i].bound : x[i].value - x[i].bound;
    const double value = f(at);
    if (value == y || (std::isnan(value) && std::isnan(y))) continue;
    const double distance = std::abs(value - y);
    if (std::isnan(distance)) return kInfinity;
    farthest = std::max(farthest, distance);
  }
  return farthest;
}

std::span<const OpRow> arithmetic_rows() { return kRows; }

}  // namespace vkfuse::ops

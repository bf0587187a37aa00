// Rows of the exponential, trigonometric and related functions of f32 (f16 and bf16 are computed in
// it) and of f64. Where Vulkan bounds the built-in, the row states that bound. The others are functions of
// shaders/: the numeric sweep has seen errors of 1 to 2.3 units on drivers that round to nearest; the
// rows state twice that, since Vulkan lets a driver round either way, and what its division (2.5) and
// square root (5) may add. Vulkan has no such function of f64, and promises of its division no more than of f32's:
// the rows state twice the 0.5 to 1.5 units that the sweep has seen, a unit more where a division comes last, and
// kReferenceUnits for the reference, which is no more exact there.
#include <algorithm>

#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

constexpr double kPi = 3.14159265358979323846;

double real_log(Reals x) { return std::log(x[0]); }
double real_log2(Reals x) { return std::log2(x[0]); }
double real_log1p(Reals x) { return std::log1p(x[0]); }
double real_tan(Reals x) { return std::tan(x[0]); }
double real_asin(Reals x) { return std::asin(x[0]); }
double real_acos(Reals x) { return std::acos(x[0]); }
double real_acosh(Reals x) { return std::acosh(x[0]); }
double real_atanh(Reals x) { return std::atanh(x[0]); }
double real_pow(Reals x) { return std::pow(x[0], x[1]); }
double real_atan2(Reals x) { return std::atan2(x[0], x[1]); }
double real_sigmoid(Reals x) {
  const double small = std::exp(-std::abs(x[0]));
  return (x[0] < 0 ? small : 1) / (1 + small);
}

std::int64_t integer_pow(Integers x, DType dtype) {
  if (!is_unsigned(dtype) && x[1] < 0) {
    if (x[0] == 1) return 1;
    if (x[0] == -1) return (x[1] & 1) != 0 ? -1 : 1;
    return 0;
  }
  std::uint64_t result = 1;
  std::uint64_t square = as_unsigned(x[0]);
  for (std::uint64_t left = as_unsigned(x[1]); left != 0; left >>= 1) {
    if ((left & 1) != 0) result *= square;
    square *= square;
  }
  return as_signed(result);
}

/// Units of f32, and of f64 on the device.
template <int kUnits, int kDoubleUnits>
double ulps_of_each(Reals, double y, double eps) {
  return is_double(eps) ? units(kDoubleUnits + kReferenceUnits, y, eps) : units(kUnits, y, eps);
}

/// The same for functions of two operands that are steep or discontinuous at zero.
template <int kUnits, int kDoubleUnits>
double ulps_of_normal_pairs(Reals x, double y, double eps) {
  return is_double(eps) ? ulps_of_normals<kDoubleUnits + kReferenceUnits, 2>(x, y, eps)
                        : ulps_of_normals<kUnits, 2>(x, y, eps);
}

/// Vulkan: 3 + 2|x| units for exp and exp2; of an infinity, which masks are made of, there is nothing to round.
double exp_error(Reals x, double y, double eps) {
  if (std::isinf(x[0])) return 0;
  return is_double(eps) ? units(2 + kReferenceUnits, y, eps) : units(3 + 2 * std::abs(x[0]), y, eps);
}

/// Vulkan: 3 units, but 2^-21 absolute on [0.5, 2], for log and log2. Of a denormal too: shaders scale it first.
double log_error(Reals x, double y, double eps) {
  if (is_double(eps)) return units(2 + kReferenceUnits, y, eps);
  if (x[0] >= 0.5 && x[0] <= 2) return 0x1p-21;
  return units(3, y, eps);
}

/// The same for a sine, a cosine or a tangent.
template <int kUnits, int kDoubleUnits>
double turned_error(Reals x, double y, double eps) {
  const double rounded = ulps_of_each<kUnits, kDoubleUnits>(x, y, eps);
  return is_double(eps) && std::isfinite(y) ? rounded + kReferenceReduction * (1 + y * y) : rounded;
}

/// tan is monotone between its poles, which are half a period from the multiples of pi.
double tan_spread(Approxes x, double y) {
  const double low = std::floor((x[0].value - x[0].bound) / kPi + 0.5);
  const double high = std::floor((x[0].value + x[0].bound) / kPi + 0.5);
  return low == high ? corner_propagation(real_tan, 1, x, y) : kInfinity;
}

/// The angle jumps where the first operand changes sign left of the origin, and has no limit at it.
double atan2_spread(Approxes x, double y) {
  if (x[0].bound == 0 && x[1].bound == 0) return 0;
  const bool reaches_left = x[1].value - x[1].bound <= 0;
  return reaches_left && contains_zero(x[0]) ? kInfinity : corner_propagation(real_atan2, 2, x, y);
}

/// x^y is monotone in each operand where x > 0; for a whole y that is exact it is also monotone or
/// convex in x on either side of zero, and across it where y >= 1.
double pow_spread(Approxes x, double y) {
  if (x[0].bound == 0 && x[1].bound == 0) return 0;
  if (!may_vanish(x[0]) && x[0].value > 0) return corner_propagation(real_pow, 2, x, y);
  const bool whole = x[1].bound == 0 && std::trunc(x[1].value) == x[1].value;
  const bool smooth = whole && (x[1].value >= 0 || !may_vanish(x[0]));
  return smooth ? corner_propagation(real_pow, 2, x, y) : kInfinity;
}

// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "exp", .role = Role::exp, .types = kFloats,
     .glsl = {.f32 = "f32_exp({0})", .f64 = "f64_exp({0})", .native_f32 = "exp({0})"},
     .real = [](Reals x) { return std::exp(x[0]); }, .own_error = exp_error, .cost = 8,
     .doc = "e^x; NaN for NaN."},
    {.name = "exp2", .types = kFloats,
     .glsl = {.f32 = "f32_exp2({0})", .f64 = "f64_exp2({0})", .native_f32 = "exp2({0})"},
     .real = [](Reals x) { return std::exp2(x[0]); }, .own_error = exp_error, .cost = 8,
     .doc = "2^x; NaN for NaN."},
    {.name = "expm1", .types = kFloats, .glsl = {.f32 = "f32_expm1({0})", .f64 = "f64_expm1({0})"},
     .real = [](Reals x) { return std::expm1(x[0]); }, .own_error = ulps_of_each<4, 2>, .cost = 14,
     .doc = "e^x - 1 without cancellation near 0."},
    {.name = "log", .types = kFloats, .glsl = {.f32 = "f32_log({0})", .f64 = "f64_log({0})"},
     .real = real_log, .propagation = ErrorPropagation::custom, .own_error = log_error,
     .custom_propagation = propagate_off_zero<real_log>,
     .low = 0, .high = 16, .cost = 8,
     .doc = "Natural logarithm; -infinity at either zero, NaN below."},
    {.name = "log2", .types = kFloats, .glsl = {.f32 = "f32_log2({0})", .f64 = "f64_log2({0})"},
     .real = real_log2, .propagation = ErrorPropagation::custom, .own_error = log_error,
     .custom_propagation = propagate_off_zero<real_log2>,
     .low = 0, .high = 16, .cost = 8,
     .doc = "Logarithm to base 2; -infinity at either zero, NaN below."},
    {.name = "log1p", .types = kFloats, .glsl = {.f32 = "f32_log1p({0})", .f64 = "f64_log1p({0})"},
     .real = real_log1p, .propagation = ErrorPropagation::custom, .own_error = ulps_of_each<4, 2>,
     .custom_propagation = propagate_in_domain<real_log1p>,
     .low = -0.9, .high = 8, .cost = 20,
     .doc = "log(1 + x) without cancellation near 0; -infinity at -1, NaN below."},
    {.name = "sin", .types = kFloats, .glsl = {.f32 = "f32_sin({0})", .f64 = "f64_sin({0})"},
     .real = [](Reals x) { return std::sin(x[0]); }, .propagation = ErrorPropagation::lipschitz,
     .own_error = turned_error<4, 2>,
     .low = -32, .high = 32, .cost = 20,
     .doc = "Sine of radians, reduced exactly whatever the magnitude; NaN for infinities."},
    {.name = "cos", .types = kFloats, .glsl = {.f32 = "f32_cos({0})", .f64 = "f64_cos({0})"},
     .real = [](Reals x) { return std::cos(x[0]); }, .propagation = ErrorPropagation::lipschitz,
     .own_error = turned_error<4, 2>,
     .low = -32, .high = 32, .cost = 20,
     .doc = "Cosine of radians, reduced exactly whatever the magnitude; NaN for infinities."},
    {.name = "tan", .types = kFloats, .glsl = {.f32 = "f32_tan({0})", .f64 = "f64_tan({0})"},
     .real = real_tan, .propagation = ErrorPropagation::custom,
     .own_error = turned_error<8, 4>, .custom_propagation = tan_spread,
     .low = -32, .high = 32, .cost = 28,
     .doc = "Tangent of radians, reduced exactly whatever the magnitude; NaN for infinities."},
    {.name = "asin", .types = kFloats, .glsl = {.f32 = "f32_asin({0})", .f64 = "f64_asin({0})"},
     .real = real_asin, .propagation = ErrorPropagation::custom, .own_error = ulps_of_each<6, 2>,
     .custom_propagation = propagate_in_domain<real_asin>,
     .low = -1, .high = 1, .cost = 16,
     .doc = "Arc sine; NaN outside [-1, 1]."},
    {.name = "acos", .types = kFloats, .glsl = {.f32 = "f32_acos({0})", .f64 = "f64_acos({0})"},
     .real = real_acos, .propagation = ErrorPropagation::custom, .own_error = ulps_of_each<8, 2>,
     .custom_propagation = propagate_in_domain<real_acos>,
     .low = -1, .high = 1, .cost = 16,
     .doc = "Arc cosine; NaN outside [-1, 1]."},
    {.name = "atan", .types = kFloats, .glsl = {.f32 = "f32_atan({0})", .f64 = "f64_atan({0})"},
     .real = [](Reals x) { return std::atan(x[0]); }, .own_error = ulps_of_each<5, 3>, .cost = 18,
     .doc = "Arc tangent; +-pi/2 at the infinities."},
    {.name = "atan2", .arity = 2, .types = kFloats,
     .glsl = {.f32 = "f32_atan2({0}, {1})", .f64 = "f64_atan2({0}, {1})"},
     .real = real_atan2, .propagation = ErrorPropagation::custom, .own_error = ulps_of_normal_pairs<6, 4>,
     .custom_propagation = atan2_spread,
     .cost = 26,
     .doc = "atan2(y, x), the angle of the point (x, y), with C's rules for zeros and infinities."},
    {.name = "sinh", .types = kFloats, .glsl = {.f32 = "f32_sinh({0})", .f64 = "f64_sinh({0})"},
     .real = [](Reals x) { return std::sinh(x[0]); }, .own_error = ulps_of_each<4, 3>, .cost = 20,
     .doc = "Hyperbolic sine."},
    {.name = "cosh", .types = kFloats, .glsl = {.f32 = "f32_cosh({0})", .f64 = "f64_cosh({0})"},
     .real = [](Reals x) { return std::cosh(x[0]); }, .own_error = ulps_of_each<4, 3>, .cost = 20,
     .doc = "Hyperbolic cosine."},
    {.name = "tanh", .role = Role::tanh, .types = kFloats,
     .glsl = {.f32 = "f32_tanh({0})", .f64 = "f64_tanh({0})", .half = "f16_tanh({0})",
        .native_half = "f16_tanh_native({0})", .arithmetic_half = "f16_tanh({0})"},
     .real = [](Reals x) { return std::tanh(x[0]); }, .own_error = ulps_of_each<10, 4>, .cost = 12,
     .doc = "Hyperbolic tangent; +-1 at the infinities."},
    {.name = "asinh", .types = kFloats, .glsl = {.f32 = "f32_asinh({0})", .f64 = "f64_asinh({0})"},
     .real = [](Reals x) { return std::asinh(x[0]); }, .own_error = ulps_of_each<8, 4>, .cost = 30,
     .doc = "Inverse hyperbolic sine."},
    {.name = "acosh", .types = kFloats, .glsl = {.f32 = "f32_acosh({0})", .f64 = "f64_acosh({0})"},
     .real = real_acosh, .propagation = ErrorPropagation::custom, .own_error = ulps_of_each<8, 4>,
     .custom_propagation = propagate_in_domain<real_acosh>,
     .low = 1, .high = 16, .cost = 30,
     .doc = "Inverse hyperbolic cosine; NaN below 1."},
    {.name = "atanh", .types = kFloats, .glsl = {.f32 = "f32_atanh({0})", .f64 = "f64_atanh({0})"},
     .real = real_atanh, .propagation = ErrorPropagation::custom, .own_error = ulps_of_each<8, 4>,
     .custom_propagation = propagate_in_domain<real_atanh>,
     .low = -1, .high = 1, .cost = 30,
     .doc = "Inverse hyperbolic tangent; infinite at +-1, NaN outside."},
    {.name = "erf", .role = Role::erf, .types = kFloats,
     .glsl = {.f32 = "f32_erf({0})", .f64 = "f64_erf({0})", .half = "f16_erf({0})"},
     .real = [](Reals x) { return std::erf(x[0]); }, .own_error = ulps_of_each<4, 2>, .cost = 24,
     .doc = "Error function."},
    {.name = "sigmoid", .types = kFloats,
     .glsl = {.f32 = "f32_sigmoid({0})", .f64 = "f64_sigmoid({0})", .half = "f16_sigmoid({0})",
        .native_half = "f16_sigmoid_native({0})"},
     .real = real_sigmoid, .own_error = ulps_of_each<6, 4>, .cost = 14,
     .doc = "1 / (1 + e^-x) without overflow on either side."},
    {.name = "pow", .role = Role::pow, .arity = 2, .types = kNumbers,
     .glsl = {.f32 = "f32_pow({0}, {1})", .i32 = "i32_pow({0}, {1})", .u32 = "u32_pow({0}, {1})",
              .i64 = "i64_pow({0}, {1})", .u64 = "u64_pow({0}, {1})", .pair64 = "{s}p_pow({0}, {1})",
              .f64 = "f64_pow({0}, {1})"},
     .real = real_pow, .integer = integer_pow,
     .propagation = ErrorPropagation::custom, .own_error = ulps_of_normal_pairs<6, 2>,
     .custom_propagation = pow_spread,
     .low = 0, .high = 4, .cost = 40,
     .doc = "x^y by C's rules: a negative x needs a whole y, else NaN; x^0 and 1^y are 1 even for NaN. Integers "
            "wrap; a negative power is 0, except of 1 and -1."},
};
// clang-format on

}  // namespace

std::span<const OpRow> special_rows() { return kRows; }

}  // namespace vkfuse::ops

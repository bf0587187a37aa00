// Rows that answer a question about their operands, and select.
#include <algorithm>

#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

/// Subnormals may compare as the zeros they are flushed to.
double compare_error(Reals x, double, double eps) {
  const bool blurred = is_subnormal(x[0], eps) || is_subnormal(x[1], eps);
  const double limit = smallest_normal(eps);
  return blurred && std::abs(x[0]) <= limit && std::abs(x[1]) <= limit ? kInfinity : 0;
}

/// Two values are told apart where their intervals do not meet; known equal only where both are exact.
double equality_spread(Approxes x, double) {
  const double bound = x[0].bound + x[1].bound;
  if (bound == 0) return 0;
  return std::abs(x[0].value - x[1].value) > bound ? 0 : kInfinity;
}

/// Where the condition is undecided the result may be either branch.
double select_spread(Approxes x, double y) {
  const Approx& chosen = x[0].value != 0 ? x[1] : x[2];
  const Approx& other = x[0].value != 0 ? x[2] : x[1];
  if (x[0].bound == 0) return chosen.bound;
  const double distance = other.value == y ? 0 : std::abs(other.value - y);
  return std::isnan(distance) ? kInfinity : std::max(chosen.bound, distance + other.bound);
}

constexpr Glsl compared(std::string_view text, std::string_view pair64, std::string_view boolean = {}) {
  Glsl glsl = on_numbers(text, pair64);
  glsl.boolean = boolean;
  return glsl;
}

// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "eq", .role = Role::eq, .arity = 2, .signature = Signature::compare, .types = kAll,
     .glsl = compared("{0} == {1}", "{0} == {1}", "{0} == {1}"),
     .real = [](Reals x) { return double(x[0] == x[1]); },
     .integer = [](Integers x, DType) { return std::int64_t{x[0] == x[1]}; },
     .propagation = ErrorPropagation::custom, .own_error = compare_error, .custom_propagation = equality_spread,
     .commutative = true,
     .doc = "Equal; false if either is NaN. The zeros are equal."},
    {.name = "ne", .role = Role::ne, .arity = 2, .signature = Signature::compare, .types = kAll,
     .glsl = {.f32 = "!({0} == {1})", .i32 = "{0} != {1}", .u32 = "{0} != {1}", .boolean = "{0} != {1}",
              .i64 = "{0} != {1}", .u64 = "{0} != {1}", .pair64 = "{0} != {1}", .f64 = "!({0} == {1})"},
     .real = [](Reals x) { return double(x[0] != x[1]); },
     .integer = [](Integers x, DType) { return std::int64_t{x[0] != x[1]}; },
     .propagation = ErrorPropagation::custom, .own_error = compare_error, .custom_propagation = equality_spread,
     .commutative = true,
     .doc = "Not equal; true if either is NaN."},
    {.name = "lt", .role = Role::lt, .arity = 2, .signature = Signature::compare, .types = kNumbers,
     .glsl = compared("{0} < {1}", "{s}p_lt({0}, {1})"),
     .real = [](Reals x) { return double(x[0] < x[1]); },
     .integer = [](Integers x, DType dtype) { return std::int64_t{less(x[0], x[1], dtype)}; },
     .propagation = ErrorPropagation::jump, .own_error = compare_error,
     .doc = "Less; false if either is NaN."},
    {.name = "le", .role = Role::le, .arity = 2, .signature = Signature::compare, .types = kNumbers,
     .glsl = compared("{0} <= {1}", "!{s}p_lt({1}, {0})"),
     .real = [](Reals x) { return double(x[0] <= x[1]); },
     .integer = [](Integers x, DType dtype) { return std::int64_t{!less(x[1], x[0], dtype)}; },
     .propagation = ErrorPropagation::jump, .own_error = compare_error,
     .doc = "Less or equal; false if either is NaN."},
    {.name = "gt", .role = Role::gt, .arity = 2, .signature = Signature::compare, .types = kNumbers,
     .glsl = compared("{0} > {1}", "{s}p_lt({1}, {0})"),
     .real = [](Reals x) { return double(x[0] > x[1]); },
     .integer = [](Integers x, DType dtype) { return std::int64_t{less(x[1], x[0], dtype)}; },
     .propagation = ErrorPropagation::jump, .own_error = compare_error,
     .doc = "Greater; false if either is NaN."},
    {.name = "ge", .role = Role::ge, .arity = 2, .signature = Signature::compare, .types = kNumbers,
     .glsl = compared("{0} >= {1}", "!{s}p_lt({0}, {1})"),
     .real = [](Reals x) { return double(x[0] >= x[1]); },
     .integer = [](Integers x, DType dtype) { return std::int64_t{!less(x[0], x[1], dtype)}; },
     .propagation = ErrorPropagation::jump, .own_error = compare_error,
     .doc = "Greater or equal; false if either is NaN."},
    {.name = "select", .role = Role::select, .arity = 3, .signature = Signature::select, .types = kAll,
     .glsl = {.f32 = "{0} ? {1} : {2}", .i32 = "{0} ? {1} : {2}", .u32 = "{0} ? {1} : {2}",
              .boolean = "{0} ? {1} : {2}", .i64 = "{0} ? {1} : {2}", .u64 = "{0} ? {1} : {2}",
              .pair64 = "{0} ? {1} : {2}", .f64 = "{0} ? {1} : {2}"},
     .real = [](Reals x) { return x[0] != 0 ? x[1] : x[2]; },
     .integer = [](Integers x, DType) { return x[0] != 0 ? x[1] : x[2]; },
     .propagation = ErrorPropagation::custom, .custom_propagation = select_spread,
     .doc = "select(condition, a, b): a where the condition holds, else b; the other operand's NaN does not matter."},
    {.name = "is_nan", .signature = Signature::compare, .types = kFloats,
     .glsl = {.f32 = "f32_is_nan({0})", .f64 = "f64_is_nan({0})"},
     .real = [](Reals x) { return double(std::isnan(x[0])); }, .propagation = ErrorPropagation::jump,
     .doc = "True for NaN."},
    {.name = "is_inf", .signature = Signature::compare, .types = kFloats,
     .glsl = {.f32 = "f32_is_inf({0})", .f64 = "f64_is_inf({0})"},
     .real = [](Reals x) { return double(std::isinf(x[0])); }, .propagation = ErrorPropagation::jump,
     .doc = "True for either infinity."},
    {.name = "is_finite", .signature = Signature::compare, .types = kFloats,
     .glsl = {.f32 = "f32_is_finite({0})", .f64 = "f64_is_finite({0})"},
     .real = [](Reals x) { return double(std::isfinite(x[0])); }, .propagation = ErrorPropagation::jump,
     .doc = "False for NaN and either infinity."},
};
// clang-format on

}  // namespace

std::span<const OpRow> compare_rows() { return kRows; }

}  // namespace vkfuse::ops

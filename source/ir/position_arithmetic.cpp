#include "ir/position_arithmetic.hpp"

#include <algorithm>
#include <cmath>

namespace vkfuse::ir {

namespace {

using index::Expr;
using Made = std::optional<Expr>;
using Operands = std::span<const Expr>;

/// Expressions of 64 bits have no larger ones than these.
constexpr double kLargestProduct = 0x1p60;

Made multiple(const Expr& expr, std::int64_t factor) {
  const index::Interval interval = index::interval_of(expr);
  const double largest =
      std::max(std::abs(static_cast<double>(interval.low)), std::abs(static_cast<double>(interval.high)));
  if (largest * std::abs(static_cast<double>(factor)) > kLargestProduct) return std::nullopt;
  return expr * factor;
}

Made product(DType, Operands x) {
  if (x[0].is_constant()) return multiple(x[1], x[0].constant());
  return x[1].is_constant() ? multiple(x[0], x[1].constant()) : std::nullopt;
}

/// Of integers, which are rounded towards 0.
Made quotient(DType dtype, Operands x) {
  const bool counts = !is_float(dtype) && x[1].is_constant() && x[1].constant() > 0;
  return counts && index::interval_of(x[0]).low >= 0 ? Made(index::floor_div(x[0], x[1].constant())) : std::nullopt;
}

Made converted(DType dtype, Operands x) {
  if (dtype == DType::boolean && x[0].is_constant()) return Expr(x[0].constant() != 0 ? 1 : 0);
  return x[0];
}

struct Row {
  ops::Role role;
  PositionArithmetic of;
};
constexpr Row kRows[] = {
    {ops::Role::add, [](DType, Operands x) { return Made(x[0] + x[1]); }},
    {ops::Role::sub, [](DType, Operands x) { return Made(x[0] - x[1]); }},
    {ops::Role::neg, [](DType, Operands x) { return Made(Expr(0) - x[0]); }},
    {ops::Role::mul, product},
    {ops::Role::div, quotient},
    {ops::Role::cast, converted},
    {ops::Role::copy, [](DType, Operands x) { return Made(x[0]); }},
};

}  // namespace

PositionArithmetic position_arithmetic_of(ops::Role role) {
  const auto* found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.role == role; });
  return found == std::end(kRows) ? nullptr : found->of;
}

std::optional<Expr> whole_number(double literal) {
  const bool near = std::abs(literal) <= static_cast<double>(kFarthestPosition);  // a NaN is not
  return near && literal == std::trunc(literal) ? Made(static_cast<std::int64_t>(literal)) : std::nullopt;
}

}  // namespace vkfuse::ir

// Gradients of elementwise ops. At kinks they are what most frameworks have: equal operands of min and max share the
// gradient, abs and relu have 0 at 0, clamp passes it at both bounds.
#include <numbers>

#include "autodiff/rules.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::autodiff {

namespace {

Tensor where(const Tensor& condition, const Tensor& value) {
  return select(condition, value, Tensor::scalar(value.dtype(), 0));
}

/// The gradient of the greater (or smaller) of two: halves where they are equal.
Tensor of_chosen(const Call& c, std::size_t operand, Tensor (*is_better)(const Tensor&, const Tensor&)) {
  const Tensor chosen = is_better(c.x(operand), c.x(1 - operand));
  return select(chosen, c.g, where(eq(c.x(0), c.x(1)), c.g * 0.5));
}

Tensor of_clamp(const Call& c, std::size_t operand) {
  const Tensor &x = c.x(0), &low = c.x(1), &high = c.x(2);
  if (operand == 0) return where(logical_and(ge(x, low), le(x, high)), c.g);
  if (operand == 1) return where(logical_and(lt(x, low), le(low, high)), c.g);
  return where(logical_or(gt(x, high), gt(low, high)), c.g);
}

/// a^b. The exponent of 0, where the base is nearly 0, and the base of 0 are put away before a pole is made of them: a
/// 0 that is multiplied with it afterwards would be NaN. Elsewhere the power stays, which has a second derivative.
Tensor of_pow(const Call& c, std::size_t operand) {
  const Tensor &a = c.x(0), &b = c.x(1);
  const Tensor zero = c.number(0);
  if (operand == 0) {
    const double least = a.dtype() == DType::f16 ? 0x1p-15 : 0x1p-40;  // whose inverse is a number
    const Tensor safe = select(le(abs(a), c.number(least)), zero, b - 1.0);
    return c.g * (b * pow(a, select(eq(b, zero), safe, b - 1.0)));
  }
  const Tensor flat = logical_and(eq(a, zero), ge(b, zero));
  return c.g * (c.y * log(select(flat, c.number(1), a)));
}

Tensor of_atan2(const Call& c, std::size_t operand) {
  const Tensor &y = c.x(0), &x = c.x(1);
  const Tensor square = x * x + y * y;
  const Tensor safe = select(eq(square, c.number(0)), c.number(1), square);
  return operand == 0 ? c.g * x / safe : -(c.g * y / safe);
}

// A row is a paragraph.
// clang-format off
constexpr GradientRow kElementwise[] = {
    {.op = "copy", .rule = [](const Call& c, std::size_t) { return c.g; }, .doc = "g"},
    {.op = "add", .rule = [](const Call& c, std::size_t) { return c.g; }, .doc = "g; g"},
    {.op = "sub", .rule = [](const Call& c, std::size_t i) { return i == 0 ? c.g : -c.g; }, .doc = "g; -g"},
    {.op = "mul", .rule = [](const Call& c, std::size_t i) { return c.g * c.x(1 - i); }, .doc = "g b; g a"},
    {.op = "div",
     .rule = [](const Call& c, std::size_t i) { return i == 0 ? c.g / c.x(1) : -(c.g * (c.y / c.x(1))); },
     .doc = "g / b; -g (a / b) / b"},
    {.op = "rem",
     .rule = [](const Call& c, std::size_t i) { return i == 0 ? c.g : -(c.g * round((c.x(0) - c.y) / c.x(1))); },
     .doc = "g; -g trunc(a / b)"},
    {.op = "mod",
     .rule = [](const Call& c, std::size_t i) { return i == 0 ? c.g : -(c.g * round((c.x(0) - c.y) / c.x(1))); },
     .doc = "g; -g floor(a / b)"},
    {.op = "min", .rule = [](const Call& c, std::size_t i) { return of_chosen(c, i, lt); },
     .doc = "g to the smaller; g / 2 to each of equal ones; none where one is NaN"},
    {.op = "max", .rule = [](const Call& c, std::size_t i) { return of_chosen(c, i, gt); },
     .doc = "g to the larger; g / 2 to each of equal ones; none where one is NaN"},
    {.op = "clamp", .rule = of_clamp,
     .doc = "g to x where low <= x <= high; to low where x < low <= high; to high where x > high or low > high"},
    {.op = "fma",
     .rule = [](const Call& c, std::size_t i) { return i == 2 ? c.g : c.g * c.x(1 - i); }, .doc = "g b; g a; g"},
    {.op = "neg", .rule = [](const Call& c, std::size_t) { return -c.g; }, .doc = "-g"},
    {.op = "abs", .rule = [](const Call& c, std::size_t) { return c.g * sign(c.x(0)); }, .doc = "g sign(x): 0 at 0"},
    {.op = "sign", .kind = Kind::constant, .doc = "0"},
    {.op = "relu", .rule = [](const Call& c, std::size_t) { return where(gt(c.x(0), c.number(0)), c.g); },
     .doc = "g where x > 0, else 0: 0 at 0"},
    {.op = "floor", .kind = Kind::constant, .doc = "0"},
    {.op = "ceil", .kind = Kind::constant, .doc = "0"},
    {.op = "round", .kind = Kind::constant, .doc = "0"},
    {.op = "trunc", .kind = Kind::constant, .doc = "0"},
    {.op = "sqrt", .rule = [](const Call& c, std::size_t) { return c.g * 0.5 / c.y; },
     .doc = "g / (2 y): infinite at 0, and NaN there where g is 0"},
    {.op = "rsqrt", .rule = [](const Call& c, std::size_t) { return c.g * -0.5 * (c.y * c.y * c.y); },
     .doc = "-g y^3 / 2"},
    {.op = "reciprocal", .rule = [](const Call& c, std::size_t) { return -(c.g * c.y * c.y); }, .doc = "-g y^2"},
    {.op = "exp", .rule = [](const Call& c, std::size_t) { return c.g * c.y; }, .doc = "g y"},
    {.op = "exp2", .rule = [](const Call& c, std::size_t) { return c.g * c.y * std::numbers::ln2; },
     .doc = "g y ln(2)"},
    {.op = "expm1", .rule = [](const Call& c, std::size_t) { return c.g * (c.y + 1.0); }, .doc = "g (y + 1)"},
    {.op = "log", .rule = [](const Call& c, std::size_t) { return c.g / c.x(0); },
     .doc = "g / x: infinite at 0, and NaN there where g is 0"},
    {.op = "log2", .rule = [](const Call& c, std::size_t) { return c.g * std::numbers::log2e / c.x(0); },
     .doc = "g / (x ln(2))"},
    {.op = "log1p", .rule = [](const Call& c, std::size_t) { return c.g / (c.x(0) + 1.0); }, .doc = "g / (1 + x)"},
    {.op = "sin", .rule = [](const Call& c, std::size_t) { return c.g * cos(c.x(0)); }, .doc = "g cos(x)"},
    {.op = "cos", .rule = [](const Call& c, std::size_t) { return -(c.g * sin(c.x(0))); }, .doc = "-g sin(x)"},
    {.op = "tan", .rule = [](const Call& c, std::size_t) { return c.g * (c.y * c.y + 1.0); }, .doc = "g (1 + y^2)"},
    {.op = "asin",
     .rule = [](const Call& c, std::size_t) { return c.g * rsqrt((1.0 - c.x(0)) * (c.x(0) + 1.0)); },
     .doc = "g / sqrt(1 - x^2)"},
    {.op = "acos",
     .rule = [](const Call& c, std::size_t) { return -(c.g * rsqrt((1.0 - c.x(0)) * (c.x(0) + 1.0))); },
     .doc = "-g / sqrt(1 - x^2)"},
    {.op = "atan", .rule = [](const Call& c, std::size_t) { return c.g / (c.x(0) * c.x(0) + 1.0); },
     .doc = "g / (1 + x^2)"},
    {.op = "atan2", .rule = of_atan2, .doc = "g x / (x^2 + y^2); -g y / (x^2 + y^2); 0 at the origin"},
    {.op = "sinh", .rule = [](const Call& c, std::size_t) { return c.g * cosh(c.x(0)); }, .doc = "g cosh(x)"},
    {.op = "cosh", .rule = [](const Call& c, std::size_t) { return c.g * sinh(c.x(0)); }, .doc = "g sinh(x)"},
    {.op = "tanh", .rule = [](const Call& c, std::size_t) { return c.g * (1.0 - c.y * c.y); }, .doc = "g (1 - y^2)"},
    {.op = "asinh", .rule = [](const Call& c, std::size_t) { return c.g * rsqrt(c.x(0) * c.x(0) + 1.0); },
     .doc = "g / sqrt(x^2 + 1)"},
    {.op = "acosh",
     .rule = [](const Call& c, std::size_t) { return c.g * rsqrt((c.x(0) - 1.0) * (c.x(0) + 1.0)); },
     .doc = "g / sqrt(x^2 - 1)"},
    {.op = "atanh",
     .rule = [](const Call& c, std::size_t) { return c.g / ((1.0 - c.x(0)) * (c.x(0) + 1.0)); },
     .doc = "g / (1 - x^2)"},
    {.op = "erf",
     .rule = [](const Call& c, std::size_t) {
       return c.g * (exp(-(c.x(0) * c.x(0))) * (2 * std::numbers::inv_sqrtpi));
     },
     .doc = "g 2 exp(-x^2) / sqrt(pi)"},
    {.op = "sigmoid", .rule = [](const Call& c, std::size_t) { return c.g * (c.y * (1.0 - c.y)); },
     .doc = "g y (1 - y)"},
    {.op = "pow", .rule = of_pow,
     .doc = "g b a^(b - 1), 0 where b is 0; g y log(a), 0 where a is 0 and b is not negative"},
    {.op = "select", .rule = [](const Call& c, std::size_t i) {
       const Tensor none = c.number(0);
       return i == 1 ? select(c.x(0), c.g, none) : select(c.x(0), none, c.g);
     },
     .doc = "g to the operand that was taken"},
    {.op = "cast", .rule = [](const Call& c, std::size_t i) { return c.g.cast(c.x(i).dtype()); },
     .doc = "g in the operand's type"},
};
// clang-format on

}  // namespace

std::span<const GradientRow> elementwise_rows() { return kElementwise; }

}  // namespace vkfuse::autodiff

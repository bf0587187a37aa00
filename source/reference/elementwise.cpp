#include "reference/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/reference.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 0x1p-126;  // what a driver that flushes f32 denormals may drop

/// What one rounding to a 16-bit float may add.
double rounding(DType dtype, double value) {
  if (!std::isfinite(value)) return 0;
  if (dtype == DType::f16) return std::abs(value) * 0x1p-11 + 0x1p-25;
  if (dtype == DType::bf16) return std::abs(value) * 0x1p-8 + kTiny;
  return 0;
}

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

/// The largest distance from y over the corners x_i +- e_i.
double corner_distance(const ops::OpRow& op, std::span<const ops::Approx> operands, double y) {
  // At the value, below it and above it; only the first of an operand that is exact.
  double at[3][3] = {};
  int sides[3] = {1, 1, 1};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& [value, bound] = operands[i];
    at[i][0] = value;
    at[i][1] = value - bound;
    at[i][2] = value + bound;
    if (bound != 0) sides[i] = 3;
  }
  double worst = 0;
  for (int i = 0; i < sides[0]; ++i) {
    for (int j = 0; j < sides[1]; ++j) {
      for (int k = 0; k < sides[2]; ++k) {
        const double x[3] = {at[0][i], at[1][j], at[2][k]};
        worst = std::max(worst, distance(op.real(x), y));
      }
    }
  }
  return worst;
}

double spread_of(const ops::OpRow& op, std::span<const ops::Approx> operands, double y) {
  double sum = 0;
  for (const ops::Approx& operand : operands) sum += operand.bound;
  if (sum == 0) return 0;
  if (std::isinf(sum)) return kInfinity;
  switch (op.propagation) {
    case ops::ErrorPropagation::exact: return 0;
    case ops::ErrorPropagation::lipschitz: return std::isfinite(y) ? sum : kInfinity;
    case ops::ErrorPropagation::custom: return op.custom_propagation(operands.data(), y);
    case ops::ErrorPropagation::monotone: return corner_distance(op, operands, y);
    case ops::ErrorPropagation::jump: return corner_distance(op, operands, y) == 0 ? 0 : kInfinity;
  }
  return kInfinity;
}

Element apply_select(const ir::Node& node, std::span<const Element> operands) {
  const Element& chosen = operands[operands[0].integer != 0 ? 1 : 2];
  Element result = chosen;
  if (operands[0].bound != 0) {  // either may be chosen
    const double apart = is_float(node.type.dtype) ? distance(operands[1].real, operands[2].real)
                                                   : (operands[1].integer == operands[2].integer ? 0 : kInfinity);
    result.bound = apart + std::max(operands[1].bound, operands[2].bound);
  }
  return result;
}

Element apply_float(const ir::Node& node, DType dtype, std::span<const Element> operands) {
  const ops::OpRow& op = *node.op;
  double x[3] = {};
  ops::Approx approx[3];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    x[i] = operands[i].real;
    // What is tried at the ends of the bound is rounded to double, which f64 may miss by a unit.
    const double missed = dtype == DType::f64 && operands[i].bound > 0 ? unit(dtype) * std::abs(x[i]) : 0;
    approx[i] = {x[i], operands[i].bound + missed};
  }
  const double y = op.real(x);
  double bound = spread_of(op, {approx, operands.size()}, y);
  if (node.type.dtype == DType::boolean) return {0, y != 0 ? 1 : 0, bound == 0 ? 0 : kInfinity};
  if (std::isfinite(y)) bound += ops::own_error(op, dtype, x, y);
  return finish_float(node.type.dtype, y, bound);
}

Element apply_integer(const ir::Node& node, DType dtype, std::span<const Element> operands) {
  std::int64_t x[3] = {};
  bool decided = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    x[i] = operands[i].integer;
    decided = decided && operands[i].bound == 0;
  }
  const std::int64_t y = ops::wrap(node.type.dtype, node.op->integer(x, dtype));
  return {0, y, decided ? 0 : kInfinity};
}

double as_double(DType dtype, std::int64_t value) {
  return dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(value)) : static_cast<double>(value);
}

Element cast(DType from, DType to, const Element& x) {
  if (is_float(from) && is_float(to)) {
    double bound = x.bound;
    if (to == DType::f32 && from == DType::f64) bound += std::abs(x.real) * 0x1p-23 + kTiny;
    return finish_float(to, x.real, bound);
  }
  if (is_float(to)) {
    const double value = as_double(from, x.integer);
    const double error = x.bound + (std::abs(value) > 0x1p24 ? std::abs(value) * unit(to) : 0);
    return finish_float(to, value, error);
  }
  if (is_float(from)) {
    const auto convert = [to](double v) {
      return to == DType::boolean ? static_cast<std::int64_t>(v != 0) : ops::saturate(to, v);
    };
    const std::int64_t y = convert(x.real);
    const bool decided =
        x.bound == 0 || (std::isfinite(x.bound) && convert(x.real - x.bound) == y && convert(x.real + x.bound) == y &&
                         !(to == DType::boolean && std::abs(x.real) <= x.bound));
    return {0, y, decided ? 0 : kInfinity};
  }
  return {0, ops::wrap(to, x.integer), x.bound};
}

Element bitcast(DType from, DType to, const Element& x) {
  std::vector<std::byte> bytes;
  if (is_float(from)) {
    ir::encode(from, x.real, bytes);
  } else {
    ir::encode_int(from, x.integer, bytes);
  }
  Element result;
  result.bound = x.bound == 0 ? 0 : kInfinity;
  if (is_float(to)) {
    result.real = ir::decode(to, bytes.data());
    if (to == DType::f32 && std::abs(result.real) < kTiny) result.bound += std::abs(result.real);
  } else {
    result.integer = ir::decode_int(to, bytes.data());
  }
  return result;
}

}  // namespace

double unit(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::max();
    case DType::f16: return 65504.0;
    case DType::bf16: return 0x1.fep127;
    default: return static_cast<double>(std::numeric_limits<float>::max());
  }
}

Element finish_float(DType dtype, double value, double bound) {
  bound += rounding(dtype, value);
  settle(dtype, value, bound);
  return {value, 0, std::isnan(value) && bound != kInfinity ? 0 : bound};
}

void settle(DType dtype, double& value, double& bound) {
  const double largest = largest_of(dtype);
  if (std::isnan(value) || std::isinf(value) || std::abs(value) + bound <= largest) return;
  // 16-bit values live in f32 registers where they are not stored, so being too large decides nothing.
  const bool surely = (dtype == DType::f32 || dtype == DType::f64) && std::abs(value) - bound > largest * (1 + 0x1p-23);
  if (surely) {
    value = std::copysign(kInfinity, value);
    bound = 0;
  } else {
    bound = kInfinity;
  }
}

namespace {

/// How far the result of the user's function, which is `y` at `x`, moves with errors of the operands: tried out at both
/// ends of each, and doubled, as what lies between may be further off.
double custom_propagation(const ir::HostFunction& function, std::vector<double> x, std::span<const Element> operands,
                          double y) {
  const bool is_undecided =
      std::any_of(operands.begin(), operands.end(), [](const Element& operand) { return std::isinf(operand.bound); });
  if (is_undecided) return kInfinity;
  double propagation = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (operands[i].bound == 0) continue;
    const double own = x[i];
    double moved = 0;
    for (const double side : {-1.0, 1.0}) {
      x[i] = own + side * operands[i].bound;
      moved = std::max(moved, distance(function(x), y));
    }
    x[i] = own;
    propagation += 2 * moved;
  }
  return propagation;
}

/// A number as an element of an integer dtype.
std::int64_t whole_number(DType dtype, double y) {
  const bool is_large = dtype == DType::u64 && y >= 0x1p63;
  const std::int64_t whole =
      is_large ? static_cast<std::int64_t>(static_cast<std::uint64_t>(std::min(y, 0x1.fffffffffffffp63)))
               : ops::saturate(DType::i64, y);
  return ops::wrap(dtype, whole);
}

/// The user's function.
Element apply_custom(const ir::Node& node, std::span<const DType> dtypes, std::span<const Element> operands) {
  const auto& custom = std::get<ir::CustomPayload>(node.payload);
  check(custom.function != nullptr, "the reference does not come to a custom op without a host function");
  const ir::HostFunction& function = *custom.function;
  std::vector<double> x;
  for (std::size_t i = 0; i < operands.size(); ++i)
    x.push_back(is_float(dtypes[i]) ? operands[i].real : as_double(dtypes[i], operands[i].integer));
  const double y = function(x);
  const double propagation = custom_propagation(function, std::move(x), operands, y);
  if (is_float(node.type.dtype))
    return finish_float(node.type.dtype, y,
                        propagation + custom.ulps * unit(node.type.dtype) * std::abs(std::isfinite(y) ? y : 0) +
                            (custom.ulps > 0 ? kTiny : 0));
  if (node.type.dtype == DType::boolean) return {0, y != 0 ? 1 : 0, propagation == 0 ? 0 : kInfinity};
  return {0, whole_number(node.type.dtype, y), propagation == 0 ? 0 : kInfinity};
}

}  // namespace

Element apply(const ir::Node& node, std::span<const DType> operand_dtypes, std::span<const Element> operands) {
  if (std::holds_alternative<ir::CustomPayload>(node.payload)) return apply_custom(node, operand_dtypes, operands);
  const DType dtype = operand_dtypes.back();  // the T of every signature
  if (node.op->cls == ops::OpClass::convert) {
    return node.op->role == ops::Role::bitcast ? bitcast(dtype, node.type.dtype, operands[0])
                                               : cast(dtype, node.type.dtype, operands[0]);
  }
  if (node.op->signature == ops::Signature::select) return apply_select(node, operands);
  return is_float(dtype) ? apply_float(node, dtype, operands) : apply_integer(node, dtype, operands);
}

}  // namespace vkfuse::reference

// Arithmetic operators.
#include <algorithm>
#include <limits>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// How many bits of the exponent can be set: all but the sign, or fewer where its values are known.
int exponent_bits(const Value& exponent) {
  int bits = 8 * size_of(exponent.tensor.dtype()) - (is_signed_integer(exponent.tensor.dtype()) ? 1 : 0);
  if (!exponent.known || element_count(*exponent.known) == 0) return bits;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < element_count(*exponent.known); ++i) {
    const std::int64_t value = element_int(*exponent.known, i);
    if (value < 0 && exponent.tensor.dtype() == DType::u64) return bits;
    largest = std::max(largest, value);
  }
  bits = 0;
  while (bits < 63 && (largest >> bits) != 0) ++bits;
  return bits;
}

Tensor integer_scalar(const Tensor& like, std::int64_t value) { return Tensor::scalar_int(like.dtype(), value); }

/// base^exponent for integers by repeated squaring, wrapping as integer products do: a float pow
/// would not be exact beyond 24 bits.
Tensor integer_power(const Tensor& base, const Tensor& exponent, int bits) {
  const Tensor zero = integer_scalar(exponent, 0);
  const Tensor one = integer_scalar(base, 1);
  Tensor result = one;
  Tensor square = base;
  for (int bit = 0; bit < bits; ++bit) {
    const Tensor mask = integer_scalar(exponent, static_cast<std::int64_t>(std::uint64_t{1} << bit));
    result = select(op("ne", op("bit_and", exponent, mask), zero), result * square, result);
    if (bit + 1 < bits) square = square * square;
  }
  if (!is_signed_integer(exponent.dtype())) return result;
  // 1 / base^|e| truncates to 0, except for the two units; (-1)^e depends on the lowest bit only,
  // which two's complement keeps.
  Tensor unit = select(op("eq", base, one), one, integer_scalar(base, 0));
  if (is_signed_integer(base.dtype())) {
    const Tensor odd = op("ne", op("bit_and", exponent, integer_scalar(exponent, 1)), zero);
    const Tensor minus_one = integer_scalar(base, -1);
    unit = select(op("eq", base, minus_one), select(odd, minus_one, one), unit);
  }
  return select(op("lt", exponent, zero), unit, result);
}

/// An integer to a float power, as the integer dtype. A cast truncates, so an exact power that pow()
/// misses from below by its own error would lose 1: what is that close to an integer is that integer.
Tensor power_of_integer(const Tensor& base, const Tensor& exponent) {
  const Tensor power = op("pow", base.cast(exponent.dtype()), exponent);
  const Tensor nearest = op("round", power);
  const Tensor is_near = op("le", op("abs", power - nearest), op("abs", nearest) * 0x1p-18);
  return select(is_near, nearest, power).cast(base.dtype());
}

}  // namespace

Result<Outputs> apply_primitive(const NodeContext& node) {
  return Outputs{Tensor::apply(node.row().primitive, node.tensors())};
}

Result<Outputs> import_arithmetic(const NodeContext& node) {
  const Value& a = node.value(0);
  const Value& b = node.value(1);
  const std::string_view primitive = node.row().primitive;
  return Outputs{Value{op(primitive, a.tensor, b.tensor),
                       a.known && b.known ? arithmetic(primitive, *a.known, *b.known) : std::nullopt}};
}

Result<Outputs> import_abs(const NodeContext& node) {
  const bool is_unsigned = is_integer(node.dtype()) && !is_signed_integer(node.dtype());
  return Outputs{is_unsigned ? node.tensor(0) : op("abs", node.tensor(0))};
}

Result<Outputs> import_sign(const NodeContext& node) {
  const bool is_unsigned = is_integer(node.dtype()) && !is_signed_integer(node.dtype());
  return Outputs{is_unsigned ? op("min", node.tensor(0), 1) : op("sign", node.tensor(0))};
}

Result<Outputs> import_variadic(const NodeContext& node) {
  const std::vector<Tensor> operands = node.tensors();
  Tensor result = operands.front();
  for (std::size_t i = 1; i < operands.size(); ++i) result = op(node.row().primitive, result, operands[i]);
  return Outputs{std::move(result)};
}

Result<Outputs> import_mean(const NodeContext& node) {
  const std::vector<Tensor> operands = node.tensors();
  Tensor sum = operands.front();
  for (std::size_t i = 1; i < operands.size(); ++i) sum = sum + operands[i];
  return Outputs{sum / static_cast<double>(operands.size())};
}

Result<Outputs> import_mod(const NodeContext& node) {
  VKF_TRY(fmod, node.attributes().integer("fmod", 0));
  if (fmod != 0 && fmod != 1) return invalid("Attribute 'fmod' is {}; it must be 0 or 1.", fmod);
  if (fmod == 0 && is_float(node.dtype())) {
    return invalid("Attribute 'fmod' is 0, which ONNX defines for integers only; the operands are {}.",
                   name_of(node.dtype()));
  }
  return Outputs{op(fmod == 1 ? "rem" : "mod", node.tensor(0), node.tensor(1))};
}

Result<Outputs> import_pow(const NodeContext& node) {
  const Tensor& base = node.tensor(0);
  const Tensor& exponent = node.tensor(1);
  if (exponent.dtype() == DType::boolean) return invalid("The exponent is bool; it must be a number.");
  if (is_float(base.dtype())) return Outputs{op("pow", base, exponent.cast(base.dtype()))};
  if (is_float(exponent.dtype())) return Outputs{power_of_integer(base, exponent)};
  return Outputs{integer_power(base, exponent, exponent_bits(node.value(1)))};
}

Result<Outputs> import_bit_shift(const NodeContext& node) {
  VKF_TRY(direction, node.attributes().text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") {
    return invalid("Attribute 'direction' is {}; it must be 'LEFT' or 'RIGHT'.", in_quotes(direction));
  }
  return Outputs{op(direction == "LEFT" ? "shift_left" : "shift_right", node.tensor(0), node.tensor(1))};
}

Result<Outputs> import_clip_6(const NodeContext& node) {
  Tensor result = node.tensor(0);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  VKF_TRY(low, node.attributes().real("min", -kNone));
  VKF_TRY(high, node.attributes().real("max", kNone));
  if (low != -kNone) result = op("max", result, low);
  if (high != kNone) result = op("min", result, high);
  return Outputs{std::move(result)};
}

Result<Outputs> import_clip_11(const NodeContext& node) {
  // The upper bound last: where min > max the result is max.
  Tensor result = node.tensor(0);
  if (node.has(1)) result = op("max", result, node.tensor(1));
  if (node.has(2)) result = op("min", result, node.tensor(2));
  return Outputs{std::move(result)};
}

}  // namespace vkfuse::onnx

// Arithmetic operators.
#include <cstdint>
#include <limits>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"
#include "onnx/truncation.hpp"

namespace vkfuse::onnx {
namespace {

bool widens(DType from, DType to) {
  if (is_signed_integer(to))
    return is_signed_integer(from) ? size_of(from) <= size_of(to) : size_of(from) < size_of(to);
  return !is_signed_integer(from) && size_of(from) <= size_of(to);
}

/// Whether every value of the exponent is the same number in the dtype. Of exponents that are known,
/// only the small ones, whose width is no question for any dtype, are looked at.
bool fits(const Value& exponent, DType dtype) {
  if (widens(exponent.tensor.dtype(), dtype)) return true;
  if (!exponent.known) return false;
  for (std::size_t i = 0; i < element_count(*exponent.known); ++i) {
    const std::int64_t value = element_int(*exponent.known, i);
    if (value < 0 || value > INT8_MAX) return false;
  }
  return true;
}

/// base^exponent for integers, wrapping to the base's dtype. An exponent that might not fit that
/// dtype makes the power 64 bits wide: the low bits of a product depend on low bits only.
Tensor integer_power(const Tensor& base, const Value& exponent) {
  if (fits(exponent, base.dtype())) return op("pow", base, exponent.tensor.cast(base.dtype()));
  const DType wide = is_signed_integer(exponent.tensor.dtype()) ? DType::i64 : DType::u64;
  return op("pow", base.cast(wide), exponent.tensor.cast(wide)).cast(base.dtype());
}

/// An integer to a float power, as the integer dtype.
Tensor power_of_integer(const Tensor& base, const Tensor& exponent) {
  return truncated_to(base.dtype(), op("pow", base.cast(exponent.dtype()), exponent));
}

/// Counts outside the width leave nothing, or, shifted to the right, copies of the sign.
Tensor shifted(const Tensor& x, const Tensor& count, bool to_left) {
  const DType dtype = x.dtype();
  const auto number = [dtype](std::int64_t value) { return Tensor::scalar_int(dtype, value); };
  const Tensor bits = number(std::int64_t{8} * size_of(dtype));
  const bool is_signed = is_signed_integer(dtype);
  Tensor is_inside = op("lt", count, bits);
  if (is_signed) is_inside = op("and", is_inside, op("ge", count, number(0)));
  if (is_signed && !to_left) return op("shift_right", x, select(is_inside, count, bits - number(1)));
  return select(is_inside, op(to_left ? "shift_left" : "shift_right", x, count), number(0));
}

/// Opsets before 7 broadcast the second operand only, and only when told to: its dimensions are those of
/// the first operand from `axis` on, or, without an axis, the innermost ones.
Result<Tensor> broadcast_by_axis(const NodeContext& node) {
  VKF_TRY(broadcasts, node.attributes().integer("broadcast", 0));
  const Tensor& b = node.tensor(1);
  if (broadcasts == 0 || !node.attributes().has("axis")) return b;
  VKF_TRY(axis, axis_attribute(node, 0));
  const std::size_t rank = node.tensor(0).shape().size();
  const std::size_t last = static_cast<std::size_t>(axis) + b.shape().size();
  if (last > rank) {
    return invalid("Attribute 'axis' is {}; an operand of {} does not fit there into {}.", axis, to_text(b.shape()),
                   to_text(node.tensor(0).shape()));
  }
  Shape shape = b.shape();
  shape.resize(shape.size() + (rank - last), Dim(1));
  return b.reshape(std::move(shape));
}

}  // namespace

Result<Outputs> apply_primitive(const NodeContext& node) {
  return Outputs{Tensor::apply(node.row().primitive, node.tensors())};
}

Result<Outputs> apply_primitive_6(const NodeContext& node) {
  VKF_TRY(b, broadcast_by_axis(node));
  return Outputs{op(node.row().primitive, node.tensor(0), b)};
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
  if (fmod == 0 && is_float(node.dtype()) && node.opset() < 28) {
    return invalid(
        "Attribute 'fmod' of operator 'Mod' is 0, which ONNX defines for floats from opset 28 on; the operands are {}, "
        "the opset is {}.",
        name_of(node.dtype()), node.opset());
  }
  return Outputs{op(fmod == 1 ? "rem" : "mod", node.tensor(0), node.tensor(1))};
}

Result<Outputs> import_pow(const NodeContext& node) {
  const Tensor& base = node.tensor(0);
  const Tensor& exponent = node.tensor(1);
  if (exponent.dtype() == DType::boolean) return invalid("The exponent is bool; it must be a number.");
  if (is_float(base.dtype())) return Outputs{op("pow", base, exponent.cast(base.dtype()))};
  if (is_float(exponent.dtype())) return Outputs{power_of_integer(base, exponent)};
  return Outputs{integer_power(base, node.value(1))};
}

Result<Outputs> import_pow_6(const NodeContext& node) {
  VKF_TRY(exponent, broadcast_by_axis(node));
  if (exponent.dtype() == node.dtype()) return Outputs{op("pow", node.tensor(0), exponent)};
  return invalid("The exponent is {}, the base {}; before opset 12 they are equal.", name_of(exponent.dtype()),
                 name_of(node.dtype()));
}

Result<Outputs> import_bit_shift(const NodeContext& node) {
  VKF_TRY(direction, node.attributes().text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") {
    return invalid("Attribute 'direction' is {}; it must be 'LEFT' or 'RIGHT'.", in_quotes(direction));
  }
  return Outputs{shifted(node.tensor(0), node.tensor(1), direction == "LEFT")};
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

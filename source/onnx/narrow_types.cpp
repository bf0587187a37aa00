#include "onnx/narrow_types.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/compose.hpp"

namespace vkfuse::onnx {
namespace {

// The numbers of TensorProto.DataType: older schemas do not name them.
constexpr NarrowType kTypes[] = {
    {17, "FLOAT8E4M3FN", 8, DType::u8, true, {3, 7, 0x7e, 0x7f, 0x7f, -1, 0x7f, true}},
    {18, "FLOAT8E4M3FNUZ", 8, DType::u8, true, {3, 8, 0x7f, 0x80, 0x80, -1, -1, false}},
    {19, "FLOAT8E5M2", 8, DType::u8, true, {2, 15, 0x7b, 0x7c, 0x7e, 0x7c, 0x7d, true}},
    {20, "FLOAT8E5M2FNUZ", 8, DType::u8, true, {2, 16, 0x7f, 0x80, 0x80, -1, -1, false}},
    {21, "UINT4", 4, DType::u8},
    {22, "INT4", 4, DType::i8},
    {23, "FLOAT4E2M1", 4, DType::u8, true, {1, 1, 7, 7, 8, -1, -1, true}},
    {24, "FLOAT8E8M0", 8, DType::u8, true, {}, true},
    {25, "UINT2", 2, DType::u8},
    {26, "INT2", 2, DType::i8},
    {27, "FLOAT6E2M3", 6, DType::u8, true, {3, 1, 31, 31, 32, -1, -1, true}},
    {28, "FLOAT6E3M2", 6, DType::u8, true, {2, 3, 31, 31, 32, -1, -1, true}},
};

constexpr int kFraction = 23, kBias = 127;  // of f32
constexpr std::int64_t kInfinity = 0x7f800000;

Tensor word(std::int64_t value) { return Tensor::scalar_int(DType::u32, value); }
Tensor real(double value) { return Tensor::scalar(DType::f32, value); }
Tensor low_bits(const Tensor& x, int bits) { return op("bit_and", x, word((std::int64_t{1} << bits) - 1)); }

Tensor widened_power(const Tensor& code) {
  // The smallest is no normal f32.
  const Tensor bits =
      select(op("eq", code, word(0)), word(1 << (kFraction - 1)), op("shift_left", code, word(kFraction)));
  return select(op("eq", code, word(255)), real(std::numeric_limits<double>::quiet_NaN()), bits.bitcast(DType::f32));
}

Tensor narrowed_power(const Tensor& bits, const NarrowRounding& rounding) {
  const Tensor size = low_bits(bits, 31), fraction = low_bits(bits, kFraction);
  const Tensor exponent = op("shift_right", size, word(kFraction));
  const std::int64_t half = std::int64_t{1} << (kFraction - 1);
  // Below the smallest normal f32 the fraction is the number: the code 0 stands for half of it.
  const std::int64_t above = rounding.mode == "up" ? 0 : half - 1;
  const Tensor least = select(op("eq", exponent, word(0)), word(half), word(above));
  const Tensor is_next = rounding.mode == "down" ? op("lt", word(1), word(0)) : op("gt", fraction, least);
  const Tensor code = op("min", exponent + is_next.cast(DType::u32), word(rounding.saturates ? 254 : 255));
  // Zero is below the smallest power, to which saturation takes it.
  const Tensor is_positive = op("eq", op("shift_right", bits, word(31)), word(0));
  const Tensor is_there = rounding.saturates ? op("or", op("eq", size, word(0)), is_positive)
                                             : op("and", op("ge", size, word(half)), is_positive);
  const Tensor is_number = op("and", op("lt", size, word(kInfinity)), is_there);
  const Tensor infinite = rounding.saturates ? op("eq", bits, word(kInfinity)) : op("lt", word(1), word(0));
  return select(is_number, code, select(infinite, word(254), word(255)));
}

Tensor widened_float(const Tensor& code, const NarrowType& type) {
  const FloatFormat& format = type.format;
  const int magnitude_bits = type.bits - 1;
  const Tensor size = low_bits(code, magnitude_bits);
  const Tensor exponent = op("shift_right", size, word(format.fraction_bits));
  const Tensor subnormal =
      low_bits(size, format.fraction_bits).cast(DType::f32) * std::ldexp(1.0, 1 - format.bias - format.fraction_bits);
  const Tensor normal = (op("shift_left", size, word(kFraction - format.fraction_bits)) +
                         word(static_cast<std::int64_t>(kBias - format.bias) << kFraction))
                            .bitcast(DType::f32);
  Tensor result = select(op("eq", exponent, word(0)), subnormal, normal);
  if (format.infinity >= 0)
    result = select(op("eq", size, word(format.infinity)), real(std::numeric_limits<double>::infinity()), result);
  result = select(op("eq", op("shift_right", code, word(magnitude_bits)), word(0)), result, -result);
  if (format.first_nan < 0 && format.negative_zero) return result;
  const Tensor is_nan =
      format.negative_zero ? op("ge", size, word(format.first_nan)) : op("eq", code, word(format.nan));
  return select(is_nan, real(std::numeric_limits<double>::quiet_NaN()), result);
}

Tensor narrowed_float(const Tensor& x, const NarrowType& type, bool saturates) {
  const FloatFormat& format = type.format;
  const Tensor bits = x.bitcast(DType::u32), size = low_bits(bits, 31);
  const int shift = kFraction - format.fraction_bits;
  const Tensor odd = op("bit_and", op("shift_right", size, word(shift)), word(1));
  const Tensor rounded = op("shift_right", size + odd + word((std::int64_t{1} << (shift - 1)) - 1), word(shift));
  const Tensor normal = rounded - word(static_cast<std::int64_t>(kBias - format.bias) << format.fraction_bits);
  // Whole steps of the smallest magnitude; the first too many is the smallest normal one.
  const Tensor steps = op("abs", x) * std::ldexp(1.0, format.bias - 1 + format.fraction_bits);
  const Tensor is_small = op("lt", size, word(static_cast<std::int64_t>(kBias + 1 - format.bias) << kFraction));
  const Tensor few = op("round", select(is_small, steps, real(0))).cast(DType::u32);
  const Tensor code = select(is_small, few, normal);
  const Tensor kept =
      select(op("gt", code, word(format.largest)), word(saturates ? format.largest : format.overflow), code);
  Tensor sign = op("shift_left", op("shift_right", bits, word(31)), word(type.bits - 1));
  if (!format.negative_zero) sign = select(op("eq", kept, word(0)), word(0), sign);
  return select(op("gt", size, word(kInfinity)), word(format.nan), op("bit_or", kept, sign));
}

}  // namespace

const NarrowType* find_narrow(int data_type) {
  const auto* found = std::ranges::find(kTypes, data_type, &NarrowType::data_type);
  return found != std::end(kTypes) ? found : nullptr;
}

Tensor widened(const Tensor& held, const NarrowType& type) {
  if (!type.is_float) return held;
  const Tensor code = held.cast(DType::u32);
  return type.is_power_of_two ? widened_power(code) : widened_float(code, type);
}

Tensor narrowed(const Tensor& x, const NarrowType& type, const NarrowRounding& rounding) {
  if (!type.is_float) {
    const Tensor shift = Tensor::scalar_int(DType::i32, 32 - type.bits);
    const Tensor high = op("shift_left", x.cast(DType::i32), shift);
    if (is_signed_integer(type.held)) return op("shift_right", high, shift).cast(type.held);
    return op("shift_right", high.bitcast(DType::u32), word(32 - type.bits)).cast(type.held);
  }
  const Tensor wide = x.cast(DType::f32);
  if (type.is_power_of_two) return narrowed_power(wide.bitcast(DType::u32), rounding).cast(type.held);
  return narrowed_float(wide, type, rounding.saturates).cast(type.held);
}

}  // namespace vkfuse::onnx

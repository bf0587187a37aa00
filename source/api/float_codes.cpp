// Numbers of codes of 8, 6 and 4 bits, and codes of numbers. Codes are computed by integer arithmetic on the bits of an
// f32 where halves are rounded, and by exact steps of floats where a number is below the format's smallest normal one.
#include <cmath>

#include "api/composites.hpp"
#include "ops/float_formats.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

constexpr int kFraction = 23, kBias = 127;  // of f32
constexpr std::int64_t kInfinity = 0x7f800000;

Tensor bits(std::int64_t value) { return Tensor::scalar_int(DType::u32, value); }
Tensor low_bits(const Tensor& x, int count) { return bit_and(x, bits((std::int64_t{1} << count) - 1)); }
Tensor never() { return Tensor::scalar(DType::boolean, 0); }

/// Exponents of 8 bits, of the bits of an f32.
Tensor power_code(const Tensor& x, const EncodeFloatOptions& options) {
  const Tensor size = low_bits(x, 31), fraction = low_bits(x, kFraction);
  const Tensor exponent = shift_right(size, bits(kFraction));
  const std::int64_t half = std::int64_t{1} << (kFraction - 1);
  // Below the smallest normal f32 the fraction is the number: the code 0 stands for half of it.
  const std::int64_t above = options.power_rounding == PowerRounding::up ? 0 : half - 1;
  const Tensor least = select(eq(exponent, bits(0)), bits(half), bits(above));
  const Tensor is_next = options.power_rounding == PowerRounding::down ? never() : gt(fraction, least);
  const Tensor code = min(exponent + is_next.cast(DType::u32), bits(options.saturates ? 254 : 255));
  // Zero is below the smallest power, to which saturation takes it.
  const Tensor is_positive = eq(shift_right(x, bits(31)), bits(0));
  const Tensor is_there =
      options.saturates ? logical_or(eq(size, bits(0)), is_positive) : logical_and(ge(size, bits(half)), is_positive);
  const Tensor is_number = logical_and(lt(size, bits(kInfinity)), is_there);
  const Tensor is_infinite = options.saturates ? eq(x, bits(kInfinity)) : never();
  return select(is_number, code, select(is_infinite, bits(254), bits(255)));
}

/// Codes with a sign and a fraction, of an f32.
Tensor signed_code(const Tensor& x, const ops::FloatFormatRow& format, bool saturates) {
  const Tensor all = x.bitcast(DType::u32), size = low_bits(all, 31);
  const int dropped = kFraction - format.fraction_bits;
  const Tensor odd = bit_and(shift_right(size, bits(dropped)), bits(1));
  const Tensor rounded = shift_right(size + odd + bits((std::int64_t{1} << (dropped - 1)) - 1), bits(dropped));
  const Tensor normal = rounded - bits(static_cast<std::int64_t>(kBias - format.bias) << format.fraction_bits);
  // Whole steps of the smallest magnitude; the first too many is the smallest normal one.
  const Tensor steps = abs(x) * std::ldexp(1.0, format.bias - 1 + format.fraction_bits);
  const Tensor is_small = lt(size, bits(static_cast<std::int64_t>(kBias + 1 - format.bias) << kFraction));
  const Tensor few = round(select(is_small, steps, Tensor::scalar(DType::f32, 0))).cast(DType::u32);
  const Tensor code = select(is_small, few, normal);
  const std::int64_t beyond = saturates ? format.largest : format.overflow;
  const Tensor kept = select(gt(code, bits(format.largest)), bits(beyond), code);
  Tensor sign = shift_left(shift_right(all, bits(31)), bits(format.magnitude_bits()));
  if (!format.negative_zero) sign = select(eq(kept, bits(0)), bits(0), sign);
  return select(gt(size, bits(kInfinity)), bits(format.nan), bit_or(kept, sign));
}

}  // namespace

Tensor decode_float(const Tensor& codes, FloatFormat format, DType dtype) {
  if (!codes.valid()) return codes;
  if (codes.dtype() != DType::u8 || !is_float(dtype)) {
    return Tensor::failed(
        unsupported("'decode_float' makes floats of codes in u8, but it was given {} and asked for {}.",
                    api::text_of_type(codes), name_of(dtype)));
  }
  const Tensor numbers = Tensor::apply(ops::row_of(format).decode, {codes.cast(DType::u32)}).bitcast(DType::f32);
  return dtype == DType::f32 ? numbers : numbers.cast(dtype);
}

Tensor encode_float(const Tensor& x, FloatFormat format, const EncodeFloatOptions& options) {
  if (!x.valid()) return x;
  if (!is_float(x.dtype())) {
    return Tensor::failed(
        unsupported("'encode_float' makes codes of floats, but it was given {}.", api::text_of_type(x)));
  }
  const Tensor numbers = x.cast(DType::f32);
  const ops::FloatFormatRow& row = ops::row_of(format);
  const Tensor code = row.power_of_two ? power_code(numbers.bitcast(DType::u32), options)
                                       : signed_code(numbers, row, options.saturates);
  return code.cast(DType::u8);
}

}  // namespace vkfuse

// Rows that make numbers of the codes of floats of 8, 6 and 4 bits. Operand and result are u32, the result the bits of
// an f32: every code is exact in it. Integers compute it, and no operation on the way sees a subnormal, but of words of
// four codes with T2, whose self-test has shown that the device converts subnormals of f16.
#include "ops/float_formats.hpp"

#include <algorithm>
#include <bit>

#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

constexpr std::int64_t kCanonicalNaN = 0x7fc00000;  // as other conversions of the shaders give it

template <FloatFormat kFormat>
std::int64_t bits_of_code(Integers x, DType) {
  const double value = decoded(x[0], row_of(kFormat));
  if (std::isnan(value)) return kCanonicalNaN;
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

bool is_nan(std::int64_t code, std::int64_t size, const FloatFormatRow& format) {
  if (!format.negative_zero) return code == format.nan;
  return format.first_nan >= 0 && size >= format.first_nan;
}

double magnitude(std::int64_t size, const FloatFormatRow& format) {
  const auto exponent = static_cast<int>(size >> format.fraction_bits);
  const auto fraction = static_cast<double>(size & ((std::int64_t{1} << format.fraction_bits) - 1));
  const double significand = exponent == 0 ? fraction : std::ldexp(1.0, format.fraction_bits) + fraction;
  return std::ldexp(significand, std::max(exponent, 1) - format.bias - format.fraction_bits);
}

// A row is a paragraph.
// clang-format off
constexpr OpRow kDecoders[] = {
    {.name = "decode_float8_e4m3fn", .types = bit(DType::u32), .glsl = {.u32 = "float8_e4m3fn_bits({0})"},
     .integer = bits_of_code<FloatFormat::float8_e4m3fn>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The f32's bits of the number that the low 8 bits are: 4 of an exponent, 3 of a fraction, no infinities."},
    {.name = "decode_float8_e5m2", .types = bit(DType::u32), .glsl = {.u32 = "float8_e5m2_bits({0})"},
     .integer = bits_of_code<FloatFormat::float8_e5m2>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of 5 and 2 bits: the high byte of an f16."},
    {.name = "decode_float8_e4m3fnuz", .types = bit(DType::u32), .glsl = {.u32 = "float8_e4m3fnuz_bits({0})"},
     .integer = bits_of_code<FloatFormat::float8_e4m3fnuz>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of 4 and 3 bits, half as large; 0x80 is NaN."},
    {.name = "decode_float8_e5m2fnuz", .types = bit(DType::u32), .glsl = {.u32 = "float8_e5m2fnuz_bits({0})"},
     .integer = bits_of_code<FloatFormat::float8_e5m2fnuz>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of 5 and 2 bits, half as large; 0x80 is NaN."},
    {.name = "decode_float6_e2m3fn", .types = bit(DType::u32), .glsl = {.u32 = "float6_e2m3fn_bits({0})"},
     .integer = bits_of_code<FloatFormat::float6_e2m3fn>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of the low 6 bits: 2 of an exponent, 3 of a fraction, neither infinities nor NaN."},
    {.name = "decode_float6_e3m2fn", .types = bit(DType::u32), .glsl = {.u32 = "float6_e3m2fn_bits({0})"},
     .integer = bits_of_code<FloatFormat::float6_e3m2fn>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of 3 and 2 bits."},
    {.name = "decode_float4_e2m1fn", .types = bit(DType::u32), .glsl = {.u32 = "float4_e2m1fn_bits({0})"},
     .integer = bits_of_code<FloatFormat::float4_e2m1fn>, .propagation = ErrorPropagation::exact, .cost = 8,
     .doc = "The same of the low 4 bits: 2 of an exponent, 1 of a fraction."},
    {.name = "decode_float8_e8m0fnu", .types = bit(DType::u32), .glsl = {.u32 = "float8_e8m0fnu_bits({0})"},
     .integer = bits_of_code<FloatFormat::float8_e8m0fnu>, .propagation = ErrorPropagation::exact, .cost = 4,
     .doc = "The same of 8 bits of an exponent: 2^(x - 127); 255 is NaN."},
};
// clang-format on

}  // namespace

const FloatFormatRow* format_decoded_by(const OpRow& op) {
  const auto* const found = std::find_if(std::begin(kFloatFormats), std::end(kFloatFormats),
                                         [&](const FloatFormatRow& format) { return format.decode == op.name; });
  return found == std::end(kFloatFormats) ? nullptr : found;
}

double decoded(std::int64_t code, const FloatFormatRow& format) {
  code &= (std::int64_t{1} << format.bits()) - 1;
  if (format.power_of_two) return code == format.nan ? kNaN : std::ldexp(1.0, static_cast<int>(code) - format.bias);
  const std::int64_t size = code & ((std::int64_t{1} << format.magnitude_bits()) - 1);
  if (is_nan(code, size, format)) return kNaN;
  const double sign = size == code ? 1 : -1;
  return sign * (size == format.infinity ? kInfinity : magnitude(size, format));
}

std::span<const OpRow> float_format_rows() { return kDecoders; }

}  // namespace vkfuse::ops

// How the codes of floats of 8, 6 and 4 bits are numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "vkfuse/float_format.hpp"

namespace vkfuse::ops {

/// A sign, an exponent and a fraction, from the high bits down. What a format lacks is -1.
struct FloatFormatRow {
  FloatFormat format = {};
  std::string_view decode;       ///< the op that makes bits of f32 of codes
  std::string_view decode_word;  ///< the function of shaders/ that does it to the four of a word; empty: there is none
  int fraction_bits = 0;
  int bias = 0;
  std::int32_t largest = 0;     ///< the code of the largest finite magnitude
  std::int32_t overflow = 0;    ///< what is larger becomes, where it does not saturate: infinity or NaN
  std::int32_t nan = 0;         ///< the code that NaN becomes
  std::int32_t infinity = -1;   ///< the magnitude's code
  std::int32_t first_nan = -1;  ///< magnitudes from this code on are NaN
  bool negative_zero = true;    ///< false: its code is the only NaN
  bool power_of_two = false;    ///< an exponent alone

  [[nodiscard]] constexpr int bits() const { return bits_of(format); }
  [[nodiscard]] constexpr int magnitude_bits() const { return bits() - 1; }
};

inline constexpr FloatFormatRow kFloatFormats[] = {
    {.format = FloatFormat::float8_e4m3fn,
     .decode = "decode_float8_e4m3fn",
     .decode_word = "float8_e4m3fn_x4_bits",
     .fraction_bits = 3,
     .bias = 7,
     .largest = 0x7e,
     .overflow = 0x7f,
     .nan = 0x7f,
     .first_nan = 0x7f},
    {.format = FloatFormat::float8_e5m2,
     .decode = "decode_float8_e5m2",
     .decode_word = "float8_e5m2_x4_bits",
     .fraction_bits = 2,
     .bias = 15,
     .largest = 0x7b,
     .overflow = 0x7c,
     .nan = 0x7e,
     .infinity = 0x7c,
     .first_nan = 0x7d},
    {.format = FloatFormat::float8_e4m3fnuz,
     .decode = "decode_float8_e4m3fnuz",
     .decode_word = "float8_e4m3fnuz_x4_bits",
     .fraction_bits = 3,
     .bias = 8,
     .largest = 0x7f,
     .overflow = 0x80,
     .nan = 0x80,
     .negative_zero = false},
    {.format = FloatFormat::float8_e5m2fnuz,
     .decode = "decode_float8_e5m2fnuz",
     .decode_word = "float8_e5m2fnuz_x4_bits",
     .fraction_bits = 2,
     .bias = 16,
     .largest = 0x7f,
     .overflow = 0x80,
     .nan = 0x80,
     .negative_zero = false},
    {.format = FloatFormat::float6_e2m3fn,
     .decode = "decode_float6_e2m3fn",
     .fraction_bits = 3,
     .bias = 1,
     .largest = 31,
     .overflow = 31,
     .nan = 32},
    {.format = FloatFormat::float6_e3m2fn,
     .decode = "decode_float6_e3m2fn",
     .fraction_bits = 2,
     .bias = 3,
     .largest = 31,
     .overflow = 31,
     .nan = 32},
    {.format = FloatFormat::float4_e2m1fn,
     .decode = "decode_float4_e2m1fn",
     .fraction_bits = 1,
     .bias = 1,
     .largest = 7,
     .overflow = 7,
     .nan = 8},
    {.format = FloatFormat::float8_e8m0fnu,
     .decode = "decode_float8_e8m0fnu",
     .bias = 127,
     .largest = 254,
     .overflow = 255,
     .nan = 255,
     .power_of_two = true},
};
static_assert(std::size(kFloatFormats) == kFloatFormatCount);

constexpr const FloatFormatRow& row_of(FloatFormat format) { return kFloatFormats[static_cast<int>(format)]; }

struct OpRow;
/// The format whose codes the op decodes, or null.
const FloatFormatRow* format_decoded_by(const OpRow& op);

/// The number of a code, whose bits above those of the format do not count.
double decoded(std::int64_t code, const FloatFormatRow& format);

}  // namespace vkfuse::ops

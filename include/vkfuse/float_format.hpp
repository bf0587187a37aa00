// Floats of 8, 6 and 4 bits, which are no DType: float_codes.hpp says how tensors hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// Named as in ml_dtypes and PyTorch: exponent bits, mantissa bits, "fn" for no infinities, "uz" for no negative zero.
/// The first two and the last four are of OCP's specifications "8-bit floating point" and "Microscaling formats".
enum class FloatFormat : std::uint8_t {
  float8_e4m3fn,    ///< up to 448, in steps of 2^-9 and more; 0x7f and 0xff are NaN
  float8_e5m2,      ///< up to 57,344, in steps of 2^-16 and more; infinities and NaN as f16 has them
  float8_e4m3fnuz,  ///< up to 240; 0x80 is NaN
  float8_e5m2fnuz,  ///< up to 57,344; 0x80 is NaN
  float6_e2m3fn,    ///< up to 7.5; neither infinities nor NaN
  float6_e3m2fn,    ///< up to 28; neither infinities nor NaN
  float4_e2m1fn,    ///< 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  float8_e8m0fnu,   ///< 2^(code - 127): a scale; 255 is NaN
};
inline constexpr int kFloatFormatCount = 8;

/// As in the enumeration: "float8_e4m3fn".
constexpr std::string_view name_of(FloatFormat format) {
  constexpr std::string_view names[kFloatFormatCount] = {"float8_e4m3fn",   "float8_e5m2",   "float8_e4m3fnuz",
                                                         "float8_e5m2fnuz", "float6_e2m3fn", "float6_e3m2fn",
                                                         "float4_e2m1fn",   "float8_e8m0fnu"};
  return names[static_cast<int>(format)];
}

/// The format of that name, or nothing.
constexpr std::optional<FloatFormat> float_format_named(std::string_view name) {
  for (int i = 0; i < kFloatFormatCount; ++i) {
    if (name_of(static_cast<FloatFormat>(i)) == name) return static_cast<FloatFormat>(i);
  }
  return std::nullopt;
}

/// Bits of a code: 8, 6 or 4.
constexpr int bits_of(FloatFormat format) {
  constexpr int bits[kFloatFormatCount] = {8, 8, 8, 8, 6, 6, 4, 8};
  return bits[static_cast<int>(format)];
}

}  // namespace VKFUSE_PUBLIC

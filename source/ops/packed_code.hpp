// How some bits of a byte are numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "ops/float_formats.hpp"

namespace vkfuse::ops {

/// Whole numbers, (bits ^ flip) + offset, or those that codes of a float's format are.
struct PackedCode {
  int bits = 4;  ///< from one number to the next: 4 or 8, of which the upper ones of a short code do not count
  std::uint32_t flip = 0;
  std::int64_t offset = 0;
  std::optional<FloatFormat> format;

  /// Numbers in 16 bits, and in 16 bytes.
  [[nodiscard]] int per_half() const { return 16 / bits; }
  [[nodiscard]] int per_chunk() const { return 128 / bits; }
  /// What a number of fragments is worth: codes become an f16 whose exponent has another bias.
  [[nodiscard]] double unit() const { return format ? std::ldexp(1.0, 15 - row_of(*format).bias) : 1; }
  /// Whether codes may be NaN that would not be NaN as an f16.
  [[nodiscard]] bool hides_nan() const {
    return format && row_of(*format).first_nan >= 0 && row_of(*format).infinity < 0;
  }
  /// Whether numbers are made alike, but for what is added to them.
  [[nodiscard]] bool is_like(const PackedCode& other) const {
    return bits == other.bits && flip == other.flip && format == other.format;
  }
  bool operator==(const PackedCode&) const = default;
};

}  // namespace vkfuse::ops

// Scalar conversions and Philox on the host.
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "ops/op.hpp"

namespace vkfuse::ops {
namespace {

/// An IEEE format of 16 bits.
struct SmallFloat {
  int fraction_bits;
  int least_exponent;  ///< of normal numbers
};
constexpr SmallFloat kF16 = {10, -14};
constexpr SmallFloat kBf16 = {7, -126};

std::uint16_t encode(double value, SmallFloat format) {
  const int infinity = (0x7fff >> format.fraction_bits) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | 1 << (format.fraction_bits - 1));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  const int greatest_exponent = 1 - format.least_exponent;
  if (!(magnitude < std::ldexp(1.0, greatest_exponent + 1))) return static_cast<std::uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  // In units of the last place, where nearbyint() rounds to even; a carry moves on into the exponent.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent - format.least_exponent) << format.fraction_bits) + steps));
}

double decode(std::uint16_t bits, SmallFloat format) {
  const int magnitude = bits & 0x7fff;
  const int biased = magnitude >> format.fraction_bits;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (biased == 0x7fff >> format.fraction_bits) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (biased == 0) return sign * std::ldexp(fraction, format.least_exponent - format.fraction_bits);
  return sign *
         std::ldexp(fraction + (1 << format.fraction_bits), biased - 1 + format.least_exponent - format.fraction_bits);
}

}  // namespace

std::uint16_t f16_from(double value) { return encode(value, kF16); }
double f16_to(std::uint16_t bits) { return decode(bits, kF16); }
std::uint16_t bf16_from(double value) { return encode(value, kBf16); }
double bf16_to(std::uint16_t bits) { return decode(bits, kBf16); }

std::int64_t wrap(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::i8: return static_cast<std::int8_t>(value);
    case DType::u8: return static_cast<std::uint8_t>(value);
    case DType::i16: return static_cast<std::int16_t>(value);
    case DType::u16: return static_cast<std::uint16_t>(value);
    case DType::i32: return static_cast<std::int32_t>(value);
    case DType::u32: return static_cast<std::uint32_t>(value);
    default: return value;
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f16: return f16_to(f16_from(value));
    case DType::bf16: return bf16_to(bf16_from(value));
    case DType::f32: return static_cast<float>(value);
    default: return value;
  }
}

std::int64_t saturate(DType dtype, double value) {
  if (dtype == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  const bool has_sign = is_signed_integer(dtype);
  const int bits = 8 * size_of(dtype) - (has_sign ? 1 : 0);
  const double limit = std::ldexp(1.0, bits);  // one above the largest value
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - bits);
  const double whole = std::trunc(value);
  if (whole >= limit) return static_cast<std::int64_t>(largest);
  if (!has_sign) return whole <= 0 ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(whole));
  if (whole < -limit) return -static_cast<std::int64_t>(largest) - 1;
  return static_cast<std::int64_t>(whole);
}

std::uint32_t philox(std::uint64_t seed, std::uint64_t index) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  const std::uint64_t block = index / 4;
  std::array<std::uint32_t, 4> counter = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0,
                                          0};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter[index % 4];
}

}  // namespace vkfuse::ops

// Scalar conversions of the host: small floats exhaustively, integers at their limits, Philox.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "ops/op.hpp"

namespace vkfuse::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The value of a format's bits straight from its definition.
double slow_value(unsigned bits, int fraction_bits, int bias) {
  const unsigned magnitude = bits & 0x7fff;
  const int field = static_cast<int>(magnitude >> fraction_bits);
  const double fraction = (magnitude & ((1u << fraction_bits) - 1)) / std::pow(2.0, fraction_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (field == (0x7fff >> fraction_bits)) return fraction == 0 ? sign * kInfinity : kNaN;
  return field == 0 ? sign * fraction * std::pow(2.0, 1 - bias) : sign * (1 + fraction) * std::pow(2.0, field - bias);
}

struct Format {
  const char* name;
  int fraction_bits;
  int bias;
  std::uint16_t (*from)(double);
  double (*to)(std::uint16_t);
};
constexpr Format kFormats[] = {{"f16", 10, 15, f16_from, f16_to}, {"bf16", 7, 127, bf16_from, bf16_to}};

class SmallFloatTest : public testing::TestWithParam<Format> {};

TEST_P(SmallFloatTest, EveryValueSurvivesTheRoundTrip) {
  const Format& format = GetParam();
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const auto code = static_cast<std::uint16_t>(bits);
    const double value = format.to(code);
    const double want = slow_value(bits, format.fraction_bits, format.bias);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(format.from(value),
                (0x7fff >> format.fraction_bits << format.fraction_bits) | 1 << (format.fraction_bits - 1));
    } else {
      EXPECT_EQ(value, want) << bits;
      EXPECT_EQ(format.from(value), code);
    }
  }
}

TEST_P(SmallFloatTest, ValuesBetweenNeighboursGoToTheNearestAndHalvesToTheEven) {
  const Format& format = GetParam();
  const unsigned infinity = 0x7fff >> format.fraction_bits << format.fraction_bits;
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double low = slow_value(bits, format.fraction_bits, format.bias);
    const double high = slow_value(bits + 1, format.fraction_bits, format.bias);
    const double middle = (low + high) / 2;
    EXPECT_EQ(format.from(middle), bits + (bits & 1)) << bits;
    EXPECT_EQ(format.from(std::nextafter(middle, 0)), bits);
    EXPECT_EQ(format.from(std::nextafter(middle, kInfinity)), bits + 1);
    EXPECT_EQ(format.from(-middle), 0x8000 | (bits + (bits & 1)));
  }
}

TEST_P(SmallFloatTest, OverflowStartsHalfAStepBeyondTheLargest) {
  const Format& format = GetParam();
  const unsigned infinity = 0x7fff >> format.fraction_bits << format.fraction_bits;
  const double largest = slow_value(infinity - 1, format.fraction_bits, format.bias);
  const double step = largest - slow_value(infinity - 2, format.fraction_bits, format.bias);
  EXPECT_EQ(format.from(std::nextafter(largest + step / 2, 0)), infinity - 1);
  EXPECT_EQ(format.from(largest + step / 2), infinity);
  EXPECT_EQ(format.from(1e300), infinity);
  EXPECT_EQ(format.from(-kInfinity), 0x8000 | infinity);
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatTest, testing::ValuesIn(kFormats),
                         [](const testing::TestParamInfo<Format>& each) { return each.param.name; });

TEST(SaturateTest, TruncatesAndStopsAtTheLimits) {
  EXPECT_EQ(saturate(DType::i8, 127.9), 127);
  EXPECT_EQ(saturate(DType::i8, 128), 127);
  EXPECT_EQ(saturate(DType::i8, -128.9), -128);
  EXPECT_EQ(saturate(DType::i8, -1e30), -128);
  EXPECT_EQ(saturate(DType::u8, -0.5), 0);
  EXPECT_EQ(saturate(DType::u8, -kInfinity), 0);
  EXPECT_EQ(saturate(DType::u16, 65535.9), 65535);
  EXPECT_EQ(saturate(DType::i32, 2147483647.5), 2147483647);
  EXPECT_EQ(saturate(DType::u32, 1e10), 4294967295);
  EXPECT_EQ(saturate(DType::i64, 0x1p63), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(saturate(DType::i64, -0x1p63), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(saturate(DType::u64, 0x1p63), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(saturate(DType::u64, kInfinity), -1);
  for (const DType dtype : {DType::i8, DType::u16, DType::i64, DType::u64}) EXPECT_EQ(saturate(dtype, kNaN), 0);
  EXPECT_EQ(saturate(DType::boolean, 0.25), 1);
  EXPECT_EQ(saturate(DType::boolean, -0.0), 0);
  EXPECT_EQ(saturate(DType::boolean, kNaN), 1);
}

TEST(WrapTest, KeepsTheLowBits) {
  EXPECT_EQ(wrap(DType::i8, 200), -56);
  EXPECT_EQ(wrap(DType::u8, -1), 255);
  EXPECT_EQ(wrap(DType::i16, 32768), -32768);
  EXPECT_EQ(wrap(DType::u16, 65536), 0);
  EXPECT_EQ(wrap(DType::i32, std::int64_t{1} << 31), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(wrap(DType::u32, -1), 4294967295);
  EXPECT_EQ(wrap(DType::u64, -1), -1);
  EXPECT_EQ(wrap(DType::boolean, 256), 1);
}

TEST(RoundToTest, RoundsOnce) {
  EXPECT_EQ(round_to(DType::f16, 65519.999), 65504);
  EXPECT_EQ(round_to(DType::f16, 1 + 0x1p-11), 1);
  EXPECT_EQ(round_to(DType::f16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);  // f32 in between would lose the last bit
  EXPECT_EQ(round_to(DType::f32, 0.1), static_cast<double>(0.1F));
  EXPECT_EQ(round_to(DType::f64, 0.1), 0.1);
}

/// Known answers of the Random123 distribution, for keys and counters of zeros.
TEST(PhiloxTest, GivesTheKnownAnswer) {
  constexpr std::array<std::uint32_t, 4> known = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::uint64_t word = 0; word < 4; ++word) EXPECT_EQ(philox(0, word), known[word]);
}

TEST(PhiloxTest, DependsOnEveryBitOfTheSeedAndTheIndex) {
  const std::uint32_t base = philox(0, 0);
  for (int bit_index = 0; bit_index < 64; ++bit_index) {
    EXPECT_NE(philox(std::uint64_t{1} << bit_index, 0), base) << bit_index;
    EXPECT_NE(philox(0, std::uint64_t{1} << bit_index), base) << bit_index;
  }
}

}  // namespace
}  // namespace vkfuse::ops

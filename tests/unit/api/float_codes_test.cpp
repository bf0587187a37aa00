// Floats of 8, 6 and 4 bits: what codes are, and the nearest codes of numbers, against what the specifications say.
#include "vkfuse/float_codes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "api/tensor_node.hpp"
#include "ops/float_formats.hpp"
#include "reference/reference.hpp"
#include "support/device.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse {
namespace {

using List = std::vector<double>;

List evaluated(const Tensor& y, DType dtype, const List& values) {
  std::vector<std::byte> bytes;
  for (const double value : values) ir::encode(dtype, value, bytes);
  const ir::Graph graph = test::must(api::to_graph({&y, 1}, {}, "test"));
  reference::InputBindings bindings;
  bindings.inputs.emplace("x", bytes);
  const reference::Column column = test::must(reference::evaluate(graph, graph.outputs()[0].value, bindings));
  return is_float(y.dtype()) ? column.value : List(column.integer.begin(), column.integer.end());
}

Tensor input(DType dtype, std::size_t count) {
  return Tensor::input("x", dtype, {Dim(static_cast<std::int64_t>(count))});
}

List decoded(FloatFormat format, const List& codes) {
  return evaluated(decode_float(input(DType::u8, codes.size()), format), DType::u8, codes);
}

List encoded(FloatFormat format, const List& numbers, const EncodeFloatOptions& options = {}) {
  return evaluated(encode_float(input(DType::f32, numbers.size()), format, options), DType::f32, numbers);
}

List all_codes(FloatFormat format) {
  List codes;
  for (int code = 0; code < 1 << bits_of(format); ++code) codes.push_back(code);
  return codes;
}

class FloatCodes : public testing::TestWithParam<FloatFormat> {};
/// All but powers of two, whose three roundings OnnxNarrowTypes.PowersOfTwo has.
class SignedFloatCodes : public FloatCodes {};

/// Of OCP's "8-bit floating point" and "Microscaling formats", and of the papers on formats without negative zero.
struct Extremes {
  double largest, least_normal, least;
  int codes_of_nan, codes_of_infinity;
};
const std::map<FloatFormat, Extremes> kExtremes = {
    {FloatFormat::float8_e4m3fn, {448, 0x1p-6, 0x1p-9, 2, 0}},
    {FloatFormat::float8_e5m2, {57344, 0x1p-14, 0x1p-16, 6, 2}},
    {FloatFormat::float8_e4m3fnuz, {240, 0x1p-7, 0x1p-10, 1, 0}},
    {FloatFormat::float8_e5m2fnuz, {57344, 0x1p-15, 0x1p-17, 1, 0}},
    {FloatFormat::float6_e2m3fn, {7.5, 1, 0.125, 0, 0}},
    {FloatFormat::float6_e3m2fn, {28, 0.25, 0.0625, 0, 0}},
    {FloatFormat::float4_e2m1fn, {6, 1, 0.5, 0, 0}},
    {FloatFormat::float8_e8m0fnu, {0x1p127, 0x1p-127, 0x1p-127, 1, 0}},
};

TEST_P(FloatCodes, HaveTheExtremesOfTheirSpecification) {
  const Extremes& wanted = kExtremes.at(GetParam());
  double largest = 0, least = INFINITY;
  int nans = 0, infinities = 0;
  bool has_least_normal = false;
  for (const double value : decoded(GetParam(), all_codes(GetParam()))) {
    nans += std::isnan(value) ? 1 : 0;
    infinities += std::isinf(value) ? 1 : 0;
    if (std::isfinite(value)) largest = std::max(largest, value);
    if (value > 0) least = std::min(least, value);
    has_least_normal = has_least_normal || value == wanted.least_normal;
  }
  EXPECT_EQ(largest, wanted.largest);
  EXPECT_EQ(least, wanted.least);
  EXPECT_TRUE(has_least_normal);
  EXPECT_EQ(nans, wanted.codes_of_nan);
  EXPECT_EQ(infinities, wanted.codes_of_infinity);
}

TEST_P(FloatCodes, OfTheirNumbersAreThemselves) {
  const List codes = all_codes(GetParam()), numbers = decoded(GetParam(), codes);
  const List again = encoded(GetParam(), numbers, {.saturates = false});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (!std::isnan(numbers[i])) {
      EXPECT_EQ(again[i], codes[i]) << numbers[i];
    }
  }
}

/// Between two neighbours: the nearer, and halfway the one whose code is even.
TEST_P(SignedFloatCodes, AreTheNearest) {
  const int count = 1 << (bits_of(GetParam()) - 1);
  const List numbers = decoded(GetParam(), all_codes(GetParam()));
  List asked, wanted;
  for (int code = 0; code + 1 < count && std::isfinite(numbers[static_cast<std::size_t>(code) + 1]); ++code) {
    const double low = numbers[static_cast<std::size_t>(code)], high = numbers[static_cast<std::size_t>(code) + 1];
    const double middle = (low + high) / 2, off = (high - low) / 1024;
    asked.insert(asked.end(), {middle - off, middle, middle + off, -(middle + off)});
    const double even = code % 2 == 0 ? code : code + 1;
    wanted.insert(wanted.end(), {static_cast<double>(code), even, code + 1.0, code + 1.0 + count});
  }
  ASSERT_GE(asked.size(), 28U);
  const List got = encoded(GetParam(), asked);
  for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(got[i], wanted[i]) << asked[i];
}

TEST_P(FloatCodes, DoNotHaveTheBitsAbove) {
  const int bits = bits_of(GetParam());
  const Tensor codes = Tensor::input("x", DType::u32, {1});
  const Tensor numbers = Tensor::apply(ops::row_of(GetParam()).decode, {codes}).bitcast(DType::f32);
  for (const double code : all_codes(GetParam())) {
    const double low = evaluated(numbers, DType::u32, {code})[0];
    const double high = evaluated(numbers, DType::u32, {code + std::ldexp(21, bits)})[0];
    EXPECT_TRUE(low == high || (std::isnan(low) && std::isnan(high))) << code << " is " << low << " and " << high;
  }
}

const auto kSigned = testing::Values(FloatFormat::float8_e4m3fn, FloatFormat::float8_e5m2, FloatFormat::float8_e4m3fnuz,
                                     FloatFormat::float8_e5m2fnuz, FloatFormat::float6_e2m3fn,
                                     FloatFormat::float6_e3m2fn, FloatFormat::float4_e2m1fn);
const auto kName = [](const auto& one) { return std::string(name_of(one.param)); };
INSTANTIATE_TEST_SUITE_P(All, SignedFloatCodes, kSigned, kName);
INSTANTIATE_TEST_SUITE_P(Signed, FloatCodes, kSigned, kName);
INSTANTIATE_TEST_SUITE_P(Powers, FloatCodes, testing::Values(FloatFormat::float8_e8m0fnu), kName);

TEST(FloatFormats, AreInTheOrderOfTheirTable) {
  for (const ops::FloatFormatRow& row : ops::kFloatFormats) {
    EXPECT_EQ(&ops::row_of(row.format), &row);
    EXPECT_EQ(row.decode, "decode_" + std::string(name_of(row.format)));
    EXPECT_EQ(float_format_named(name_of(row.format)), row.format);
  }
  EXPECT_EQ(float_format_named("float8"), std::nullopt);
}

TEST(FloatFormats, AreRoundedToOtherDtypes) {
  const Tensor codes = input(DType::u8, 3);
  const List powers = {112, 127, 140};
  EXPECT_EQ(evaluated(decode_float(codes, FloatFormat::float8_e8m0fnu, DType::f16), DType::u8, powers),
            (List{0x1p-15, 1, 0x1p13}));
  EXPECT_EQ(evaluated(decode_float(codes, FloatFormat::float8_e8m0fnu, DType::bf16), DType::u8, powers),
            (List{0x1p-15, 1, 0x1p13}));
}

/// MXFP4: 32 neighbours have an exponent; NVFP4: 16 have a float of 8 bits, and all of them one of 32.
TEST(FloatFormats, OfBlocksTakeTheirScales) {
  List bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back((i * 7) % 16 + 16 * ((i * 5 + 3) % 16));
  const Tensor packed = input(DType::u8, bytes.size());
  const Tensor numbers = decode_float(unpack_int4(packed, false), FloatFormat::float4_e2m1fn);
  const List plain = evaluated(numbers, DType::u8, bytes);
  const Tensor powers = decode_float(Tensor::iota(DType::u8, {2}, 0) + Tensor::scalar(DType::u8, 125),
                                     FloatFormat::float8_e8m0fnu);  // 1/4, 1/2
  const List mx = evaluated(dequantize(numbers, {.scale = powers, .axis = 0, .group = 32}), DType::u8, bytes);
  for (std::size_t i = 0; i < mx.size(); ++i) EXPECT_EQ(mx[i], plain[i] * (i < 32 ? 0.25 : 0.5)) << i;
  const Tensor eighths = decode_float(Tensor::iota(DType::u8, {4}, 0) + Tensor::scalar(DType::u8, 0x38),
                                      FloatFormat::float8_e4m3fn) *
                         3;  // 1, 9/8, 10/8, 11/8
  const List nv = evaluated(dequantize(numbers, {.scale = eighths, .axis = 0, .group = 16}), DType::u8, bytes);
  for (std::size_t i = 0; i < nv.size(); ++i)
    EXPECT_EQ(nv[i], plain[i] * 3 * (1 + static_cast<double>(i / 16) / 8)) << i;
}

}  // namespace
}  // namespace vkfuse

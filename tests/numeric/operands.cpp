#include "numeric/operands.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>

namespace vkfuse::numeric {
namespace {

/// Limits, where functions of f64 change formula or overflow, and multiples of pi/2 to 60 bits.
constexpr double kDoubleMagnitudes[] = {0x1p-1074,
                                        0x1p-1022,
                                        0x1.fffffffffffffp-1023,
                                        0x1p-53,
                                        0x1p-27,
                                        0.29,
                                        0.3125,
                                        0.35,
                                        6,
                                        22,
                                        37,
                                        38,
                                        36.8,
                                        708,
                                        709.7827128,
                                        709.79,
                                        710.4758,
                                        710.48,
                                        744.44,
                                        745.2,
                                        746,
                                        1023.9,
                                        1074.5,
                                        1075.5,
                                        0x1p20,
                                        0x1p52,
                                        0x1p53,
                                        2147483647.5,
                                        1e18,
                                        1e154,
                                        1e155,
                                        1e300,
                                        0x1.fffffffffffffp1023,
                                        0x1.6ac5b262ca1ffp849,
                                        0x1.921fb54442d18p0,
                                        0x1.921fb54442d18p40,
                                        0x1.5fdbbe9bba775p5};

std::vector<Value> special_floats(DType dtype) {
  std::vector<double> magnitudes = {0,
                                    std::numeric_limits<double>::infinity(),
                                    1e-45,
                                    1e-40,
                                    0x1.fffffcp-127,
                                    0x1p-126,
                                    0x1p-24,
                                    0x1p-25,
                                    0x1.004p-24,
                                    1e-8,
                                    0x1p-14,
                                    0x1.ff8p-15,
                                    0.25,
                                    0.3,
                                    0.41,
                                    0.5,
                                    0.625,
                                    0.75,
                                    1,
                                    1.5,
                                    2,
                                    2.5,
                                    3,
                                    3.5,
                                    4,
                                    7,
                                    10,
                                    18,
                                    20,
                                    88.7,
                                    89,
                                    90,
                                    103,
                                    104,
                                    127,
                                    128,
                                    149,
                                    150,
                                    200,
                                    201,
                                    255,
                                    256,
                                    32767,
                                    32768,
                                    65503,
                                    65504,
                                    65519,
                                    65520,
                                    65536,
                                    0x1p23 - 0.5,
                                    0x1p23,
                                    0x1p24,
                                    2147483520,
                                    2147483648,
                                    4294967040,
                                    4294967296,
                                    1e9,
                                    1e10,
                                    0x1p63,
                                    0x1p64,
                                    1e19,
                                    0x1p126,
                                    0x1p127,
                                    0x1.fffffep127,
                                    3.14159265358979,
                                    1.5707963267949};
  if (dtype == DType::f64) {
    magnitudes.insert(magnitudes.end(), std::begin(kDoubleMagnitudes), std::end(kDoubleMagnitudes));
  }
  std::vector<Value> values = {{std::numeric_limits<double>::quiet_NaN(), 0}};
  for (const double magnitude : magnitudes) {
    for (const double value : {magnitude, -magnitude}) values.push_back({ops::round_to(dtype, value), 0});
  }
  for (const double power : {0.5, 1.0, 2.0, 4.0}) {
    const auto single = static_cast<float>(power);
    values.push_back({ops::round_to(dtype, std::nextafter(single, 0.0F)), 0});
    values.push_back({ops::round_to(dtype, -std::nextafter(single, 8.0F)), 0});
  }
  return values;
}

std::vector<Value> special_integers(DType dtype) {
  const int bits = 8 * size_of(dtype);
  std::vector<Value> values;
  for (const std::int64_t near :
       {std::int64_t{0}, std::int64_t{1} << (bits - 1), std::int64_t{1} << (bits / 2), std::int64_t{1} << (bits / 4)}) {
    for (std::int64_t offset = -3; offset <= 3; ++offset) {
      const auto sum = static_cast<std::uint64_t>(near) + static_cast<std::uint64_t>(offset);
      values.push_back({0, ops::wrap(dtype, static_cast<std::int64_t>(sum))});
    }
  }
  for (const std::int64_t value : {7, 10, 31, 32, 33, 63, 64, 100, -7, -10})
    values.push_back({0, ops::wrap(dtype, value)});
  return values;
}

Value any_bits(DType dtype, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  switch (dtype) {
    case DType::f32: return {std::bit_cast<float>(static_cast<std::uint32_t>(bits)), 0};
    case DType::f16: return {ops::f16_to(static_cast<std::uint16_t>(bits)), 0};
    case DType::bf16: return {ops::bf16_to(static_cast<std::uint16_t>(bits)), 0};
    case DType::f64: return {std::bit_cast<double>(bits), 0};
    case DType::boolean: return {0, static_cast<std::int64_t>(bits & 1)};
    default: return {0, ops::wrap(dtype, static_cast<std::int64_t>(bits >> (random() % 64)))};
  }
}

Value in_range(DType dtype, double low, double high, std::mt19937_64& random) {
  const double value = low + (high - low) * std::uniform_real_distribution<double>(0, 1)(random);
  return is_float(dtype) ? Value{ops::round_to(dtype, value), 0} : any_bits(dtype, random);
}

}  // namespace

std::size_t sweep_elements() {
  const char* chosen = std::getenv("VKFUSE_SWEEP_ELEMENTS");
  return chosen != nullptr ? static_cast<std::size_t>(std::atol(chosen)) : 24576;
}

const std::vector<Value>& special_values(DType dtype) {
  static const auto tables = [] {
    std::array<std::vector<Value>, kDTypeCount> all;
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto each = static_cast<DType>(i);
      all[i] = is_float(each)           ? special_floats(each)
               : each == DType::boolean ? std::vector<Value>{{0, 0}, {0, 1}}
                                        : special_integers(each);
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(dtype)];
}

std::vector<std::vector<Value>> operands_for(const std::vector<DType>& dtypes, double low, double high) {
  std::mt19937_64 random(1);
  std::vector<std::vector<Value>> operands(dtypes.size());
  // Every pair of special values where that is not too many; of triples, a sample.
  std::size_t combinations = 1;
  for (const DType dtype : dtypes) combinations *= special_values(dtype).size();
  const std::size_t elements = sweep_elements();
  const bool every = combinations <= elements * 3 / 4;
  const std::size_t special_count = every ? combinations : elements / 2;
  for (std::size_t i = 0; i < elements; ++i) {
    std::size_t index = i;
    for (std::size_t k = 0; k < dtypes.size(); ++k) {
      const std::vector<Value>& specials = special_values(dtypes[k]);
      if (i < special_count) {
        operands[k].push_back(specials[(every ? index : random()) % specials.size()]);
        index /= specials.size();
      } else {
        operands[k].push_back(i % 3 == 0 ? any_bits(dtypes[k], random) : in_range(dtypes[k], low, high, random));
      }
    }
  }
  return operands;
}

}  // namespace vkfuse::numeric

// Integers that become wider ones and meet constants: Mesa 22.3's compiler takes int64_t(x) < 3 for one answer,
// whatever x is.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/device.hpp"
#include "support/environment.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

using Compare = bool (*)(std::int64_t, std::int64_t);
const std::pair<const char*, Compare> kComparisons[] = {
    {"lt", [](std::int64_t a, std::int64_t b) { return a < b; }},
    {"le", [](std::int64_t a, std::int64_t b) { return a <= b; }},
    {"gt", [](std::int64_t a, std::int64_t b) { return a > b; }},
    {"ge", [](std::int64_t a, std::int64_t b) { return a >= b; }},
    {"eq", [](std::int64_t a, std::int64_t b) { return a == b; }},
    {"ne", [](std::int64_t a, std::int64_t b) { return a != b; }},
};

constexpr std::int64_t kConstants[] = {-2147483649, -2147483648, -129, -3, 0, 1, 3, 127, 2147483647, 4294967296};

template <typename T>
std::vector<T> numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{Limits::min(), 0, 1, 2, 3, 4, 100, Limits::max()};
  if (Limits::is_signed) all.insert(all.end(), {static_cast<T>(-1), static_cast<T>(-3), static_cast<T>(-4)});
  return all;
}

template <typename T, DType kType>
struct Narrow {
  using Number = T;
  static Tensor widened(std::size_t count) {
    return Tensor::input("x", kType, {static_cast<std::int64_t>(count)}).cast(DType::i64);
  }
};

template <typename T>
struct Widened : testing::Test {};
using AllNarrow = testing::Types<Narrow<std::int8_t, DType::i8>, Narrow<std::int16_t, DType::i16>,
                                 Narrow<std::int32_t, DType::i32>, Narrow<std::uint8_t, DType::u8>,
                                 Narrow<std::uint16_t, DType::u16>, Narrow<std::uint32_t, DType::u32>>;

template <typename T>
std::vector<T> elements(const Outputs& outputs, const char* name) {
  const auto all = outputs.at(name).as<T>();
  return {all.begin(), all.end()};
}
TYPED_TEST_SUITE(Widened, AllNarrow);

/// Bit 2k: comparison k of the number and a constant; bit 2k + 1: of the constant and the number.
TYPED_TEST(Widened, MeetConstants) {
  const auto x = numbers<typename TypeParam::Number>();
  const Tensor wide = TypeParam::widened(x.size());
  for (const std::int64_t constant : kConstants) {
    const Tensor other = Tensor::scalar_int(DType::i64, constant);
    Tensor bits = Tensor::scalar_int(DType::i32, 0);
    std::vector<std::int32_t> expected(x.size());
    int bit = 0;
    for (const auto& [name, holds] : kComparisons) {
      for (const bool swapped : {false, true}) {
        const Tensor one = swapped ? Tensor::apply(name, {other, wide}) : Tensor::apply(name, {wide, other});
        bits = bits + one.cast(DType::i32) * Tensor::scalar_int(DType::i32, 1 << bit);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::int64_t number = x[i];
          expected[i] |= (swapped ? holds(constant, number) : holds(number, constant)) << bit;
        }
        ++bit;
      }
    }
    const Outputs got = must(must(compile(device(), {bits})).run({{"x", HostView(x)}}));
    EXPECT_EQ(elements<std::int32_t>(got, "y"), expected) << constant;
  }
}

TYPED_TEST(Widened, AreDividedByConstants) {
  const auto x = numbers<typename TypeParam::Number>();
  const Tensor wide = TypeParam::widened(x.size());
  for (const std::int64_t constant : {3, -3, 128}) {
    const Tensor other = Tensor::scalar_int(DType::i64, constant);
    const Executable program = must(compile(device(), {wide / other, rem(wide, other), mod(wide, other)}));
    std::vector<std::int64_t> quotients, rests, moduli;
    for (const std::int64_t number : x) {
      const std::int64_t rest = number % constant;
      quotients.push_back(number / constant);
      rests.push_back(rest);
      moduli.push_back(rest != 0 && (rest < 0) != (constant < 0) ? rest + constant : rest);
    }
    const Outputs got = must(program.run({{"x", HostView(x)}}));
    EXPECT_EQ(elements<std::int64_t>(got, "y"), quotients) << constant;
    EXPECT_EQ(elements<std::int64_t>(got, "y1"), rests) << constant;
    EXPECT_EQ(elements<std::int64_t>(got, "y2"), moduli) << constant;
  }
}

}  // namespace
}  // namespace vkfuse::test

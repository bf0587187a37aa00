#include "parallel/join.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "ops/op.hpp"

namespace vkfuse::parallel {

namespace {

using Values = std::span<const std::span<const std::byte>>;

/// How elements lie in bytes, and what they are added up in.
template <typename T>
struct Plain {
  using Sum = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(std::byte* at, T value) { std::memcpy(at, &value, sizeof value); }
};

template <std::uint16_t (*kFrom)(double), double (*kTo)(std::uint16_t)>
struct Half {
  using Sum = float;
  static constexpr std::size_t kBytes = 2;
  static float load(const std::byte* at) { return static_cast<float>(kTo(Plain<std::uint16_t>::load(at))); }
  static void store(std::byte* at, float value) { Plain<std::uint16_t>::store(at, kFrom(static_cast<double>(value))); }
};

template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

template <bool kMax, typename T>
T extreme(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  }
  return (kMax ? a < b : b < a) ? b : a;
}

#ifdef VKFUSE_MUTATIONS
template <typename Format>
typename Format::Sum rounded(typename Format::Sum sum) {
  std::byte bytes[Format::kBytes];
  Format::store(bytes, sum);
  return Format::load(bytes);
}
#endif

/// By blocks, each of which stays in the cache while the values are gone through.
template <typename Format, typename Joined>
void join_by(Joined joined, Values values, std::span<std::byte> into) {
  constexpr std::size_t kBlock = 1024;
  using Sum = typename Format::Sum;
  const std::size_t count = into.size() / Format::kBytes;
  std::vector<Sum> sums(std::min(kBlock, count));
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t length = std::min(kBlock, count - first);
    for (std::size_t v = 0; v < values.size(); ++v) {
      const std::byte* from = values[v].data() + first * Format::kBytes;
      for (std::size_t i = 0; i < length; ++i) {
        const Sum value = Format::load(from + i * Format::kBytes);
        if (v == 0) {
          sums[i] = value;
          continue;
        }
        const Sum sum = VKF_PLANT(member_joined_twice, joined(sums[i], value), joined(joined(sums[i], value), value));
        sums[i] = VKF_PLANT(halves_rounded_each_time, sum, rounded<Format>(sum));
      }
    }
    std::byte* to = into.data() + first * Format::kBytes;
    for (std::size_t i = 0; i < length; ++i) Format::store(to + i * Format::kBytes, sums[i]);
  }
}

template <typename Format>
void join_format(std::string_view join, Values values, std::span<std::byte> into) {
  using Sum = typename Format::Sum;
  if (join == "add") return join_by<Format>([](Sum a, Sum b) { return add(a, b); }, values, into);
  if (join == "max") return join_by<Format>([](Sum a, Sum b) { return extreme<true>(a, b); }, values, into);
  check(join == "min", "ranks join by sums, maxima and minima");
  join_by<Format>([](Sum a, Sum b) { return extreme<false>(a, b); }, values, into);
}

}  // namespace

void join_elements(std::string_view join, DType dtype, Values values, std::span<std::byte> into) {
  switch (dtype) {
    case DType::f32: return join_format<Plain<float>>(join, values, into);
    case DType::f64: return join_format<Plain<double>>(join, values, into);
    case DType::f16: return join_format<Half<ops::f16_from, ops::f16_to>>(join, values, into);
    case DType::bf16: return join_format<Half<ops::bf16_from, ops::bf16_to>>(join, values, into);
    case DType::i8: return join_format<Plain<std::int8_t>>(join, values, into);
    case DType::i16: return join_format<Plain<std::int16_t>>(join, values, into);
    case DType::i32: return join_format<Plain<std::int32_t>>(join, values, into);
    case DType::i64: return join_format<Plain<std::int64_t>>(join, values, into);
    case DType::u8: return join_format<Plain<std::uint8_t>>(join, values, into);
    case DType::u16: return join_format<Plain<std::uint16_t>>(join, values, into);
    case DType::u32: return join_format<Plain<std::uint32_t>>(join, values, into);
    case DType::u64: return join_format<Plain<std::uint64_t>>(join, values, into);
    case DType::boolean: break;
  }
  check(false, "booleans of ranks are not joined");
}

}  // namespace vkfuse::parallel

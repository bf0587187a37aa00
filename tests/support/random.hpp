// Random choices that are the same on every machine: the words of Philox, one after the other, or the bytes of a
// fuzzer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op.hpp"

namespace vkfuse::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  /// Chooses by these bytes, which outlive it, one for each choice between few; when they are used up, by the words of
  /// seed 0.
  explicit Random(std::string_view bytes) : seed_(0), bytes_(bytes) {}

  std::uint32_t word() { return bytes_.empty() ? ops::philox(seed_, count_++) : take(4); }
  /// In [0, limit); 0 for a limit of 0.
  std::size_t below(std::size_t limit) {
    return limit == 0 ? 0 : (limit <= 256 && !bytes_.empty() ? take(1) : word()) % limit;
  }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  /// Uniform in [low, high), in steps of 2^-32 of the range.
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(word()) * 0x1p-32); }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::uint32_t take(std::size_t count) {
    std::uint32_t word = 0;
    for (; count > 0 && !bytes_.empty(); --count, bytes_.remove_prefix(1))
      word = word << 8 | static_cast<unsigned char>(bytes_.front());
    return word;
  }

  std::uint64_t seed_;
  std::uint64_t count_ = 0;
  std::string_view bytes_;
};

/// A seed that depends on every character of a text.
inline std::uint64_t seed_of(std::uint64_t seed, std::string_view text) {
  std::uint64_t hash = seed ^ 0xcbf29ce484222325ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace vkfuse::test

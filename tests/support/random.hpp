// Random choices that are the same on every machine: the words of Philox, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.hpp"

namespace vkfuse::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  std::uint32_t word() { return ops::philox(seed_, count_++); }
  /// In [0, limit); 0 for a limit of 0.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : word() % limit; }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  /// Uniform in [low, high), in steps of 2^-32 of the range.
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(word()) * 0x1p-32); }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// A seed that depends on every character of a text.
inline std::uint64_t seed_of(std::uint64_t seed, std::string_view text) {
  std::uint64_t hash = seed ^ 0xcbf29ce484222325ULL;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace vkfuse::test

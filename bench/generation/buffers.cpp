#include "generation/buffers.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/graph.hpp"

namespace vkfuse::bench {

namespace {

/// Elements of a pattern, which is repeated: gigabytes of random numbers need not be drawn. No row of a matrix has as
/// many.
constexpr std::size_t kPattern = 1000003;

double element(const ModelInput& input, std::mt19937& random) {
  std::normal_distribution<double> normal;
  switch (input.filling) {
    case Filling::normal: return input.value * normal(random);
    case Filling::near_one: return 1 + 0.1 * normal(random);
    case Filling::no_nan: return static_cast<double>(std::min<std::uint32_t>(random() % 128, 126) + random() % 2 * 128);
    case Filling::any_bits: return static_cast<double>(random() % 256) - (is_signed_integer(input.dtype) ? 128 : 0);
    case Filling::constant: return input.value;
    default: return 0;
  }
}

std::vector<std::byte> angles(const ModelInput& input) {
  const std::int64_t positions = input.shape[0].size(), pairs = input.shape[1].size();
  std::vector<std::byte> bytes;
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const double turns = std::pow(10000.0, -static_cast<double>(pair) / static_cast<double>(pairs));
      const double angle = static_cast<double>(position) * turns;
      ir::encode(input.dtype, input.filling == Filling::sine ? std::sin(angle) : std::cos(angle), bytes);
    }
  }
  return bytes;
}

std::vector<std::byte> pattern(const ModelInput& input, std::size_t elements, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < elements; ++i) ir::encode(input.dtype, element(input, random), bytes);
  return bytes;
}

/// The pattern from an element on that differs from input to input, over and over.
Result<void> write_repeated(const Buffer& buffer, const std::vector<std::byte>& pattern, std::uint64_t offset) {
  constexpr std::uint64_t kChunk = std::uint64_t{64} << 20;
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, buffer.size())));
  std::uint64_t from = offset % pattern.size();
  for (std::uint64_t done = 0; done < buffer.size(); done += chunk.size()) {
    const std::uint64_t bytes = std::min<std::uint64_t>(chunk.size(), buffer.size() - done);
    for (std::uint64_t at = 0; at < bytes;) {
      const std::uint64_t run = std::min<std::uint64_t>(bytes - at, pattern.size() - from);
      std::copy_n(pattern.begin() + static_cast<std::ptrdiff_t>(from), run,
                  chunk.begin() + static_cast<std::ptrdiff_t>(at));
      at += run;
      from = (from + run) % pattern.size();
    }
    VKF_CHECK_OK(buffer.write(std::span(chunk).first(static_cast<std::size_t>(bytes)), done));
  }
  return {};
}

}  // namespace

Result<Buffers> fill_inputs(const Device& device, const std::map<std::string, ModelInput>& inputs) {
  std::map<std::tuple<DType, Filling, double>, std::vector<std::byte>> patterns;
  Buffers made;
  std::uint64_t offset = 0;
  for (const auto& [name, input] : inputs) {
    if (input.filling == Filling::positioned) continue;
    VKF_TRY(buffer, device.allocate(bytes_of(input)));
    made.emplace(name, buffer);
    if (input.filling == Filling::cache) continue;
    if (input.filling == Filling::cosine || input.filling == Filling::sine) {
      VKF_CHECK_OK(buffer.write(angles(input)));
      continue;
    }
    auto& elements = patterns[{input.dtype, input.filling, input.value}];
    const bool is_constant = input.filling == Filling::constant;
    if (elements.empty()) elements = pattern(input, is_constant ? 4096 : kPattern, 1);
    VKF_CHECK_OK(write_repeated(buffer, elements, offset += 65537 * 16));
  }
  return made;
}

}  // namespace vkfuse::bench

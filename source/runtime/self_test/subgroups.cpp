#include <algorithm>
#include <bit>

#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kSubgroups = R"(#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uint w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uint w[]; } y;
void main() {
  uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  uint word = x.w[thread];
  float sum = uintBitsToFloat(word);
  uint at = thread;
  for (uint mask = gl_SubgroupSize / 2u; mask > 0u; mask >>= 1) {
    y.w[at] = subgroupShuffleXor(word, mask);
    sum += subgroupShuffleXor(sum, mask);
    at += gl_WorkGroupSize.x;
  }
  y.w[at] = floatBitsToUint(sum);
}
)";

/// The results: for each mask what each thread gets from a shuffle, and then the sum that each thread has.
class Exchanges {
 public:
  Exchanges(const std::vector<std::uint32_t>& input, std::uint32_t subgroup)
      : input_(input),
        lanes_(static_cast<std::uint32_t>(input.size())),
        subgroup_(subgroup),
        masks_(static_cast<std::uint32_t>(std::countr_zero(subgroup))) {}

  [[nodiscard]] std::size_t output_words() const { return std::size_t{masks_ + 1} * lanes_; }

  [[nodiscard]] std::string fault(const std::vector<std::uint32_t>& got) const {
    for (std::uint32_t i = 0; i < lanes_; ++i) {
      const std::uint32_t first = i / subgroup_ * subgroup_;
      for (std::uint32_t row = 0; row < masks_; ++row) {
        const std::uint32_t mask = subgroup_ >> (row + 1);
        const std::uint32_t word = got[row * lanes_ + i];
        const std::uint32_t want = input_[first + ((i - first) ^ mask)];
        if (word != want)
          return fmt::format(
              "The self-test failed: thread {} of a workgroup gets 0x{:08x} instead of 0x{:08x} from a shuffle with "
              "the mask {}.",
              i, word, want, mask);
      }
      float want = 0;
      for (std::uint32_t j = first; j < first + subgroup_; ++j) want += std::bit_cast<float>(input_[j]);
      const auto sum = std::bit_cast<float>(got[masks_ * lanes_ + i]);
      if (sum != want)
        return fmt::format("The self-test failed: lanes of a subgroup add up to {} instead of {}.", sum, want);
    }
    return {};
  }

 private:
  const std::vector<std::uint32_t>& input_;
  std::uint32_t lanes_, subgroup_, masks_;
};

}  // namespace

Result<std::string> test_subgroups(OpenDevice& opened) {
  const Caps& caps = opened.caps();
  const std::uint32_t size = caps.subgroup.size;
  const std::uint32_t lanes =
      size * std::clamp(std::min(caps.workgroup.max_invocations, caps.workgroup.max_x) / size, 1u, 2u);
  std::vector<std::uint32_t> input(lanes);
  for (std::uint32_t i = 0; i < lanes; ++i)
    input[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i * i + 1));  // every sum is exact
  const Exchanges exchanges(input, size);
  const KnownAnswer test{
      .kernel = {kSubgroups, "self-test of T1", lanes, size}, .input = input, .output_words = exchanges.output_words()};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) { return exchanges.fault(got); });
}

}  // namespace vkfuse::runtime

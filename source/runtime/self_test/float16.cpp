#include <bit>
#include <cmath>

#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

// Both directions start from memory: a compiler may rightly take one away that follows the other.
constexpr const char* kConversions = R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uint w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uint w[]; } y;
void main() {
  uint i = gl_GlobalInvocationID.x;
  y.w[i] = packFloat2x16(f16vec2(vec2(uintBitsToFloat(x.w[i]), 1.0)));
  y.w[256u + i] = floatBitsToUint(vec2(unpackFloat2x16(x.w[256u + i])).x);
}
)";
constexpr std::size_t kCases = 256;

/// f32 values around every way an f16 conversion can go wrong.
std::vector<std::uint32_t> conversion_cases() {
  std::vector<std::uint32_t> cases;
  const float values[] = {0.0F, -0.0F, 1.0F, 1.5F, 65504.0F, 65519.0F, 65520.0F, 1e6F, -1e6F, INFINITY, -INFINITY, NAN,
                          // halves of the last place: ties go to even
                          1.00048828125F, 1.00146484375F, 2049.0F, 2051.0F, 4097.0F * 2, 6.1e-5F,
                          // subnormals, and what rounds to them
                          0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1.8p-24F, 0x1.ffcp-15F, 0x1.ffep-15F, 3e-8F, 1e-10F,
                          -5.5e-6F};
  for (float value : values) cases.push_back(std::bit_cast<std::uint32_t>(value));
  for (std::uint32_t i = 0; cases.size() < kCases; ++i) {
    const float sign = i % 2 == 0 ? 1.0F : -1.0F;
    cases.push_back(std::bit_cast<std::uint32_t>(
        sign * std::ldexp(1.0F + static_cast<float>(i * 2654435761u >> 9) * 0x1p-23F, static_cast<int>(i % 44) - 28)));
  }
  return cases;
}

/// `input`: the numbers, and then their f16 bits.
std::string conversion_fault(const std::vector<std::uint32_t>& input, const std::vector<std::uint32_t>& got) {
  for (std::size_t i = 0; i < kCases; ++i) {
    const float value = std::bit_cast<float>(input[i]);
    const auto want = static_cast<std::uint16_t>(input[kCases + i]);
    const auto bits = static_cast<std::uint16_t>(got[i] & 0xffffu);
    const bool nan = std::isnan(value);
    if ((nan ? !std::isnan(ops::f16_to(bits)) : bits != want) || got[i] >> 16 != 0x3c00u) {
      return fmt::format("The self-test failed: {} converts to the f16 bits 0x{:04x} instead of 0x{:04x}.", value, bits,
                         want);
    }
    const float back = std::bit_cast<float>(got[kCases + i]);
    if (nan ? !std::isnan(back) : static_cast<double>(back) != ops::f16_to(want)) {
      return fmt::format("The self-test failed: the f16 bits 0x{:04x} convert to {} instead of {}.", want, back,
                         ops::f16_to(want));
    }
  }
  return {};
}

}  // namespace

Result<std::string> test_float16(OpenDevice& opened) {
  std::vector<std::uint32_t> input = conversion_cases();
  for (std::size_t i = 0; i < kCases; ++i)
    input.push_back(ops::f16_from(static_cast<double>(std::bit_cast<float>(input[i]))));
  const KnownAnswer test{.kernel = {kConversions, "self-test of T2", kCases / 2},
                         .input = input,
                         .output_words = 2 * kCases,
                         .workgroups = 2};
  return check_known_answer(opened, test,
                            [&](const std::vector<std::uint32_t>& got) { return conversion_fault(input, got); });
}

}  // namespace vkfuse::runtime

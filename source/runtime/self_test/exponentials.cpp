#include <bit>
#include <cmath>

#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kExponentials = R"(#version 450
#extension GL_EXT_spirv_intrinsics : require
layout(local_size_x_id = 0) in;
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(set = 0, binding = 0) readonly buffer In { uint w[]; } x;
layout(set = 0, binding = 1) writeonly buffer Out { uint w[]; } y;
void main() {
  uint i = gl_LocalInvocationID.x;
  float value = uintBitsToFloat(x.w[i]);
  y.w[i] = floatBitsToUint(exp(value));
  y.w[64u + i] = floatBitsToUint(exp2(value));
  y.w[128u + i] = floatBitsToUint(inversesqrt(1.0 + exp2(value)));
  y.w[192u + i] = floatBitsToUint(1.0 / (1.0 + exp2(value)));
}
)";
constexpr std::uint32_t kExponentialThreads = 64;

std::vector<std::uint32_t> special_values() {
  constexpr float kValues[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1000.0F, -1000.0F};
  std::vector<std::uint32_t> values(kExponentialThreads);
  for (std::uint32_t i = 0; i < kExponentialThreads; ++i)
    values[i] = std::bit_cast<std::uint32_t>(kValues[i % std::size(kValues)]);
  for (std::uint32_t i = 32; i < kExponentialThreads; i += 8) values[i] = 0x7f800001u + i;  // a NaN that signals
  return values;
}

bool is_right(float value, float result, float expected) {
  if (std::isnan(value)) return std::isnan(result);
  return std::isinf(expected) ? result == expected : std::abs(result - expected) <= 1e-6F;
}

}  // namespace

Result<std::string> test_exponentials(OpenDevice& opened) {
  const std::vector<std::uint32_t> input = special_values();
  const KnownAnswer test{.kernel = {kExponentials, "self-test of exponentials", kExponentialThreads},
                         .input = input,
                         .output_words = 4 * kExponentialThreads};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < kExponentialThreads; ++i) {
      const float value = std::bit_cast<float>(input[i]);
      const float power = std::isnan(value) ? NAN : value == 0 ? 1.0F : value > 0 ? INFINITY : 0.0F;
      const float expected[] = {power, power, 1.0F / std::sqrt(1.0F + power), 1.0F / (1.0F + power)};
      for (std::uint32_t k = 0; k < std::size(expected); ++k) {
        if (!is_right(value, std::bit_cast<float>(got[k * kExponentialThreads + i]), expected[k])) return "wrong";
      }
    }
    return {};
  });
}

}  // namespace vkfuse::runtime

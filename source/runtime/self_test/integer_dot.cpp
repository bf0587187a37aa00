#include "lowering/components.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kDots = R"(#version 450
#extension GL_EXT_spirv_intrinsics : require
layout(local_size_x_id = 0) in;
{}
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
void main() {{
  uint i = gl_LocalInvocationID.x;
  y.w[i] = uint(i8x4_dot(int(x.w[i]), int(x.w[64u + i]), 0) + int(i));
}}
)";
constexpr std::uint32_t kDotThreads = 64;

std::int32_t dot_of_bytes(std::uint32_t a, std::uint32_t b) {
  std::int32_t sum = 0;
  for (std::uint32_t shift = 0; shift < 32; shift += 8)
    sum += static_cast<std::int8_t>(a >> shift & 0xffu) * static_cast<std::int8_t>(b >> shift & 0xffu);
  return sum;
}

}  // namespace

Result<std::string> test_integer_dot(OpenDevice& opened) {
  std::vector<std::uint32_t> input(2 * kDotThreads);
  for (std::uint32_t i = 0; i < input.size(); ++i) input[i] = i < 2 ? 0x80808080u : i * 2654435761u;
  input[kDotThreads] = 0x80808080u;
  const KnownAnswer test{.kernel = {fmt::format(kDots, lowering::kIntegerDotProduct), "self-test of T3", kDotThreads},
                         .input = input,
                         .output_words = kDotThreads};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < kDotThreads; ++i) {
      const std::int32_t want = static_cast<std::int32_t>(i) + dot_of_bytes(input[i], input[kDotThreads + i]);
      if (static_cast<std::int32_t>(got[i]) != want)
        return fmt::format("The self-test failed: a dot product of bytes is {} instead of {}.",
                           static_cast<std::int32_t>(got[i]), want);
    }
    return {};
  });
}

}  // namespace vkfuse::runtime

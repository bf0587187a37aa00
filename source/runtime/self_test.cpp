// Known-answer tests of the feature tiers. A driver that computes something else than the feature tier
// promises is found here, on the user's machine, and the feature tier is not used.
#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/ranges.h>

#include "codegen/components.hpp"
#include "codegen/fragments.hpp"
#include "runtime/context.hpp"
#include "schedule/matmul_operands.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::uint32_t kInvocations = 64;

/// T1: lanes of full subgroups are numbered without gaps, and exchange words and floats with every mask that folds
/// take.
Result<std::string> test_subgroups(Context& context) {
  const std::string glsl = R"(#version 450
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
  const Caps& caps = context.caps();
  const std::uint32_t size = caps.subgroup_size;
  const std::uint32_t lanes = size * std::clamp(std::min(caps.max_invocations, caps.max_workgroup_x) / size, 1u, 2u);
  std::vector<std::uint32_t> input(lanes);
  for (std::uint32_t i = 0; i < lanes; ++i)
    input[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i * i + 1));  // every sum is exact
  const auto masks = static_cast<std::uint32_t>(std::countr_zero(size));
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of T1",
                                  .input = input,
                                  .output_words = std::size_t{masks + 1} * lanes,
                                  .workgroups = 1,
                                  .workgroup = lanes,
                                  .subgroup = size};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < lanes; ++i) {
      const std::uint32_t first = i / size * size;
      for (std::uint32_t row = 0; row < masks; ++row) {
        const std::uint32_t mask = size >> (row + 1);
        const std::uint32_t word = got[row * lanes + i];
        const std::uint32_t want = input[first + ((i - first) ^ mask)];
        if (word != want)
          return fmt::format(
              "The self-test failed: thread {} of a workgroup gets 0x{:08x} instead of 0x{:08x} from a shuffle with "
              "the "
              "mask {}.",
              i, word, want, mask);
      }
      float want = 0;
      for (std::uint32_t j = first; j < first + size; ++j) want += std::bit_cast<float>(input[j]);
      const auto sum = std::bit_cast<float>(got[masks * lanes + i]);
      if (sum != want)
        return fmt::format("The self-test failed: lanes of a subgroup add up to {} instead of {}.", sum, want);
    }
    return {};
  });
}

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
  for (std::uint32_t i = 0; cases.size() < 256; ++i) {
    const float sign = i % 2 == 0 ? 1.0F : -1.0F;
    cases.push_back(std::bit_cast<std::uint32_t>(
        sign * std::ldexp(1.0F + static_cast<float>(i * 2654435761u >> 9) * 0x1p-23F, static_cast<int>(i % 44) - 28)));
  }
  return cases;
}

/// T2: conversions round to nearest even and keep subnormals, infinities and NaN. Both directions start
/// from memory: a compiler may rightly take one away that follows the other.
Result<std::string> test_half(Context& context) {
  const std::string glsl = R"(#version 450
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
  std::vector<std::uint32_t> input = conversion_cases();
  for (std::size_t i = 0; i < 256; ++i)
    input.push_back(ops::f16_from(static_cast<double>(std::bit_cast<float>(input[i]))));
  const Context::KnownAnswer test{
      .glsl = glsl, .name = "self-test of T2", .input = input, .output_words = 512, .workgroups = 2, .workgroup = 128};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::size_t i = 0; i < 256; ++i) {
      const float value = std::bit_cast<float>(input[i]);
      const auto want = static_cast<std::uint16_t>(input[256 + i]);
      const auto bits = static_cast<std::uint16_t>(got[i] & 0xffffu);
      const bool nan = std::isnan(value);
      if ((nan ? !std::isnan(ops::f16_to(bits)) : bits != want) || got[i] >> 16 != 0x3c00u) {
        return fmt::format("The self-test failed: {} converts to the f16 bits 0x{:04x} instead of 0x{:04x}.", value,
                           bits, want);
      }
      const float back = std::bit_cast<float>(got[256 + i]);
      if (nan ? !std::isnan(back) : static_cast<double>(back) != ops::f16_to(want)) {
        return fmt::format("The self-test failed: the f16 bits 0x{:04x} convert to {} instead of {}.", want, back,
                           ops::f16_to(want));
      }
    }
    return {};
  });
}

/// T3: signed bytes, four at a time.
Result<std::string> test_integer_dot(Context& context) {
  const std::string glsl = fmt::format(R"(#version 450
#extension GL_EXT_spirv_intrinsics : require
layout(local_size_x_id = 0) in;
{}
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
void main() {{
  uint i = gl_LocalInvocationID.x;
  y.w[i] = uint(i8x4_dot(int(x.w[i]), int(x.w[64u + i]), 0) + int(i));
}}
)",
                                       codegen::kIntegerDotProduct);
  std::vector<std::uint32_t> input(2 * kInvocations);
  for (std::uint32_t i = 0; i < input.size(); ++i) input[i] = i < 2 ? 0x80808080u : i * 2654435761u;
  input[kInvocations] = 0x80808080u;
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of T3",
                                  .input = input,
                                  .output_words = kInvocations,
                                  .workgroups = 1,
                                  .workgroup = kInvocations};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < kInvocations; ++i) {
      std::int32_t want = static_cast<std::int32_t>(i);
      for (std::uint32_t j = 0; j < 32; j += 8)
        want += static_cast<std::int8_t>(input[i] >> j & 0xffu) *
                static_cast<std::int8_t>(input[kInvocations + i] >> j & 0xffu);
      if (static_cast<std::int32_t>(got[i]) != want)
        return fmt::format("The self-test failed: a dot product of bytes is {} instead of {}.",
                           static_cast<std::int32_t>(got[i]), want);
    }
    return {};
  });
}

/// T5: a tile that the workgroup multiplies as one and brings from memory by layouts, as it lies there and turned, with
/// a function of elements. Results leave as f16, rounded to nearest even; of bf16 factors as f32.
Result<std::string> test_workgroup_tiles(Context& context, DType dtype) {
  constexpr schedule::TileShape kTile = schedule::kWorkgroupTile;
  static_assert(kTile.m == kTile.n);
  constexpr std::uint32_t kM = kTile.m, kK = kTile.k, kStep = 24;  // a step that takes results to where f16 rounds
  const bool halves = dtype == DType::f16;
  const std::string result = halves ? "float16_t" : "float";
  const std::string glsl =
      fmt::format(R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
{extension}#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uvec4 w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uvec4 w[]; }} y;
float placed(const in uint row, const in uint column, const in float a, const in uint step) {{
  return a + float(row * step) - float(column);
}}
void main() {{
  tensorLayoutNV<2> rows = createTensorLayoutNV(2);
  rows = setTensorLayoutDimensionNV(rows, {m}u, {k}u);
  rows = setTensorLayoutStrideNV(rows, {k}u, 1u);
  tensorLayoutNV<2> results = createTensorLayoutNV(2);
  results = setTensorLayoutDimensionNV(results, {m}u, {m}u);
  results = setTensorLayoutStrideNV(results, {m}u, 1u);
  tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  coopmat<{factor}, gl_ScopeWorkgroup, {m}, {k}, gl_MatrixUseA> a;
  coopmat<{factor}, gl_ScopeWorkgroup, {k}, {m}, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeWorkgroup, {m}, {m}, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeWorkgroup, {m}, {m}, gl_MatrixUseAccumulator>(0.0);
  coopMatLoadTensorNV(a, x.w, 0u, sliceTensorLayoutNV(rows, 0u, {m}u, 0u, {k}u));
  coopMatLoadTensorNV(b, x.w, {second}u, sliceTensorLayoutNV(rows, 0u, {m}u, 0u, {k}u), turned);
  sum = coopMatMulAdd(a, b, sum);
  coopMatPerElementNV(sum, sum, placed, {step}u);
  coopmat<{result}, gl_ScopeWorkgroup, {m}, {m}, gl_MatrixUseAccumulator> stored =
      coopmat<{result}, gl_ScopeWorkgroup, {m}, {m}, gl_MatrixUseAccumulator>(sum);
  coopMatStoreTensorNV(stored, y.w, 0u, sliceTensorLayoutNV(results, 0u, {m}u, 0u, {m}u));
}}
)",
                  fmt::arg("extension", halves ? "" : "#extension GL_EXT_bfloat16 : require\n"),
                  fmt::arg("factor", halves ? "float16_t" : "bfloat16_t"), fmt::arg("result", result),
                  fmt::arg("m", kM), fmt::arg("k", kK), fmt::arg("step", kStep), fmt::arg("second", kM * kK / 8));
  std::vector<double> operands;
  for (std::uint32_t i = 0; i < 2 * kM * kK; ++i) operands.push_back(static_cast<double>(i * 7 % 11 % 3) - 1);
  const auto bits = [&](double value) {
    return halves ? std::uint32_t{ops::f16_from(value)} : std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
  };
  std::vector<std::uint32_t> input;
  for (std::size_t i = 0; i < operands.size(); i += 2) input.push_back(bits(operands[i]) | bits(operands[i + 1]) << 16);
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of whole tiles",
                                  .input = input,
                                  .output_words = std::size_t{kM} * kM / (halves ? 2 : 1),
                                  .workgroups = 1,
                                  .workgroup = static_cast<std::uint32_t>(kTile.workgroup()),
                                  .subgroup = context.caps().subgroup_size};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t row = 0; row < kM; ++row) {
      for (std::uint32_t column = 0; column < kM; ++column) {
        double want = static_cast<double>(kStep) * row - column;
        for (std::uint32_t j = 0; j < kK; ++j) want += operands[row * kK + j] * operands[kM * kK + column * kK + j];
        const std::uint32_t at = row * kM + column;
        const std::uint32_t expected =
            halves ? std::uint32_t{ops::f16_from(want)} : std::bit_cast<std::uint32_t>(static_cast<float>(want));
        const std::uint32_t found = halves ? got[at / 2] >> (at % 2 * 16) & 0xffffu : got[at];
        if (found != expected)
          return fmt::format(
              "The self-test failed: element [{}, {}] of a tile of {} that a workgroup multiplies is {:#x} instead of "
              "{:#x}.",
              row, column, name_of(dtype), found, expected);
      }
    }
    return {};
  });
}

/// T5: functions of elements and their places, the largest of each row, and sums that become a factor.
Result<std::string> test_elements_of_matrices(Context& context) {
  const Caps& caps = context.caps();
  const MatrixShape shape = *matrix_of(caps, DType::f16, DType::f32);
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k;
  if (n != k) return fmt::format("The device's matrices have {} columns and sums of {}: results are no factors.", n, k);
  const std::string glsl =
      fmt::format(R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uvec4 w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uvec4 w[]; }} y;
shared uvec4 tiles[{all}];
shared vec4 sums[{sums}];
float placed(const in uint row, const in uint column, const in float a, const in float b, const in uint step) {{
  return a + 2.0 * b + float(row * step) - float(column);
}}
float larger(const in float a, const in float b) {{
  return max(a, b);
}}
void main() {{
  for (uint i = gl_LocalInvocationID.x; i < {all}u; i += {lanes}u) tiles[i] = x.w[i];
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, {k}, {n}, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator>(0.0);
  coopMatLoad(a, tiles, 0, {k} / 8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, tiles, {b}, {n} / 8, gl_CooperativeMatrixLayoutRowMajor);
  sum = coopMatMulAdd(a, b, sum);
  coopMatPerElementNV(sum, sum, placed, sum * sum, 3u);
  coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> most;
  coopMatReduceNV(most, sum, gl_CooperativeMatrixReduceRowNV, larger);
  a = coopmat<float16_t, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA>(sum - most);
  sum = coopMatMulAdd(a, b, most);
  coopMatStore(sum, sums, 0, {n} / 4, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < {sums}u; i += {lanes}u) y.w[i] = floatBitsToUint(sums[i]);
}}
)",
                  fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("all", (m + n) * k / 8),
                  fmt::arg("sums", m * n / 4), fmt::arg("b", m * k / 8), fmt::arg("lanes", caps.subgroup_size));
  // Every number on the way is an integer that f16 holds.
  std::vector<double> operands;
  for (std::uint32_t i = 0; i < (m + n) * k; ++i) operands.push_back(static_cast<double>(i * 7 % 5 % 3) - 1);
  std::vector<std::uint32_t> input;
  for (std::size_t i = 0; i < operands.size(); i += 2)
    input.push_back(ops::f16_from(operands[i]) | std::uint32_t{ops::f16_from(operands[i + 1])} << 16);
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of T5",
                                  .input = input,
                                  .output_words = std::size_t{m} * n,
                                  .workgroups = 1,
                                  .workgroup = caps.subgroup_size,
                                  .subgroup = caps.subgroup_size};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    const auto b_at = [&](std::uint32_t row, std::uint32_t column) { return operands[m * k + row * n + column]; };
    for (std::uint32_t row = 0; row < m; ++row) {
      std::vector<double> placed;
      for (std::uint32_t column = 0; column < n; ++column) {
        double sum = 0;
        for (std::uint32_t j = 0; j < k; ++j) sum += operands[row * k + j] * b_at(j, column);
        placed.push_back(sum + 2 * sum * sum + 3.0 * row - column);
      }
      const double most = *std::max_element(placed.begin(), placed.end());
      for (std::uint32_t column = 0; column < n; ++column) {
        double want = most;
        for (std::uint32_t j = 0; j < k; ++j) want += (placed[j] - most) * b_at(j, column);
        const auto value = static_cast<double>(std::bit_cast<float>(got[row * n + column]));
        if (value != want)
          return fmt::format(
              "The self-test failed: element [{}, {}] of a matrix that went through functions is {} instead of {}.",
              row, column, value, want);
      }
    }
    return {};
  });
}

}  // namespace

Result<bool> test_exp_of_nan(Context& context) {
  const std::string glsl = R"(#version 450
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
}
)";
  constexpr float kValues[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 1000.0F, -1000.0F};
  std::vector<std::uint32_t> input(kInvocations);
  for (std::uint32_t i = 0; i < kInvocations; ++i)
    input[i] = std::bit_cast<std::uint32_t>(kValues[i % std::size(kValues)]);
  for (std::uint32_t i = 32; i < kInvocations; i += 8) input[i] = 0x7f800001u + i;  // a NaN that signals
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of exponentials",
                                  .input = input,
                                  .output_words = 3 * kInvocations,
                                  .workgroups = 1,
                                  .workgroup = kInvocations};
  const auto verdict = context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < kInvocations; ++i) {
      const float value = std::bit_cast<float>(input[i]);
      const float power = std::isnan(value) ? NAN : value == 0 ? 1.0F : value > 0 ? INFINITY : 0.0F;
      const float expected[] = {power, power, 1.0F / std::sqrt(1.0F + power)};
      for (std::uint32_t k = 0; k < 3; ++k) {
        const float result = std::bit_cast<float>(got[k * kInvocations + i]);
        const bool right = std::isinf(expected[k]) ? result == expected[k] : std::abs(result - expected[k]) <= 1e-6F;
        if (std::isnan(value) ? !std::isnan(result) : !right) return "wrong";
      }
    }
    return {};
  });
  if (verdict) return verdict->empty();
  if (verdict.error().code == ErrorCode::device_lost || verdict.error().code == ErrorCode::no_device)
    return verdict.error();
  return false;
}

namespace {

/// The bits of a number that the dtype of a factor holds exactly.
std::uint32_t factor_bits(DType dtype, double number) {
  if (dtype == DType::f16) return ops::f16_from(number);
  if (dtype == DType::bf16) return ops::bf16_from(number);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(number)) & 0xffu;
}

/// T4: both orders in shared memory, sums that go on, and what is not finite reaches its row alone.
Result<std::string> test_matrices(Context& context, const MatrixShape& shape) {
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k;
  const bool bytes = size_of(shape.a) == 1;
  const bool floats = is_float(shape.c);
  // Each factor as it is and transposed, in vectors of eight.
  const std::string glsl = fmt::format(
      R"(#version 450
#extension {extension} : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ {word} w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uvec4 w[]; }} y;
shared {word} tiles[{all}];
shared {four} sums[{sums}];
void main() {{
  for (uint i = gl_LocalInvocationID.x; i < {all}u; i += {lanes}u) tiles[i] = x.w[i];
  barrier();
  coopmat<{factor}, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA> a;
  coopmat<{factor}, gl_ScopeSubgroup, {k}, {n}, gl_MatrixUseB> b;
  coopmat<{total}, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> sum =
      coopmat<{total}, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator>(0);
  coopMatLoad(a, tiles, 0, {k} / 8, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, tiles, {b}, {n} / 8, gl_CooperativeMatrixLayoutRowMajor);
  sum = coopMatMulAdd(a, b, sum);
  coopMatLoad(a, tiles, {at}, {m} / 8, gl_CooperativeMatrixLayoutColumnMajor);
  coopMatLoad(b, tiles, {bt}, {k} / 8, gl_CooperativeMatrixLayoutColumnMajor);
  sum = coopMatMulAdd(a, b, sum);
  coopMatStore({stored}, sums, 0, {n} / 4, gl_CooperativeMatrixLayoutRowMajor);
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < {sums}u; i += {lanes}u) y.w[i] = {bits}(sums[i]);
}}
)",
      fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("all", (m + n) * k / 4),
      fmt::arg("sums", m * n / 4), fmt::arg("b", m * k / 8), fmt::arg("at", (m + n) * k / 8),
      fmt::arg("bt", (2 * m + n) * k / 8), fmt::arg("lanes", context.caps().subgroup_size),
      fmt::arg("extension", codegen::component_extension(shape.a)), fmt::arg("factor", codegen::component(shape.a)),
      fmt::arg("total", codegen::component(shape.c)), fmt::arg("word", bytes ? "uvec2" : "uvec4"),
      fmt::arg("four", codegen::component_vec4(shape.c)), fmt::arg("bits", floats ? "floatBitsToUint" : "uvec4"),
      fmt::arg("stored",
               shape.c == DType::f16
                   ? fmt::format("coopmat<float, gl_ScopeSubgroup, {}, {}, gl_MatrixUseAccumulator>(sum)", m, n)
                   : "sum"));
  std::vector<double> a(std::size_t{m} * k), b(std::size_t{k} * n);
  const bool negative = shape.a != DType::u8;
  const std::uint32_t most_a = shape.c == DType::f16 ? 2 : 11,
                      most_b = shape.c == DType::f16 ? 2 : 9;  // every sum is exact
  for (std::uint32_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<double>(i * 7 % (2 * most_a + 1)) - (negative ? most_a : 0);
  for (std::uint32_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<double>(i * 5 % (2 * most_b + 1)) - (negative ? most_b : 0);
  if (bytes) {
    a[0] = negative ? -128 : 255;
    b[0] = negative ? 127 : 255;
  } else {
    for (double& one : b) one /= 4;
    a[std::size_t{m - 2} * k + 3] = INFINITY;
    a[std::size_t{m - 1} * k + 1] = NAN;
  }
  std::vector<std::uint32_t> elements;
  for (const bool turned : {false, true}) {
    for (std::uint32_t i = 0; i < a.size(); ++i)
      elements.push_back(factor_bits(shape.a, turned ? a[i % m * k + i / m] : a[i]));
    for (std::uint32_t i = 0; i < b.size(); ++i)
      elements.push_back(factor_bits(shape.a, turned ? b[i % k * n + i / k] : b[i]));
  }
  const std::uint32_t per_word = bytes ? 4 : 2;
  std::vector<std::uint32_t> input(elements.size() / per_word);
  for (std::size_t i = 0; i < elements.size(); ++i)
    input[i / per_word] |= elements[i] << (i % per_word * 32 / per_word);
  const std::uint32_t lanes = context.caps().subgroup_size;
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = fmt::format("self-test of T4, {} and {}", name_of(shape.a), name_of(shape.c)),
                                  .input = input,
                                  .output_words = std::size_t{m} * n,
                                  .workgroups = 1,
                                  .workgroup = lanes,
                                  .subgroup = lanes};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < m * n; ++i) {
      double want = 0;
      for (std::uint32_t j = 0; j < k; ++j) want += 2 * a[i / n * k + j] * b[std::size_t{j} * n + i % n];
      const double value = floats                  ? static_cast<double>(std::bit_cast<float>(got[i]))
                           : shape.c == DType::i32 ? static_cast<double>(static_cast<std::int32_t>(got[i]))
                                                   : static_cast<double>(got[i]);
      if (std::isnan(want) ? !std::isnan(value) : value != want) {
        return fmt::format("The self-test failed: element [{}, {}] of a product of matrices of {} is {} instead of {}.",
                           i / n, i % n, name_of(shape.a), value, want);
      }
    }
    return {};
  });
}

/// Weights of four bits in fragments of 16-bit words, which may look like any number or none, and one vector as all
/// columns.
Result<std::string> test_sub_byte(Context& context, const MatrixShape& shape) {
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k;
  constexpr std::uint32_t kRounds = 8;
  const std::uint32_t words = m * k / 2;  // of a round
  const std::uint32_t lanes = context.caps().subgroup_size;
  const std::string glsl =
      fmt::format(R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
shared uvec4 rows[{row_words}];
shared uvec4 column[{column_words}];
shared uvec4 sums[{sums}];
{function}
void main() {{
  uint thread = gl_LocalInvocationID.x;
  {powers}
  for (uint i = thread; i < {column_words}u; i += {lanes}u)
    column[i] = uvec4(x.w[{all}u + i * 4u], x.w[{all}u + i * 4u + 1u],
                      x.w[{all}u + i * 4u + 2u], x.w[{all}u + i * 4u + 3u]);
  for (uint round = 0u; round < {rounds}u; ++round) {{
    for (uint i = thread; i < {row_words}u; i += {lanes}u) {{
      uint at = round * {words}u + i * 4u;
      rows[i] = uvec4(x.w[at], x.w[at + 1u], x.w[at + 2u], x.w[at + 3u]);
    }}
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, {m}, {k}, gl_MatrixUseA> bits;
    coopMatLoad(bits, rows, 0u, {k}u / 8u, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> sum =
        coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator>(0.0);
    {products}
    coopMatStore(sum, sums, 0u, {m}u / 4u, gl_CooperativeMatrixLayoutColumnMajor);
    barrier();
    for (uint i = thread; i < {m}u; i += {lanes}u) y.w[round * {m}u + i] = sums[i / 4u][i % 4u];
    barrier();
  }}
}}
)",
                  fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("lanes", lanes),
                  fmt::arg("rounds", kRounds), fmt::arg("words", words), fmt::arg("row_words", words / 4),
                  fmt::arg("column_words", k / 2), fmt::arg("sums", m * n / 4), fmt::arg("all", kRounds * words),
                  fmt::arg("function", codegen::fragment_function("numbers_of", shape)),
                  fmt::arg("powers", fmt::format("uint low = 0x{:x}u, high = 0x{:x}u;", codegen::sub_byte_powers(8, 0),
                                                 codegen::sub_byte_powers(8, 4))),
                  fmt::arg("products", fmt::join(codegen::fragment_products(shape, "numbers_of", "bits", "column", "0u",
                                                                            "low", "high", -8, "sum"),
                                                 "\n    ")));
  // All sixteen bits in some order: NaN, infinities, numbers without a leading one.
  std::vector<std::uint32_t> input;
  for (std::uint32_t i = 0; i < kRounds * words; ++i)
    input.push_back((i * 40503u + (i % 5 == 0 ? 0x7c017fffu : 0x1234fc00u)) * 2654435761u >> (i % 3));
  const auto number = [](std::uint32_t i) { return static_cast<double>(i * 7 % 15) - 7; };
  std::vector<std::uint32_t> vector(2 * k);
  for (std::uint32_t i = 0; i < 4 * k; ++i)
    vector[(i % 4 * k + i / 4) / 2] |= std::uint32_t{ops::f16_from(number(i))} << (i / 4 % 2 * 16);
  std::vector<std::uint32_t> all = input;
  all.insert(all.end(), vector.begin(), vector.end());
  const Context::KnownAnswer test{.glsl = glsl,
                                  .name = "self-test of weights of four bits",
                                  .input = all,
                                  .output_words = std::size_t{kRounds} * m,
                                  .workgroups = 1,
                                  .workgroup = lanes,
                                  .subgroup = lanes};
  return context.known_answer(test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t row = 0; row < kRounds * m; ++row) {
      double want = 0;
      for (std::uint32_t i = 0; i < 4 * k; ++i)
        want += (static_cast<double>((input[row * k / 2 + i / 8] >> (i % 8 * 4) & 15) ^ 8) - 8) * number(i);
      const auto value = static_cast<double>(std::bit_cast<float>(got[row]));
      if (value != want)
        return fmt::format("The self-test failed: a sum of {} products with weights of four bits is {} instead of {}.",
                           4 * k, value, want);
    }
    return {};
  });
}

/// What a test says; a feature tier that cannot even be compiled or run is not used, but a lost device is another
/// matter.
Result<std::string> found(Result<std::string> result) {
  if (result || result.error().code == ErrorCode::device_lost || result.error().code == ErrorCode::no_device)
    return result;
  return "The self-test could not run: " + result.error().message;
}

}  // namespace

Result<std::string> self_test(Context& context, FeatureTier tier) {
  const auto test = [&]() -> Result<std::string> {
    switch (tier) {
      case FeatureTier::baseline: break;
      case FeatureTier::subgroup: return test_subgroups(context);
      case FeatureTier::float16: return test_half(context);
      case FeatureTier::dot_product: return test_integer_dot(context);
      case FeatureTier::cooperative_matrix:
        return test_matrices(context, *matrix_of(context.caps(), DType::f16, DType::f32));
      case FeatureTier::cooperative_matrix2: return test_elements_of_matrices(context);
    }
    return std::string();
  };
  return found(test());
}

Result<std::string> self_test_matrices(Context& context, const MatrixShape& shape) {
  return found(test_matrices(context, shape));
}

Result<std::string> self_test_sub_byte(Context& context, const MatrixShape& shape) {
  return found(test_sub_byte(context, shape));
}

Result<std::string> self_test_workgroup_tiles(Context& context, DType dtype) {
  return found(test_workgroup_tiles(context, dtype));
}

}  // namespace vkfuse::runtime

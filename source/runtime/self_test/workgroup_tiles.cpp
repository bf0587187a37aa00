#include <bit>

#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::runtime {

namespace {

constexpr schedule::TileShape kTile = schedule::kWorkgroupTile;
static_assert(kTile.m == kTile.n);
constexpr std::uint32_t kM = kTile.m, kK = kTile.k, kStep = 24;  // a step that takes results to where f16 rounds

constexpr const char* kTileProduct = R"(#version 450
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
)";

std::string glsl_of_tile(bool halves) {
  return fmt::format(kTileProduct, fmt::arg("extension", halves ? "" : "#extension GL_EXT_bfloat16 : require\n"),
                     fmt::arg("factor", halves ? "float16_t" : "bfloat16_t"),
                     fmt::arg("result", halves ? "float16_t" : "float"), fmt::arg("m", kM), fmt::arg("k", kK),
                     fmt::arg("step", kStep), fmt::arg("second", kM * kK / 8));
}

/// Of both operands, the second one transposed: small integers, so that every sum is exact.
std::vector<double> tile_operands() {
  std::vector<double> operands;
  for (std::uint32_t i = 0; i < 2 * kM * kK; ++i) operands.push_back(static_cast<double>(i * 7 % 11 % 3) - 1);
  return operands;
}

std::vector<std::uint32_t> packed(const std::vector<double>& operands, bool halves) {
  const auto bits = [&](double value) {
    return halves ? std::uint32_t{ops::f16_from(value)} : std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
  };
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < operands.size(); i += 2) words.push_back(bits(operands[i]) | bits(operands[i + 1]) << 16);
  return words;
}

std::uint32_t expected_bits(const std::vector<double>& operands, std::uint32_t row, std::uint32_t column, bool halves) {
  double want = static_cast<double>(kStep) * row - column;
  for (std::uint32_t j = 0; j < kK; ++j) want += operands[row * kK + j] * operands[kM * kK + column * kK + j];
  return halves ? std::uint32_t{ops::f16_from(want)} : std::bit_cast<std::uint32_t>(static_cast<float>(want));
}

}  // namespace

Result<std::string> test_workgroup_tiles(OpenDevice& opened, DType dtype) {
  const bool halves = dtype == DType::f16;
  const std::vector<double> operands = tile_operands();
  const KnownAnswer test{.kernel = {glsl_of_tile(halves), "self-test of whole tiles",
                                    static_cast<std::uint32_t>(kTile.workgroup()), opened.caps().subgroup.size},
                         .input = packed(operands, halves),
                         .output_words = std::size_t{kM} * kM / (halves ? 2 : 1)};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t row = 0; row < kM; ++row) {
      for (std::uint32_t column = 0; column < kM; ++column) {
        const std::uint32_t at = row * kM + column;
        const std::uint32_t expected = expected_bits(operands, row, column, halves);
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

}  // namespace vkfuse::runtime

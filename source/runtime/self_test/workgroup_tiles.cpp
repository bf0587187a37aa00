#include <bit>

#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"
#include "schedule/tuning.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::uint32_t kStep = 24;  // takes results to where f16 rounds

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
  tensorLayoutNV<2> columns = createTensorLayoutNV(2);
  columns = setTensorLayoutDimensionNV(columns, {n}u, {k}u);
  columns = setTensorLayoutStrideNV(columns, {k}u, 1u);
  tensorLayoutNV<2> results = createTensorLayoutNV(2);
  results = setTensorLayoutDimensionNV(results, {m}u, {n}u);
  results = setTensorLayoutStrideNV(results, {n}u, 1u);
  tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
  coopmat<{factor}, gl_ScopeWorkgroup, {m}, {k}, gl_MatrixUseA> a;
  coopmat<{factor}, gl_ScopeWorkgroup, {k}, {n}, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeWorkgroup, {m}, {n}, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeWorkgroup, {m}, {n}, gl_MatrixUseAccumulator>(0.0);
  coopMatLoadTensorNV(a, x.w, 0u, sliceTensorLayoutNV(rows, 0u, {m}u, 0u, {k}u));
  coopMatLoadTensorNV(b, x.w, {second}u, sliceTensorLayoutNV(columns, 0u, {n}u, 0u, {k}u), turned);
  sum = coopMatMulAdd(a, b, sum);
  coopMatPerElementNV(sum, sum, placed, {step}u);
  coopmat<{result}, gl_ScopeWorkgroup, {m}, {n}, gl_MatrixUseAccumulator> stored =
      coopmat<{result}, gl_ScopeWorkgroup, {m}, {n}, gl_MatrixUseAccumulator>(sum);
  coopMatStoreTensorNV(stored, y.w, 0u, sliceTensorLayoutNV(results, 0u, {m}u, 0u, {n}u));
}}
)";

std::string glsl_of_tile(const WorkgroupTile& tile, bool halves) {
  return fmt::format(kTileProduct, fmt::arg("extension", halves ? "" : "#extension GL_EXT_bfloat16 : require\n"),
                     fmt::arg("factor", halves ? "float16_t" : "bfloat16_t"),
                     fmt::arg("result", halves ? "float16_t" : "float"), fmt::arg("m", tile.m), fmt::arg("n", tile.n),
                     fmt::arg("k", tile.k), fmt::arg("step", kStep), fmt::arg("second", tile.m * tile.k / 8));
}

/// Of both operands, the second one transposed: small integers, so that every sum is exact.
std::vector<double> tile_operands(const WorkgroupTile& tile) {
  std::vector<double> operands;
  for (int i = 0; i < (tile.m + tile.n) * tile.k; ++i) operands.push_back(static_cast<double>(i * 7 % 11 % 3) - 1);
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

std::uint32_t expected_bits(const WorkgroupTile& tile, const std::vector<double>& operands, int row, int column,
                            bool halves) {
  double want = static_cast<double>(kStep) * row - column;
  for (int j = 0; j < tile.k; ++j)
    want += operands[static_cast<std::size_t>(row * tile.k + j)] *
            operands[static_cast<std::size_t>((tile.m + column) * tile.k + j)];
  return halves ? std::uint32_t{ops::f16_from(want)} : std::bit_cast<std::uint32_t>(static_cast<float>(want));
}

}  // namespace

Result<std::string> test_workgroup_tile(OpenDevice& opened, DType dtype, const WorkgroupTile& tile) {
  const bool halves = dtype == DType::f16;
  const std::vector<double> operands = tile_operands(tile);
  const auto results = static_cast<std::size_t>(tile.m) * static_cast<std::size_t>(tile.n);
  const KnownAnswer test{
      .kernel = {glsl_of_tile(tile, halves), "self-test of workgroup tiles",
                 static_cast<std::uint32_t>(schedule::shape_of(tile).workgroup()), opened.caps().subgroup.size},
      .input = packed(operands, halves),
      .output_words = results / (halves ? 2 : 1)};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (int row = 0; row < tile.m; ++row) {
      for (int column = 0; column < tile.n; ++column) {
        const auto at = static_cast<std::size_t>(row * tile.n + column);
        const std::uint32_t expected = expected_bits(tile, operands, row, column, halves);
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

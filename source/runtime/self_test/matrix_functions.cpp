#include <algorithm>
#include <bit>

#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kFunctions = R"(#version 450
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
)";

/// Of both operands. Every number on the way is an integer that f16 holds.
std::vector<double> small_integers(const MatrixShape& shape) {
  std::vector<double> operands;
  for (std::uint32_t i = 0; i < (shape.m + shape.n) * shape.k; ++i)
    operands.push_back(static_cast<double>(i * 7 % 5 % 3) - 1);
  return operands;
}

std::vector<std::uint32_t> packed_f16(const std::vector<double>& operands) {
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < operands.size(); i += 2)
    words.push_back(ops::f16_from(operands[i]) | std::uint32_t{ops::f16_from(operands[i + 1])} << 16);
  return words;
}

/// A row of the results.
std::vector<double> expected_row(const MatrixShape& shape, const std::vector<double>& operands, std::uint32_t row) {
  const auto b_at = [&](std::uint32_t k, std::uint32_t column) {
    return operands[shape.m * shape.k + k * shape.n + column];
  };
  std::vector<double> placed;
  for (std::uint32_t column = 0; column < shape.n; ++column) {
    double sum = 0;
    for (std::uint32_t j = 0; j < shape.k; ++j) sum += operands[row * shape.k + j] * b_at(j, column);
    placed.push_back(sum + 2 * sum * sum + 3.0 * row - column);
  }
  const double most = *std::max_element(placed.begin(), placed.end());
  std::vector<double> results(shape.n, most);
  for (std::uint32_t column = 0; column < shape.n; ++column) {
    for (std::uint32_t j = 0; j < shape.k; ++j) results[column] += (placed[j] - most) * b_at(j, column);
  }
  return results;
}

}  // namespace

Result<std::string> test_matrix_functions(OpenDevice& opened) {
  const MatrixShape shape = *matrix_of(opened.caps(), DType::f16, DType::f32);
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k, lanes = opened.caps().subgroup.size;
  if (n != k) return fmt::format("The device's matrices have {} columns and sums of {}: results are no factors.", n, k);
  const std::string glsl =
      fmt::format(kFunctions, fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("all", (m + n) * k / 8),
                  fmt::arg("sums", m * n / 4), fmt::arg("b", m * k / 8), fmt::arg("lanes", lanes));
  const std::vector<double> operands = small_integers(shape);
  const KnownAnswer test{.kernel = {glsl, "self-test of T5", lanes, lanes},
                         .input = packed_f16(operands),
                         .output_words = std::size_t{m} * n};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t row = 0; row < m; ++row) {
      const std::vector<double> expected = expected_row(shape, operands, row);
      for (std::uint32_t column = 0; column < n; ++column) {
        const auto value = static_cast<double>(std::bit_cast<float>(got[row * n + column]));
        if (value != expected[column])
          return fmt::format(
              "The self-test failed: element [{}, {}] of a matrix that went through functions is {} instead of {}.",
              row, column, value, expected[column]);
      }
    }
    return {};
  });
}

}  // namespace vkfuse::runtime

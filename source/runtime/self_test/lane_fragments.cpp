#include <bit>

#include "kernel/printer.hpp"
#include "lowering/fragments.hpp"
#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

/// Each lane has its elements of both operands, and of the sums, where lane_fragments_of() says they are.
constexpr const char* kLaneProduct = R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In {{ uint w[]; }} x;
layout(set = 0, binding = 1) writeonly buffer Out {{ uint w[]; }} y;
{functions}
// To numbers of few bits: what is small is not taken for zero.
uint scaled(uint pair) {{ return packFloat2x16(unpackFloat2x16(pair) * unpackFloat2x16({scale}u)); }}
void main() {{
  uint lane = gl_SubgroupInvocationID;
  uint row = lane / {lanes_of_row}u * {words}u + lane % {lanes_of_row}u;
  uint far = row + {half}u * {words}u;
  uint column = {second}u + row;
  coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator> sum =
      coopmat<float, gl_ScopeSubgroup, {m}, {n}, gl_MatrixUseAccumulator>(0.0);
  sum = coopMatMulAdd(rows_of(scaled(x.w[row]), scaled(x.w[row + {lanes_of_row}u]),
                              scaled(x.w[far]), scaled(x.w[far + {lanes_of_row}u])),
                      column_of(x.w[column], x.w[column + {lanes_of_row}u]), sum);
  for (uint i = 0u; i < {results}u / gl_SubgroupSize; ++i) {{
    uint of_row = lane / {lanes_of_row}u + i / 2u * {half}u, of_column = lane % {lanes_of_row}u * 2u + i % 2u;
    y.w[of_column * {m}u + of_row] = floatBitsToUint(sum[i]);
  }}
}}
)";

constexpr double kScale = 1.0 / (1 << 20);  // numbers of f16 below 2^-14 have fewer bits

std::string glsl_of_lane_product(const MatrixShape& shape) {
  const std::vector<std::string> no_names;
  const lowering::Printer printer(no_names, nullptr);
  return fmt::format(
      kLaneProduct, fmt::arg("m", shape.m), fmt::arg("n", shape.n), fmt::arg("words", shape.k / 2),
      fmt::arg("half", shape.m / 2), fmt::arg("second", shape.m * shape.k / 2), fmt::arg("results", shape.m * shape.n),
      fmt::arg("lanes_of_row", kLanesOfRow), fmt::arg("scale", ops::f16_from(kScale) * 0x10001U),
      fmt::arg("functions", printer.text(lowering::lane_fragment_functions("rows_of", "column_of", shape))));
}

/// Of both operands, the second one transposed: small integers without a pattern of the fragment's sizes, so that every
/// sum is exact and elements that change places change sums.
std::vector<double> lane_operands(const MatrixShape& shape) {
  std::vector<double> operands;
  for (std::uint32_t i = 0; i < (shape.m + shape.n) * shape.k; ++i)
    operands.push_back(static_cast<double>(i * 37 % 101 % 17) - 8);
  return operands;
}

}  // namespace

Result<std::string> test_lane_fragments(OpenDevice& opened, const MatrixShape& shape) {
  const std::vector<double> operands = lane_operands(shape);
  std::vector<std::uint32_t> input;
  for (std::size_t i = 0; i < operands.size(); i += 2)
    input.push_back(std::uint32_t{ops::f16_from(operands[i])} | std::uint32_t{ops::f16_from(operands[i + 1])} << 16);
  const std::uint32_t lanes = opened.caps().subgroup.size;
  const KnownAnswer test{
      .kernel = {glsl_of_lane_product(shape), "self-test of fragments that lanes make", lanes, lanes},
      .input = input,
      .output_words = std::size_t{shape.m} * shape.n};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < shape.m * shape.n; ++i) {
      const std::uint32_t row = i % shape.m, column = i / shape.m;
      double want = 0;
      for (std::uint32_t j = 0; j < shape.k; ++j)
        want += kScale * operands[row * shape.k + j] * operands[(shape.m + column) * shape.k + j];
      const auto value = static_cast<double>(std::bit_cast<float>(got[i]));
      if (value != want)
        return fmt::format(
            "The self-test failed: element {} of row {} of a product whose fragments lanes make is {} "
            "instead of {}.",
            column, row, value, want);
    }
    return {};
  });
}

}  // namespace vkfuse::runtime

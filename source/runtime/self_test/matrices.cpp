#include <bit>
#include <cmath>

#include "lowering/components.hpp"
#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

// Each operand as it is and transposed, in vectors of eight.
constexpr const char* kProducts = R"(#version 450
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
)";

std::string glsl_of_products(const MatrixShape& shape, std::uint32_t lanes) {
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k;
  const std::string stored =
      shape.c == DType::f16
          ? fmt::format("coopmat<float, gl_ScopeSubgroup, {}, {}, gl_MatrixUseAccumulator>(sum)", m, n)
          : "sum";
  return fmt::format(kProducts, fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("all", (m + n) * k / 4),
                     fmt::arg("sums", m * n / 4), fmt::arg("b", m * k / 8), fmt::arg("at", (m + n) * k / 8),
                     fmt::arg("bt", (2 * m + n) * k / 8), fmt::arg("lanes", lanes),
                     fmt::arg("extension", lowering::component_extension(shape.a)),
                     fmt::arg("factor", lowering::component(shape.a)), fmt::arg("total", lowering::component(shape.c)),
                     fmt::arg("word", size_of(shape.a) == 1 ? "uvec2" : "uvec4"),
                     fmt::arg("four", lowering::component_vec4(shape.c)),
                     fmt::arg("bits", is_float(shape.c) ? "floatBitsToUint" : "uvec4"), fmt::arg("stored", stored));
}

struct Operands {
  std::vector<double> a, b;
};

/// Of which every sum is exact, with what is at the end of the dtype's range, or is not finite.
Operands operands_of(const MatrixShape& shape) {
  const bool is_signed = shape.a != DType::u8;
  const std::uint32_t most_a = shape.c == DType::f16 ? 2 : 11, most_b = shape.c == DType::f16 ? 2 : 9;
  const auto fill = [&](std::vector<double>& numbers, std::uint32_t step, std::uint32_t most) {
    for (std::uint32_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(i * step % (2 * most + 1)) - (is_signed ? most : 0);
  };
  Operands made{std::vector<double>(std::size_t{shape.m} * shape.k),
                std::vector<double>(std::size_t{shape.k} * shape.n)};
  fill(made.a, 7, most_a);
  fill(made.b, 5, most_b);
  if (size_of(shape.a) == 1) {
    made.a[0] = is_signed ? -128 : 255;
    made.b[0] = is_signed ? 127 : 255;
  } else {
    for (double& one : made.b) one /= 4;
    made.a[std::size_t{shape.m - 2} * shape.k + 3] = INFINITY;
    made.a[std::size_t{shape.m - 1} * shape.k + 1] = NAN;
  }
  return made;
}

/// The bits of a number that the dtype of an operand holds exactly.
std::uint32_t operand_bits(DType dtype, double number) {
  if (dtype == DType::f16) return ops::f16_from(number);
  if (dtype == DType::bf16) return ops::bf16_from(number);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(number)) & 0xffu;
}

/// Both operands as they are, and then both transposed.
std::vector<std::uint32_t> packed_operands(const MatrixShape& shape, const Operands& operands) {
  const auto& [a, b] = operands;
  std::vector<std::uint32_t> elements;
  for (const bool transposed : {false, true}) {
    for (std::uint32_t i = 0; i < a.size(); ++i)
      elements.push_back(operand_bits(shape.a, transposed ? a[i % shape.m * shape.k + i / shape.m] : a[i]));
    for (std::uint32_t i = 0; i < b.size(); ++i)
      elements.push_back(operand_bits(shape.a, transposed ? b[i % shape.k * shape.n + i / shape.k] : b[i]));
  }
  const std::uint32_t per_word = size_of(shape.a) == 1 ? 4 : 2;
  std::vector<std::uint32_t> words(elements.size() / per_word);
  for (std::size_t i = 0; i < elements.size(); ++i)
    words[i / per_word] |= elements[i] << (i % per_word * 32 / per_word);
  return words;
}

double number_of(DType sums, std::uint32_t bits) {
  if (is_float(sums)) return static_cast<double>(std::bit_cast<float>(bits));
  return sums == DType::i32 ? static_cast<double>(static_cast<std::int32_t>(bits)) : static_cast<double>(bits);
}

}  // namespace

Result<std::string> test_matrices(OpenDevice& opened, const MatrixShape& shape) {
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k, lanes = opened.caps().subgroup.size;
  const Operands operands = operands_of(shape);
  const KnownAnswer test{
      .kernel = {glsl_of_products(shape, lanes),
                 fmt::format("self-test of T4, {} and {}", name_of(shape.a), name_of(shape.c)), lanes, lanes},
      .input = packed_operands(shape, operands),
      .output_words = std::size_t{m} * n};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < m * n; ++i) {
      double want = 0;
      for (std::uint32_t j = 0; j < k; ++j)
        want += 2 * operands.a[i / n * k + j] * operands.b[std::size_t{j} * n + i % n];
      const double value = number_of(shape.c, got[i]);
      if (std::isnan(want) ? !std::isnan(value) : value != want) {
        return fmt::format("The self-test failed: element [{}, {}] of a product of matrices of {} is {} instead of {}.",
                           i / n, i % n, name_of(shape.a), value, want);
      }
    }
    return {};
  });
}

}  // namespace vkfuse::runtime

#include <bit>

#include "kernel/printer.hpp"
#include "lowering/fragments.hpp"
#include "ops/op.hpp"
#include "runtime/self_test/known_answer.hpp"
#include "runtime/self_test/tests.hpp"

namespace vkfuse::runtime {

namespace {

constexpr const char* kSubByteProducts = R"(#version 450
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
shared uvec4 masks[{mask_words}];
{functions}
void main() {{
  uint thread = gl_LocalInvocationID.x;
  {powers}
  for (uint i = thread; i < {column_words}u; i += {lanes}u)
    column[i] = uvec4(x.w[{all}u + i * 4u], x.w[{all}u + i * 4u + 1u],
                      x.w[{all}u + i * 4u + 2u], x.w[{all}u + i * 4u + 3u]);
  for (uint i = thread; i < {mask_words}u; i += {lanes}u) masks[i] = uvec4({mask_word});
  barrier();
  coopmat<float16_t, gl_ScopeSubgroup, {k}, {n}, gl_MatrixUseB> mask;
  coopMatLoad(mask, masks, 0u, {k}u / 8u, gl_CooperativeMatrixLayoutColumnMajor);
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
    for (uint i = thread; i < {m}u * {groups}u; i += {lanes}u)
      y.w[round * {m}u * {groups}u + i] = sums[i / 4u][i % 4u];
    barrier();
  }}
}}
)";
constexpr std::uint32_t kRounds = 8;  // one weight fragment each

/// Codes, and how many groups of a fragment's elements have sums apart.
struct SubByteTest {
  ops::PackedCode packed;
  int groups = 1;
};
const SubByteTest kTests[] = {
    {{.bits = 4, .flip = 8, .offset = -8}, 1},
    {{.bits = 4, .format = FloatFormat::float4_e2m1fn}, 2},  // half of the fragment's numbers have no leading one
    {{.bits = 8, .format = FloatFormat::float6_e2m3fn}, 1},
};

std::string glsl_of_sub_byte(const MatrixShape& shape, std::uint32_t lanes, const SubByteTest& test) {
  const std::uint32_t m = shape.m, n = shape.n, k = shape.k;
  const std::uint32_t words = m * k / 2;  // of a round
  const std::string powers =
      fmt::format("uint low = 0x{:x}u, high = 0x{:x}u;", lowering::sub_byte_powers(test.packed.flip, 0),
                  lowering::sub_byte_powers(test.packed.flip, 4));
  const std::vector<std::string> no_names;
  const lowering::Printer printer(no_names, nullptr);
  std::string products;
  const lowering::FragmentProducts of{"numbers_of", "bits", "column", "0u", "low", "high", "sum", "of_group", "mask"};
  for (const lowering::Code& line : lowering::fragment_products(shape, test.packed, of))
    products += (products.empty() ? "" : "\n    ") + printer.text(line);
  const std::string functions = printer.text(lowering::fragment_function("numbers_of", shape, test.packed)) +
                                printer.text(lowering::mask_function("of_group", shape));
  return fmt::format(kSubByteProducts, fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("lanes", lanes),
                     fmt::arg("rounds", kRounds), fmt::arg("words", words), fmt::arg("row_words", words / 4),
                     fmt::arg("column_words", test.packed.per_half() * k / 8), fmt::arg("sums", m * n / 4),
                     fmt::arg("all", kRounds * words), fmt::arg("functions", functions), fmt::arg("powers", powers),
                     fmt::arg("products", products), fmt::arg("mask_words", n * k / 8),
                     fmt::arg("mask_word", printer.text(lowering::mask_word(shape, test.groups, "i"))),
                     fmt::arg("groups", test.groups));
}

/// All sixteen bits in some order: NaN, infinities, numbers without a leading one.
std::vector<std::uint32_t> weight_words(const MatrixShape& shape) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < kRounds * shape.m * shape.k / 2; ++i)
    words.push_back((i * 40503u + (i % 5 == 0 ? 0x7c017fffu : 0x1234fc00u)) * 2654435761u >> (i % 3));
  return words;
}

/// What the fragment's number i is taken for.
double weight_at(const std::vector<std::uint32_t>& words, std::uint32_t i, const ops::PackedCode& packed) {
  const auto bits = static_cast<std::uint32_t>(packed.bits), in_word = 32 / bits;
  const std::uint32_t code = words[i / in_word] >> (i % in_word * bits) & ((1u << bits) - 1);
  if (packed.format) return ops::decoded(code, ops::row_of(*packed.format)) / packed.unit();
  return static_cast<double>((code ^ packed.flip) + packed.offset);
}

/// Of the vector that the weights are multiplied by.
double vector_element(std::uint32_t i) { return static_cast<double>(i * 7 % 15) - 7; }

/// In the order in which fragments take it: every second or fourth element is in the same fragment.
std::vector<std::uint32_t> vector_words(std::uint32_t k, std::uint32_t parts) {
  std::vector<std::uint32_t> words(parts * k / 2);
  for (std::uint32_t i = 0; i < parts * k; ++i)
    words[(i % parts * k + i / parts) / 2] |= std::uint32_t{ops::f16_from(vector_element(i))} << (i / parts % 2 * 16);
  return words;
}

Result<std::string> test_sub_byte_of(OpenDevice& opened, const MatrixShape& shape, const SubByteTest& codes) {
  const auto parts = static_cast<std::uint32_t>(codes.packed.per_half()),
             groups = static_cast<std::uint32_t>(codes.groups);
  const std::uint32_t lanes = opened.caps().subgroup.size, length = parts * shape.k;
  const std::vector<std::uint32_t> weights = weight_words(shape);
  const std::vector<std::uint32_t> vector = vector_words(shape.k, parts);
  std::vector<std::uint32_t> input = weights;
  input.insert(input.end(), vector.begin(), vector.end());
  const KnownAnswer test{
      .kernel = {glsl_of_sub_byte(shape, lanes, codes), "self-test of weights of few bits", lanes, lanes},
      .input = input,
      .output_words = std::size_t{kRounds} * shape.m * groups};
  return check_known_answer(opened, test, [&](const std::vector<std::uint32_t>& got) -> std::string {
    for (std::uint32_t i = 0; i < kRounds * shape.m * groups; ++i) {
      const std::uint32_t group = i / shape.m % groups, row = i / shape.m / groups * shape.m + i % shape.m;
      double want = 0;
      for (std::uint32_t e = group * length / groups; e < (group + 1) * length / groups; ++e)
        want += weight_at(weights, row * length + e, codes.packed) * vector_element(e);
      const auto value = static_cast<double>(std::bit_cast<float>(got[i]));
      if (value != want)
        return fmt::format("The self-test failed: a sum of {} products with weights of {} bits is {} instead of {}.",
                           length / groups, codes.packed.bits, value, want);
    }
    return {};
  });
}

}  // namespace

Result<std::string> test_sub_byte(OpenDevice& opened, const MatrixShape& shape) {
  for (const SubByteTest& codes : kTests) {
    VKF_TRY(wrong, test_sub_byte_of(opened, shape, codes));
    if (!wrong.empty()) return wrong;
  }
  return std::string();
}

}  // namespace vkfuse::runtime

#include "lowering/fragments.hpp"

#include <algorithm>

#include "lowering/components.hpp"

namespace vkfuse::lowering {

using ops::PackedCode;

namespace {

constexpr int kFractionBitsOfHalf = 10;

std::uint32_t in_both_halves(std::uint32_t half) { return half | half << 16; }

Code whole_number_function(const Code& name, const MatrixShape& mma) {
  return code(
      R"(// Some bits of each 16 as numbers: among the low bits of a power of 2, which is then taken away. The driver is
// not to know the power: with two constants that it knows, an `and` and an `xor` are two instructions.
{0} {1}({0} bits, uint shift, uint mask, uint power, f16vec2 scale, f16vec2 less) {{
  {0} numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {{
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = fma(unpackFloat2x16(((word >> shift) & mask) ^ power), scale, -less);
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }}
  return numbers;
}}
)",
      fragment(mma.a, mma.m, mma.k, "A"), name);
}

/// Exponent and fraction where those of an f16 end.
std::uint32_t magnitude_mask(const ops::FloatFormatRow& format) {
  return ((1u << format.magnitude_bits()) - 1) << (kFractionBitsOfHalf - format.fraction_bits);
}

Code float_function(const Code& name, const MatrixShape& mma, const ops::FloatFormatRow& format) {
  const int power = 15 - format.bias;
  return code(
      R"(// Codes of {2} as f16: the sign, and exponent and fraction where those of an f16 end{3}.
{0} {1}({0} bits, uint sign_left, uint left, uint right) {{
  {0} numbers;
  [[unroll]] for (int i = 0; i < bits.length() / 2; ++i) {{
    uint word = packFloat2x16(f16vec2(bits[2 * i], bits[2 * i + 1]));
    f16vec2 pair = unpackFloat2x16(((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x{4:08x}u));
    numbers[2 * i] = pair.x;
    numbers[2 * i + 1] = pair.y;
  }}
  return numbers;
}}
)",
      fragment(mma.a, mma.m, mma.k, "A"), name, name_of(format.format),
      power == 0 ? Code() : code(", 1 / 2^{} of the number", power), in_both_halves(magnitude_mask(format)));
}

}  // namespace

Code fragment_function(const Code& name, const MatrixShape& mma, const PackedCode& packed) {
  return packed.format ? float_function(name, mma, ops::row_of(*packed.format)) : whole_number_function(name, mma);
}

Code numbers_at(const PackedCode& packed, const FragmentProducts& of, int place) {
  if (packed.format) {
    const ops::FloatFormatRow& format = ops::row_of(*packed.format);
    const int left = kFractionBitsOfHalf - format.fraction_bits - place;
    return code("{}({}, {}u, {}u, {}u)", of.function, of.bits, 15 - place - format.magnitude_bits(), std::max(left, 0),
                std::max(-left, 0));
  }
  const bool above = place % 8 != 0;  // the upper four of a byte
  const std::uint32_t mask = ((1u << packed.bits) - 1) << (above ? 4 : 0);
  return code("{}({}, {}u, 0x{:08x}u, {}, f16vec2({}hf), f16vec2({}hf))", of.function, of.bits, place / 8 * 8,
              in_both_halves(mask), above ? of.high : of.low, above ? "0.0625" : "1.0",
              code("{}.0", (above ? 64 : 1024) - packed.offset));
}

Code pair_function(const Code& name, const PackedCode& packed) {
  if (!packed.format)
    return code(
        R"(// Some bits of each half of a word as two numbers: among the low bits of a power of 2, which is then taken
// away. The driver is not to know the power: with two constants that it knows, an `and` and an `xor` are two
// instructions.
uint {0}(uint word, uint shift, uint mask, uint power, f16vec2 scale, f16vec2 less) {{
  return packFloat2x16(fma(unpackFloat2x16(((word >> shift) & mask) ^ power), scale, -less));
}}
)",
        name);
  const ops::FloatFormatRow& format = ops::row_of(*packed.format);
  const int power = 15 - format.bias;
  return code(
      R"(// Two codes of {1} as f16: the sign, and exponent and fraction where those of an f16 end{2}.
uint {0}(uint word, uint sign_left, uint left, uint right) {{
  return ((word << sign_left) & 0x80008000u) | ((word << left >> right) & 0x{3:08x}u);
}}
)",
      name, name_of(format.format), power == 0 ? Code() : code(", 1 / 2^{} of the number", power),
      in_both_halves(magnitude_mask(format)));
}

Code mask_function(const Code& name, const MatrixShape& mma) {
  return code(
      R"(// The elements of the vector that are of a column's group.
{0} {1}({0} vector, {0} mask) {{
  {0} masked;
  [[unroll]] for (int i = 0; i < vector.length() / 2; ++i) {{
    uint ones = packFloat2x16(f16vec2(mask[2 * i], mask[2 * i + 1]));
    f16vec2 pair = unpackFloat2x16(packFloat2x16(f16vec2(vector[2 * i], vector[2 * i + 1])) & ones);
    masked[2 * i] = pair.x;
    masked[2 * i + 1] = pair.y;
  }}
  return masked;
}}
)",
      fragment(mma.b, mma.k, mma.n, "B"), name);
}

std::vector<Code> fragment_products(const MatrixShape& mma, const PackedCode& packed, const FragmentProducts& of) {
  const int parts = packed.per_half();
  std::vector<Code> lines;
  lines.push_back(code("{} factors[{}];", fragment(mma.b, mma.k, mma.n, "B"), parts));
  const Code load = code("coopMatLoad(factors[j], {}, {} + j * {}u, 0u, gl_CooperativeMatrixLayoutColumnMajor);",
                         of.vector, of.at, mma.k / 8);
  if (of.mask.empty()) {
    lines.push_back(code("[[unroll]] for (uint j = 0u; j < {}u; ++j) {}", parts, load));
  } else {
    lines.push_back(code("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", parts));
    lines.push_back(code("  {}", load));
    lines.push_back(code("  factors[j] = {}(factors[j], {});", of.mask_function, of.mask));
    lines.emplace_back("}");
  }
  for (int j = 0; j < parts; ++j)
    lines.push_back(
        code("{0} = coopMatMulAdd({1}, factors[{2}], {0});", of.sum, numbers_at(packed, of, j * packed.bits), j));
  return lines;
}

Code mask_word(const MatrixShape& mma, int groups, const Code& i) {
  const auto chunks = static_cast<int>(mma.k) / 8;  // of a column
  const Code group =
      groups == chunks ? code("{} % {}u", i, chunks) : code("{} % {}u / {}u", i, chunks, chunks / groups);
  return code("{} == {} / {}u % {}u ? 0xffffffffu : 0u", group, i, chunks, groups);
}

Code lane_fragment_functions(const Code& rows, const Code& column, const MatrixShape& mma) {
  return code(
      R"(// A lane's part of two rows, of each four elements along the sum.
{0} {1}(uint first_low, uint first_high, uint second_low, uint second_high) {{
  uint words[4] = uint[4](first_low, first_high, second_low, second_high);
  {0} rows;
  [[unroll]] for (int i = 0; i < 4; ++i) {{
    f16vec2 pair = unpackFloat2x16(words[i]);
    rows[2 * i] = pair.x;
    rows[2 * i + 1] = pair.y;
  }}
  return rows;
}}

// The same of one column.
{2} {3}(uint low, uint high) {{
  uint words[2] = uint[2](low, high);
  {2} column;
  [[unroll]] for (int i = 0; i < 2; ++i) {{
    f16vec2 pair = unpackFloat2x16(words[i]);
    column[2 * i] = pair.x;
    column[2 * i + 1] = pair.y;
  }}
  return column;
}}
)",
      fragment(mma.a, mma.m, mma.k, "A"), rows, fragment(mma.b, mma.k, mma.n, "B"), column);
}

}  // namespace vkfuse::lowering

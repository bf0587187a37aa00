#include "lowering/fragments.hpp"

#include "lowering/components.hpp"

namespace vkfuse::lowering {

Code fragment_function(const Code& name, const MatrixShape& mma) {
  return code(
      R"(// Four bits of each 16 as numbers: among the low bits of a power of 2, which is then taken away. The driver is
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

std::vector<Code> fragment_products(const MatrixShape& mma, const FragmentProducts& of) {
  std::vector<Code> lines;
  lines.push_back(code("{} factors[4];", fragment(mma.b, mma.k, mma.n, "B")));
  lines.push_back(
      code("[[unroll]] for (uint j = 0u; j < 4u; ++j) coopMatLoad(factors[j], {}, {} + j * {}u, 0u, "
           "gl_CooperativeMatrixLayoutColumnMajor);",
           of.vector, of.at, mma.k / 8));
  for (int j = 0; j < 4; ++j) {
    const bool above = j % 2 == 1;  // the upper four of a byte
    lines.push_back(
        code("{0} = coopMatMulAdd({1}({2}, {3}u, 0x{4:08x}u, {5}, f16vec2({6}hf), f16vec2({7}hf)), factors[{8}], {0});",
             of.sum, of.function, of.bits, j / 2 * 8, above ? 0x00f000f0u : 0x000f000fu, above ? of.high : of.low,
             above ? "0.0625" : "1.0", code("{}.0", (above ? 64 : 1024) - of.offset), j));
  }
  return lines;
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

// Weights of four or eight bits as cooperative matrices take them: a fragment of 16-bit elements, as they lie in
// memory, becomes two or four fragments of numbers. What is done to an element does not depend on where in the fragment
// it is, so the device may keep to itself which thread has which.
#pragma once

#include <cstdint>
#include <vector>

#include "base/target.hpp"
#include "kernel/code.hpp"
#include "ops/packed_code.hpp"

namespace vkfuse::lowering {

/// Of whole numbers: powers of 2 in two halves of a word, above bits that are flipped. The function is
/// given those for bits at 0, and of four bits those for bits at 4, too.
constexpr std::uint32_t sub_byte_powers(std::uint32_t flip, int place) {
  const std::uint32_t half = 0x6400u | (flip << place);
  return half | half << 16;
}

/// The function `name` of a fragment, which gives some of the numbers of its elements.
Code fragment_function(const Code& name, const MatrixShape& mma, const ops::PackedCode& packed);

/// The function `name` of a fragment of a vector and one of bits, which gives the elements where these are ones, and
/// else zeros.
Code mask_function(const Code& name, const MatrixShape& mma);

/// What fragment_products() multiplies, as the text names it.
struct FragmentProducts {
  Code function;    ///< see fragment_function() and pair_function()
  Code bits;        ///< the fragment of weights, or the word
  Code vector, at;  ///< the shared array of uvec4, and where the vector's part begins
  Code low, high;   ///< of whole numbers: sub_byte_powers() of bits at 0 and at 4
  Code sum = {};
  Code mask_function = {}, mask = {};  ///< see mask_function(); empty: columns are all the same
};

/// The function `name` of a 32-bit word, which gives two of its numbers as f16, 16 bits apart.
Code pair_function(const Code& name, const ops::PackedCode& packed);

/// Those that are bits of both halves from `place` on: a call of the function on the bits.
Code numbers_at(const ops::PackedCode& packed, const FragmentProducts& of, int place);

/// Multiplies the numbers of a fragment with a vector, of which all the first of each two or four elements come first:
/// declares `factors`, the operands B.
std::vector<Code> fragment_products(const MatrixShape& mma, const ops::PackedCode& packed, const FragmentProducts& of);

/// What all 32-bit words of uvec4 `i` of the masks are, which lie column by column: of `groups` groups of elements side
/// by side, a column has that of its number modulo `groups`.
Code mask_word(const MatrixShape& mma, int groups, const Code& i);

/// The functions of a lane's elements of a product of lane_fragments_of(), two to a word: `rows` makes an A of two
/// words of each of its rows, `column` a B of two words.
Code lane_fragment_functions(const Code& rows, const Code& column, const MatrixShape& mma);

}  // namespace vkfuse::lowering

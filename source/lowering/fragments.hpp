// Weights of four bits as cooperative matrices take them: a fragment of 16-bit words, as they lie in memory,
// becomes four fragments of numbers. What is done to a word does not depend on where in the fragment it is, so the
// device may keep to itself which thread has which.
#pragma once

#include <cstdint>
#include <vector>

#include "base/target.hpp"
#include "kernel/code.hpp"

namespace vkfuse::lowering {

/// Powers of 2 in two halves of a word, above four bits that are flipped: what the function is given for those at 0
/// and 4.
constexpr std::uint32_t sub_byte_powers(std::uint32_t flip, int place) {
  const std::uint32_t half = 0x6400u | (flip << place);
  return half | half << 16;
}

/// The function `name` of a fragment, which gives the numbers of four of its sixteen bits.
Code fragment_function(const Code& name, const MatrixShape& mma);

/// What fragment_products() multiplies, as the text names it.
struct FragmentProducts {
  Code function;            ///< see fragment_function()
  Code bits;                ///< the fragment of weights
  Code vector, at;          ///< the shared array of uvec4, and where the vector's part begins
  Code low, high;           ///< sub_byte_powers() of four bits at 0 and at 4
  std::int64_t offset = 0;  ///< numbers are (four bits ^ flip) + offset
  Code sum;
};

/// Multiplies the numbers of a fragment with a vector, of which all the first of each four elements come first:
/// declares `factors`, the operands B.
std::vector<Code> fragment_products(const MatrixShape& mma, const FragmentProducts& of);

/// The functions of a lane's elements of a product of lane_fragments_of(), two to a word: `rows` makes an A of two
/// words of each of its rows, `column` a B of two words.
Code lane_fragment_functions(const Code& rows, const Code& column, const MatrixShape& mma);

}  // namespace vkfuse::lowering

// Weights of four bits as cooperative matrices take them (T4): a fragment of 16-bit words, as they lie in memory,
// becomes four fragments of numbers. What is done to a word does not depend on where in the fragment it is, so the
// device may keep to itself which thread has which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/target.hpp"

namespace vkfuse::lowering {

/// Powers of 2 in two halves of a word, above four bits that are flipped: what the function is given for those at 0
/// and 4.
constexpr std::uint32_t sub_byte_powers(std::uint32_t flip, int place) {
  const std::uint32_t half = 0x6400u | (flip << place);
  return half | half << 16;
}

/// The function `name` of a fragment, which gives the numbers of four of its sixteen bits.
std::string fragment_function(const std::string& name, const MatrixShape& unit);

/// What multiplies the numbers (four bits ^ flip) + `offset` of fragment `bits` with the vector in the shared array
/// `column` of uvec4, from `at` on, where all the first of each four elements come first: declares `factors`, of the
/// second kind. `low` and `high` name the powers.
std::vector<std::string> fragment_products(const MatrixShape& unit, const std::string& function,
                                           const std::string& bits, const std::string& column, const std::string& at,
                                           const std::string& low, const std::string& high, std::int64_t offset,
                                           const std::string& sum);

}  // namespace vkfuse::lowering

// The words of GLSL that mean something to who assembles a kernel: functions of the prelude, words that an extension or
// a mode brings, and names of variables that templates give.
#pragma once

#include <cstdint>
#include <string_view>

namespace vkfuse::lowering {

/// What a kernel has to ask for before its code may use a word.
enum class Need : std::uint8_t {
  int64,
  float16,
  bfloat16_components,  ///< of cooperative matrices
  int8_components,
  subgroups,
  shuffles,
  votes,
  matrices,          ///< cooperative ones
  matrix_functions,  ///< of their elements
  integer_dots,
  loop_control,
  float64,
  workgroup,  ///< its number, which Printer binds
  nothing,
};

struct WordRow {
  std::string_view name;
  Need need = Need::nothing;
  bool of_prelude = false;  ///< a function that the text then has to have
  bool is_local = false;    ///< a variable, coordinates among them: names that are made for a kernel are others
};

using Word = std::uint16_t;
inline constexpr Word kNoWord = 0xffff;

/// The word's number, or kNoWord where it is none of these.
Word word_of(std::string_view name);
const WordRow& row_of(Word word);

}  // namespace vkfuse::lowering

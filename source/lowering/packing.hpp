// Between the 32-bit words of a buffer and the registers of one group of elements.
#pragma once

#include <span>

#include "base/target.hpp"
#include "kernel/code.hpp"
#include "ops/op.hpp"

namespace vkfuse::lowering {

/// What decides the spelling of registers: which 64-bit and 16-bit instructions may be used.
struct Dialect {
  bool native_int64 = false;
  bool native_f16 = false;        ///< T2: float16 conversion instructions
  bool native_exp = false;        ///< exponentials of NaN are NaN
  bool keeps_nan = false;         ///< by an execution mode, which keeps it in f32
  bool few_exponentials = false;  ///< see ops::Native
  bool widens_by_halves = false;  ///< see DriverWorkarounds::loses_widened_comparisons
  [[nodiscard]] ops::Native native() const {
    ops::Native native(native_int64, native_exp);
    native.few_exponentials = few_exponentials;
    return native;
  }
};

Dialect dialect_of(const Target& target);

/// The type of `count` (1, 2 or 4) elements of a thread: "vec4", "ivec2", "float", ...; pairs are
/// arrays, "uvec2[4]".
Code group_type(ops::RegisterType register_type, int count, const Dialect& dialect);

/// Element `index` of a group variable.
Code element_of(const Code& group, int index, int count);

/// Words of `count` elements as a group: `words` are uint expressions, in order. With `joined` there
/// is one expression, a vector of exactly the group's words.
Code unpack(DType dtype, int count, std::span<const Code> words, const Dialect& dialect, bool joined);

/// The words of a group variable, as uint expressions. `narrow`ed already in strict mode; floats
/// are rounded here.
std::vector<Code> pack(DType dtype, int count, const Code& group, const Dialect& dialect);

/// The words of a group of 4-byte elements as one vector.
Code pack_group(DType dtype, int count, const Code& group);

/// One element at index `at` (a uint expression) of block `block`, an array of words of `block_bytes`: 4, 8
/// or 16, at least the element's size.
Code load_element(DType dtype, const Code& block, int block_bytes, const Code& at, const Dialect& dialect);

/// The 32-bit word at `index` of such a block.
Code load_word(const Code& block, int block_bytes, const Code& index);

/// One element of at most 4 bytes of such a block: the word that holds it, and by how many bits it is above the low
/// end; empty where it is there. Taken out of a word by a shift: a vector of its elements, of which one is picked by a
/// number that the compiler does not know, lies in memory on an H200.
struct ElementInWord {
  Code word, shift;
};
ElementInWord element_in_word(int size, const Code& block, int block_bytes, const Code& at);

/// The bits of one element of such a block, at the low end of a word; a uvec2 for 8 bytes.
Code load_bits(DType dtype, const Code& block, int block_bytes, const Code& at);

/// The element at the low end of a word, or that a uvec2 holds; what a word holds beside it does not matter.
Code lowest_element(DType dtype, const Code& word, const Dialect& dialect);

/// The bits of one element of at most 4 bytes as a word; narrower ones fill every place of the word.
Code element_bits(DType dtype, const Code& value, const Dialect& dialect);

/// A literal of the dtype from its bytes.
Code literal(DType dtype, const std::byte* bytes, const Dialect& dialect);

/// The type that a buffer's array has for words of 16, 8 or 4 bytes.
std::string_view word_type(int bytes);

/// A uvec4, uvec2 or uint from words.
Code join_words(std::span<const Code> words);

}  // namespace vkfuse::lowering

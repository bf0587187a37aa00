#include "lowering/packing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "ir/graph.hpp"

namespace vkfuse::lowering {

namespace {

using ops::RegisterType;

Code call(const Code& function, const Code& argument) { return code("{}({})", function, argument); }

bool is_pair(RegisterType register_type, const Dialect& dialect) {
  return (register_type == RegisterType::i64 || register_type == RegisterType::u64) && !dialect.native_int64;
}

std::string_view vector_prefix(RegisterType register_type) {
  switch (register_type) {
    case RegisterType::f32: return "vec";
    case RegisterType::i32: return "ivec";
    case RegisterType::u32: return "uvec";
    case RegisterType::boolean: return "bvec";
    case RegisterType::i64: return "i64vec";
    case RegisterType::u64: return "u64vec";
    case RegisterType::f64: return "dvec";
  }
  return "vec";
}

/// The prelude function that takes one word apart into all the elements it holds, or empty for
/// dtypes of a whole word or more.
Code word_values(DType dtype, const Dialect& dialect) {
  switch (dtype) {
    case DType::f16: return dialect.native_f16 ? "f16x2_values_native" : "f16x2_values";
    case DType::bf16: return "bf16x2_values";
    case DType::i16: return "i16x2_values";
    case DType::u16: return "u16x2_values";
    case DType::i8: return "i8x4_values";
    case DType::u8: return "u8x4_values";
    case DType::boolean: return "boolx4_values";
    default: return {};
  }
}

Code word_bits(DType dtype, const Dialect& dialect) {
  switch (dtype) {
    case DType::f16: return dialect.native_f16 ? "f16x2_bits_native" : "f16x2_bits";
    case DType::bf16: return "bf16x2_bits";
    case DType::i16: return "i16x2_bits";
    case DType::u16: return "u16x2_bits";
    case DType::i8: return "i8x4_bits";
    case DType::u8: return "u8x4_bits";
    case DType::boolean: return "boolx4_bits";
    default: return {};
  }
}

/// The register of an 8-byte element from its two words.
Code wide_value(DType dtype, const Code& low_high, const Dialect& dialect) {
  if (dtype == DType::f64) return call("packDouble2x32", low_high);
  if (!dialect.native_int64) return low_high;
  return dtype == DType::i64 ? code("int64_t(packUint2x32({}))", low_high) : call("packUint2x32", low_high);
}

Code wide_bits(DType dtype, const Code& value, const Dialect& dialect) {
  if (dtype == DType::f64) return call("unpackDouble2x32", value);
  if (!dialect.native_int64) return value;
  return code("unpackUint2x32({})", dtype == DType::i64 ? call("uint64_t", value) : value);
}

}  // namespace

Dialect dialect_of(const Target& target) {
  return {.native_int64 = target.caps.arithmetic.int64,
          .native_f16 = target.has(FeatureTier::float16) && target.caps.arithmetic.float16,
          .native_exp = target.caps.float_controls.exp_of_nan,
          .keeps_nan = target.caps.float_controls.keep_nan_f32,
          .widens_by_halves = target.workarounds.loses_widened_comparisons};
}

Code group_type(RegisterType register_type, int count, const Dialect& dialect) {
  if (is_pair(register_type, dialect)) return count == 1 ? "uvec2" : code("uvec2[{}]", count);
  if (count == 1) return Code(ops::glsl_type(register_type, dialect.native_int64));
  return code("{}{}", vector_prefix(register_type), count);
}

Code element_of(const Code& group, int index, int count) { return count == 1 ? group : code("{}[{}]", group, index); }

std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

Code join_words(std::span<const Code> words) {
  if (words.size() == 1) return words.front();
  return code("uvec{}({})", words.size(), listed(words));
}

Code unpack(DType dtype, int count, std::span<const Code> words, const Dialect& dialect, bool joined) {
  const RegisterType register_type = ops::register_type_of(dtype);
  const Code type = group_type(register_type, count, dialect);
  if (size_of(dtype) == 8) {
    std::vector<Code> values;
    for (int i = 0; i < count; ++i) {
      values.push_back(wide_value(dtype, code("uvec2({}, {})", words[2 * i], words[2 * i + 1]), dialect));
    }
    return count == 1 ? values.front() : code("{}({})", type, listed(values));
  }
  const Code split = word_values(dtype, dialect);
  if (!split.empty()) {
    const int per_word = 4 / size_of(dtype);
    std::vector<Code> parts;
    for (int i = 0; i < count / per_word; ++i) {
      const bool component = joined && count > per_word;
      parts.push_back(call(
          split, component ? code("{}.{}", words[0], "xyzw"[i]) : words[static_cast<std::size_t>(joined ? 0 : i)]));
    }
    return parts.size() == 1 ? parts.front() : code("{}({})", type, listed(parts));
  }
  const Code vector = joined ? words.front() : join_words(words);
  if (dtype == DType::f32) return call("uintBitsToFloat", vector);
  return dtype == DType::i32 ? call(type, vector) : vector;
}

Code pack_group(DType dtype, int count, const Code& group) {
  if (dtype == DType::f32) return call("floatBitsToUint", group);
  if (dtype == DType::u32) return group;
  return call(count == 1 ? "uint" : code("uvec{}", count), group);
}

std::vector<Code> pack(DType dtype, int count, const Code& group, const Dialect& dialect) {
  std::vector<Code> words;
  if (size_of(dtype) == 8) {
    for (int i = 0; i < count; ++i) {
      const Code bits = wide_bits(dtype, element_of(group, i, count), dialect);
      words.push_back(bits + ".x");
      words.push_back(bits + ".y");
    }
    return words;
  }
  const Code join = word_bits(dtype, dialect);
  if (!join.empty()) {
    const int per_word = 4 / size_of(dtype);
    if (count == per_word) return {call(join, group)};
    for (int i = 0; i < count; i += per_word) words.push_back(call(join, group + (i == 0 ? ".xy" : ".zw")));
    return words;
  }
  for (int i = 0; i < count; ++i) {
    const Code value = element_of(group, i, count);
    words.push_back(dtype == DType::f32 ? call("floatBitsToUint", value) : call("uint", value));
  }
  return words;
}

Code load_word(const Code& block, int block_bytes, const Code& index) {
  if (block_bytes == 4) return code("{}.w[{}]", block, index);
  const Code at = index.parenthesised();
  return block_bytes == 8 ? code("{}.w[{} >> 1][{} & 1u]", block, at, at)
                          : code("{}.w[{} >> 2][{} & 3u]", block, at, at);
}

ElementInWord element_in_word(int size, const Code& block, int block_bytes, const Code& at) {
  if (size == 4 || at.is_zero()) return {load_word(block, block_bytes, at), {}};
  const Code i = at.parenthesised();
  return {load_word(block, block_bytes, code("{} >> {}", i, size == 2 ? 1 : 2)),
          code("({} & {}u) * {}u", i, 4 / size - 1, 8 * size)};
}

Code load_bits(DType dtype, const Code& block, int block_bytes, const Code& at) {
  const int size = size_of(dtype);
  const Code i = at.parenthesised();
  if (size == 8) {
    if (block_bytes == 8) return code("{}.w[{}]", block, at);
    return code("uvec2({0}.w[{1} >> 1][({1} & 1u) * 2u], {0}.w[{1} >> 1][({1} & 1u) * 2u + 1u])", block, i);
  }
  if (size == 4) return load_word(block, block_bytes, at);
  const ElementInWord element = element_in_word(size, block, block_bytes, at);
  const std::uint32_t mask = (1u << (8 * size)) - 1;
  return element.shift.empty() ? code("{} & 0x{:x}u", element.word, mask)
                               : code("({} >> ({})) & 0x{:x}u", element.word, element.shift, mask);
}

Code lowest_element(DType dtype, const Code& word, const Dialect& dialect) {
  switch (size_of(dtype)) {
    case 8: return wide_value(dtype, word, dialect);
    case 4: return dtype == DType::f32 ? call("uintBitsToFloat", word) : dtype == DType::i32 ? call("int", word) : word;
    default: return code("{}({})[0]", word_values(dtype, dialect), word);
  }
}

Code load_element(DType dtype, const Code& block, int block_bytes, const Code& at, const Dialect& dialect) {
  const int size = size_of(dtype);
  if (size > 4) return lowest_element(dtype, load_bits(dtype, block, block_bytes, at), dialect);
  const ElementInWord element = element_in_word(size, block, block_bytes, at);
  return lowest_element(dtype, element.shift.empty() ? element.word : code("{} >> ({})", element.word, element.shift),
                        dialect);
}

Code element_bits(DType dtype, const Code& value, const Dialect& dialect) {
  const int per_word = size_of(dtype) >= 4 ? 1 : 4 / size_of(dtype);
  if (per_word == 1) return pack(dtype, 1, value, dialect).front();
  // All elements of the word are this one: the caller masks.
  const Code type = group_type(ops::register_type_of(dtype), per_word, dialect);
  return pack(dtype, per_word, code("{}({})", type, value), dialect).front();
}

Code literal(DType dtype, const std::byte* bytes, const Dialect& dialect) {
  switch (ops::register_type_of(dtype)) {
    case RegisterType::f32: {
      const float value = static_cast<float>(ir::decode(dtype, bytes));
      const bool plain = std::isfinite(value) && (value == 0.0F ? !std::signbit(value) : std::isnormal(value));
      if (!plain) return code("uintBitsToFloat(0x{:08x}u)", std::bit_cast<std::uint32_t>(value));
      // The largest number that is written without an exponent.
      const bool whole = value == std::trunc(value) && std::abs(value) < 1e16F;
      return code("{}{}", value, whole ? ".0" : "");
    }
    case RegisterType::f64: {
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes, 8);
      return code("packDouble2x32(uvec2(0x{:08x}u, 0x{:08x}u))", bits & 0xffffffffu, bits >> 32);
    }
    case RegisterType::i32: {
      const std::int64_t value = ir::decode_int(dtype, bytes);
      return value < 0 ? code("int(0x{:08x}u)", static_cast<std::uint32_t>(value)) : code("{}", value);
    }
    case RegisterType::u32: return code("{}u", ir::decode_int(dtype, bytes));
    case RegisterType::boolean: return ir::decode_int(dtype, bytes) != 0 ? "true" : "false";
    case RegisterType::i64:
    case RegisterType::u64: {
      const auto bits = static_cast<std::uint64_t>(ir::decode_int(dtype, bytes));
      return wide_value(dtype, code("uvec2(0x{:08x}u, 0x{:08x}u)", bits & 0xffffffffu, bits >> 32), dialect);
    }
  }
  throw InternalError("a literal of an unknown thread");
}

}  // namespace vkfuse::lowering

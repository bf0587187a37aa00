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

std::string call(std::string_view function, const std::string& argument) {
  return fmt::format("{}({})", function, argument);
}

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
std::string word_values(DType dtype, const Dialect& dialect) {
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

std::string word_bits(DType dtype, const Dialect& dialect) {
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
std::string wide_value(DType dtype, const std::string& low_high, const Dialect& dialect) {
  if (dtype == DType::f64) return call("packDouble2x32", low_high);
  if (!dialect.native_int64) return low_high;
  return dtype == DType::i64 ? fmt::format("int64_t(packUint2x32({}))", low_high) : call("packUint2x32", low_high);
}

std::string wide_bits(DType dtype, const std::string& value, const Dialect& dialect) {
  if (dtype == DType::f64) return call("unpackDouble2x32", value);
  if (!dialect.native_int64) return value;
  return fmt::format("unpackUint2x32({})", dtype == DType::i64 ? call("uint64_t", value) : value);
}

}  // namespace

Dialect dialect_of(const Target& target) {
  return {target.caps.arithmetic.int64, target.has(FeatureTier::float16) && target.caps.arithmetic.float16,
          target.caps.float_controls.exp_of_nan};
}

std::string group_type(RegisterType register_type, int count, const Dialect& dialect) {
  if (is_pair(register_type, dialect)) return count == 1 ? "uvec2" : fmt::format("uvec2[{}]", count);
  if (count == 1) return std::string(ops::glsl_type(register_type, dialect.native_int64));
  return fmt::format("{}{}", vector_prefix(register_type), count);
}

std::string element_of(const std::string& group, int index, int count) {
  return count == 1 ? group : fmt::format("{}[{}]", group, index);
}

std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

std::string join_words(std::span<const std::string> words) {
  if (words.size() == 1) return words.front();
  return fmt::format("uvec{}({})", words.size(), fmt::join(words, ", "));
}

std::string unpack(DType dtype, int count, std::span<const std::string> words, const Dialect& dialect, bool joined) {
  const RegisterType register_type = ops::register_type_of(dtype);
  const std::string type = group_type(register_type, count, dialect);
  if (size_of(dtype) == 8) {
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) {
      values.push_back(wide_value(dtype, fmt::format("uvec2({}, {})", words[2 * i], words[2 * i + 1]), dialect));
    }
    return count == 1 ? values.front() : fmt::format("{}({})", type, fmt::join(values, ", "));
  }
  const std::string split = word_values(dtype, dialect);
  if (!split.empty()) {
    const int per_word = 4 / size_of(dtype);
    std::vector<std::string> parts;
    for (int i = 0; i < count / per_word; ++i) {
      const bool component = joined && count > per_word;
      parts.push_back(call(split, component ? fmt::format("{}.{}", words[0], "xyzw"[i])
                                            : words[static_cast<std::size_t>(joined ? 0 : i)]));
    }
    return parts.size() == 1 ? parts.front() : fmt::format("{}({})", type, fmt::join(parts, ", "));
  }
  const std::string vector = joined ? words.front() : join_words(words);
  if (dtype == DType::f32) return call("uintBitsToFloat", vector);
  return dtype == DType::i32 ? call(type, vector) : vector;
}

std::string pack_group(DType dtype, int count, const std::string& group) {
  if (dtype == DType::f32) return call("floatBitsToUint", group);
  if (dtype == DType::u32) return group;
  return call(count == 1 ? "uint" : fmt::format("uvec{}", count), group);
}

std::vector<std::string> pack(DType dtype, int count, const std::string& group, const Dialect& dialect) {
  std::vector<std::string> words;
  if (size_of(dtype) == 8) {
    for (int i = 0; i < count; ++i) {
      const std::string bits = wide_bits(dtype, element_of(group, i, count), dialect);
      words.push_back(bits + ".x");
      words.push_back(bits + ".y");
    }
    return words;
  }
  const std::string join = word_bits(dtype, dialect);
  if (!join.empty()) {
    const int per_word = 4 / size_of(dtype);
    if (count == per_word) return {call(join, group)};
    for (int i = 0; i < count; i += per_word) words.push_back(call(join, group + (i == 0 ? ".xy" : ".zw")));
    return words;
  }
  for (int i = 0; i < count; ++i) {
    const std::string value = element_of(group, i, count);
    words.push_back(dtype == DType::f32 ? call("floatBitsToUint", value) : call("uint", value));
  }
  return words;
}

namespace {

std::string parenthesised(const std::string& text) {
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

}  // namespace

std::string load_word(const std::string& block, int block_bytes, const std::string& index) {
  if (block_bytes == 4) return fmt::format("{}.w[{}]", block, index);
  const std::string at = parenthesised(index);
  return block_bytes == 8 ? fmt::format("{}.w[{} >> 1][{} & 1u]", block, at, at)
                          : fmt::format("{}.w[{} >> 2][{} & 3u]", block, at, at);
}

std::string load_bits(DType dtype, const std::string& block, int block_bytes, const std::string& at) {
  const int size = size_of(dtype);
  const std::string i = parenthesised(at);
  if (size == 8) {
    if (block_bytes == 8) return fmt::format("{}.w[{}]", block, at);
    return fmt::format("uvec2({0}.w[{1} >> 1][({1} & 1u) * 2u], {0}.w[{1} >> 1][({1} & 1u) * 2u + 1u])", block, i);
  }
  if (size == 4) return load_word(block, block_bytes, at);
  const std::string word = load_word(block, block_bytes, fmt::format("({} >> {})", i, size == 2 ? 1 : 2));
  return fmt::format("({} >> (({} & {}u) * {}u)) & 0x{:x}u", word, i, 4 / size - 1, 8 * size, (1u << (8 * size)) - 1);
}

std::string lowest_element(DType dtype, const std::string& word, const Dialect& dialect) {
  switch (size_of(dtype)) {
    case 8: return wide_value(dtype, word, dialect);
    case 4: return dtype == DType::f32 ? call("uintBitsToFloat", word) : dtype == DType::i32 ? call("int", word) : word;
    default: return fmt::format("{}({})[0]", word_values(dtype, dialect), word);
  }
}

std::string load_element(DType dtype, const std::string& block, int block_bytes, const std::string& at,
                         const Dialect& dialect) {
  const int size = size_of(dtype);
  if (size >= 4) return lowest_element(dtype, load_bits(dtype, block, block_bytes, at), dialect);
  if (at == "0u") return lowest_element(dtype, load_word(block, block_bytes, "0u"), dialect);
  const std::string i = parenthesised(at);
  const std::string word = load_word(block, block_bytes, fmt::format("{} >> {}", i, size == 2 ? 1 : 2));
  return fmt::format("{}({})[{} & {}u]", word_values(dtype, dialect), word, i, 4 / size - 1);
}

std::string element_bits(DType dtype, const std::string& value, const Dialect& dialect) {
  const int per_word = size_of(dtype) >= 4 ? 1 : 4 / size_of(dtype);
  if (per_word == 1) return pack(dtype, 1, value, dialect).front();
  // All elements of the word are this one: the caller masks.
  const std::string type = group_type(ops::register_type_of(dtype), per_word, dialect);
  return pack(dtype, per_word, fmt::format("{}({})", type, value), dialect).front();
}

std::string literal(DType dtype, const std::byte* bytes, const Dialect& dialect) {
  switch (ops::register_type_of(dtype)) {
    case RegisterType::f32: {
      const float value = static_cast<float>(ir::decode(dtype, bytes));
      const bool plain = std::isfinite(value) && (value == 0.0F ? !std::signbit(value) : std::isnormal(value));
      if (!plain) return fmt::format("uintBitsToFloat(0x{:08x}u)", std::bit_cast<std::uint32_t>(value));
      std::string text = fmt::format("{}", value);
      if (text.find_first_of(".e") == std::string::npos) text += ".0";
      return text;
    }
    case RegisterType::f64: {
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes, 8);
      return fmt::format("packDouble2x32(uvec2(0x{:08x}u, 0x{:08x}u))", bits & 0xffffffffu, bits >> 32);
    }
    case RegisterType::i32: {
      const std::int64_t value = ir::decode_int(dtype, bytes);
      return value < 0 ? fmt::format("int(0x{:08x}u)", static_cast<std::uint32_t>(value)) : fmt::format("{}", value);
    }
    case RegisterType::u32: return fmt::format("{}u", ir::decode_int(dtype, bytes));
    case RegisterType::boolean: return ir::decode_int(dtype, bytes) != 0 ? "true" : "false";
    case RegisterType::i64:
    case RegisterType::u64: {
      const auto bits = static_cast<std::uint64_t>(ir::decode_int(dtype, bytes));
      return wide_value(dtype, fmt::format("uvec2(0x{:08x}u, 0x{:08x}u)", bits & 0xffffffffu, bits >> 32), dialect);
    }
  }
  throw InternalError("a literal of an unknown thread");
}

}  // namespace vkfuse::lowering

// From rows to GLSL expressions: substitution, conversion between registers, narrowing.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ops/op.hpp"
#include "ops/pattern.hpp"

namespace vkfuse::ops {
namespace {

/// A lane as the generated code holds it: 64-bit integers natively or as pairs of words.
enum Register : std::uint8_t { kF32, kI32, kU32, kBoolean, kI64, kU64, kF64, kI64Pair, kU64Pair, kRegisterCount };

Register register_of(DType dtype, bool native_int64) {
  const RegisterType register_type = register_type_of(dtype);
  if (!native_int64 && register_type == RegisterType::i64) return kI64Pair;
  if (!native_int64 && register_type == RegisterType::u64) return kU64Pair;
  return static_cast<Register>(register_type);
}

std::string_view register_type_name(RegisterType register_type) {
  constexpr std::string_view names[kRegisterTypeCount] = {"f32", "i32", "u32", "bool", "i64", "u64", "f64"};
  return names[static_cast<int>(register_type)];
}

std::string_view text_for(const Glsl& glsl, Register target) {
  switch (target) {
    case kF32: return glsl.f32;
    case kI32: return glsl.i32;
    case kU32: return glsl.u32;
    case kBoolean: return glsl.boolean;
    case kI64: return glsl.i64;
    case kU64: return glsl.u64;
    case kF64: return glsl.f64;
    default: return glsl.pair64;
  }
}

/// What may stand beside an operator: a name, a literal without a sign, a call, a member or element.
bool is_primary(std::string_view text) {
  return text.find(' ') == std::string_view::npos && text.find_first_of("-!~") != 0;
}

std::string substitute(std::string_view pattern, std::string_view register_type, int width,
                       std::span<const std::string> operands) {
  std::string text;
  const auto add_operand = [&](std::size_t index, bool alone) {
    check(index < operands.size(), "a GLSL pattern names an operand that the op does not have");
    text += alone || is_primary(operands[index]) ? operands[index] : "(" + operands[index] + ")";
  };
  each_piece(
      pattern,
      [&](std::string_view piece) {
        if (piece == "{s}")
          text += register_type;
        else if (piece == "{w}")
          text += std::to_string(width - 1);
        else
          text += piece;
      },
      add_operand);
  return text;
}

std::string instantiate(std::string_view pattern, const std::string& operand) {
  return substitute(pattern, "", 0, std::span<const std::string>(&operand, 1));
}

// Rows convert from, columns to; empty between native 64-bit integers and pairs, which never meet.
// clang-format off
constexpr std::string_view kCasts[kRegisterCount][kRegisterCount] = {
    // to f32, i32, u32, bool, i64, u64, f64, i64 pair, u64 pair
    /* f32 */ {"{0}", "f32_to_i32({0})", "f32_to_u32({0})", "f32_to_bool({0})", "f32_to_i64({0})", "f32_to_u64({0})",
               "double({0})", "f32_to_i64p({0})", "f32_to_u64p({0})"},
    /* i32 */ {"float({0})", "{0}", "uint({0})", "{0} != 0", "int64_t({0})", "uint64_t(int64_t({0}))", "double({0})",
               "pair_from_i32({0})", "pair_from_i32({0})"},
    /* u32 */ {"float({0})", "int({0})", "{0}", "{0} != 0u", "int64_t({0})", "uint64_t({0})", "double({0})",
               "uvec2({0}, 0u)", "uvec2({0}, 0u)"},
    /* bool */ {"float({0})", "int({0})", "uint({0})", "{0}", "int64_t({0})", "uint64_t({0})", "double({0})",
                "uvec2({0}, 0u)", "uvec2({0}, 0u)"},
    /* i64 */ {"float({0})", "int({0})", "uint({0})", "{0} != 0", "{0}", "uint64_t({0})", "double({0})", "", ""},
    /* u64 */ {"float({0})", "int({0})", "uint({0})", "{0} != 0", "int64_t({0})", "{0}", "double({0})", "", ""},
    /* f64 */ {"float({0})", "f64_to_i32({0})", "f64_to_u32({0})", "f64_to_bool({0})", "f64_to_i64({0})",
               "f64_to_u64({0})", "{0}", "f64_to_i64p({0})", "f64_to_u64p({0})"},
    /* i64 pair */ {"i64p_to_f32({0})", "int({0}.x)", "{0}.x", "{0} != uvec2(0u)", "", "", "i64p_to_f64({0})",
                    "{0}", "{0}"},
    /* u64 pair */ {"u64p_to_f32({0})", "int({0}.x)", "{0}.x", "{0} != uvec2(0u)", "", "", "u64p_to_f64({0})",
                    "{0}", "{0}"},
};
// clang-format on

/// Limits an i32 or u32 register to the range of a narrower dtype.
std::string saturated(DType to, const std::string& operand) {
  switch (to) {
    case DType::i8: return "clamp(" + operand + ", -128, 127)";
    case DType::i16: return "clamp(" + operand + ", -32768, 32767)";
    case DType::u8: return "min(" + operand + ", 255u)";
    case DType::u16: return "min(" + operand + ", 65535u)";
    default: return operand;
  }
}

/// True where every value of `from` is one of `to`.
bool embeds(DType from, DType to) {
  if (from == DType::boolean) return true;
  if (is_float(to)) return from == to || to == DType::f32 || to == DType::f64;
  if (is_signed_integer(from) && !is_signed_integer(to)) return false;
  const int spare = is_signed_integer(to) && !is_signed_integer(from) ? 1 : 0;
  return size_of(from) + spare <= size_of(to);
}

/// The bits of a 16- or 32-bit register as a uint; for 8 and 16 bits the high bits are whatever.
std::string_view bits_pattern(DType dtype) {
  switch (dtype) {
    case DType::f32: return "floatBitsToUint({0})";
    case DType::f16: return "f16_bits({0})";
    case DType::bf16: return "bf16_bits({0})";
    default: return register_type_of(dtype) == RegisterType::i32 ? "uint({0})" : "{0}";
  }
}

std::string_view value_pattern(DType dtype) {
  switch (dtype) {
    case DType::f32: return "uintBitsToFloat({0})";
    case DType::f16: return "f16_value({0} & 0xffffu)";
    case DType::bf16: return "bf16_value({0} & 0xffffu)";
    default: return register_type_of(dtype) == RegisterType::i32 ? "int({0})" : "{0}";
  }
}

std::string bitcast_64(DType from, DType to, bool native_int64, const std::string& operand) {
  if (from == DType::f64) {
    if (!native_int64) return instantiate("unpackDouble2x32({0})", operand);
    return instantiate(to == DType::i64 ? "doubleBitsToInt64({0})" : "doubleBitsToUint64({0})", operand);
  }
  if (to == DType::f64) {
    if (!native_int64) return instantiate("packDouble2x32({0})", operand);
    return instantiate(from == DType::i64 ? "int64BitsToDouble({0})" : "uint64BitsToDouble({0})", operand);
  }
  return cast_expression(from, to, native_int64, operand);
}

}  // namespace

std::string_view glsl_type(RegisterType register_type, bool native_int64) {
  switch (register_type) {
    case RegisterType::f32: return "float";
    case RegisterType::i32: return "int";
    case RegisterType::u32: return "uint";
    case RegisterType::boolean: return "bool";
    case RegisterType::i64: return native_int64 ? "int64_t" : "uvec2";
    case RegisterType::u64: return native_int64 ? "uint64_t" : "uvec2";
    case RegisterType::f64: return "double";
  }
  return "float";
}

std::string expression(const OpRow& row, DType dtype, Native native, std::span<const std::string> operands) {
  const bool half = (dtype == DType::f16 || dtype == DType::bf16) && !row.glsl.half.empty();
  std::string_view pattern = half ? row.glsl.half : text_for(row.glsl, register_of(dtype, native.int64));
  const std::string_view plain = half                                           ? row.glsl.native_half
                                 : register_type_of(dtype) == RegisterType::f32 ? row.glsl.native_f32
                                                                                : std::string_view();
  if (native.exp_of_nan && !plain.empty()) pattern = plain;
  if (half && native.few_exponentials && !row.glsl.arithmetic_half.empty()) pattern = row.glsl.arithmetic_half;
  return substitute(pattern, register_type_name(register_type_of(dtype)), 8 * size_of(dtype), operands);
}

double own_error(const OpRow& row, DType dtype, const double* x, double y) {
  if (row.own_error == nullptr) return 0;
  const double full = row.own_error(x, y, dtype == DType::f64 ? 0x1p-52 : 0x1p-23);
  const bool half = (dtype == DType::f16 || dtype == DType::bf16) && !row.glsl.half.empty() && std::isfinite(y);
  return half ? std::max(full, std::abs(y) * kHalfError) : full;
}

std::string cast_expression(DType from, DType to, bool native_int64, const std::string& operand) {
  if (from == DType::f64 && (to == DType::f16 || to == DType::bf16)) {
    return narrow(to, instantiate("f64_to_f32_odd({0})", operand));  // rounded once, not twice
  }
  const std::string converted =
      instantiate(kCasts[register_of(from, native_int64)][register_of(to, native_int64)], operand);
  if (is_float(from) && is_integer(to)) return saturated(to, converted);
  return embeds(from, to) ? converted : narrow(to, converted);
}

std::string bitcast_expression(DType from, DType to, bool native_int64, const std::string& operand) {
  check(size_of(from) == size_of(to), "a bitcast must keep the size of the element");
  if (from == to) return operand;
  if (size_of(from) == 8) return bitcast_64(from, to, native_int64, operand);
  return narrow(is_integer(to) ? to : DType::f32,
                instantiate(value_pattern(to), instantiate(bits_pattern(from), operand)));
}

std::string narrow(DType dtype, const std::string& operand) {
  switch (dtype) {
    case DType::i8:
    case DType::u8: return "bitfieldExtract(" + operand + ", 0, 8)";
    case DType::i16:
    case DType::u16: return "bitfieldExtract(" + operand + ", 0, 16)";
    case DType::f16: return "f16_round(" + operand + ")";
    case DType::bf16: return "bf16_round(" + operand + ")";
    default: return operand;
  }
}

}  // namespace vkfuse::ops

// Rows of the logic of booleans and the bits of integers.
#include "ops/rows.hpp"

namespace vkfuse::ops {
namespace {

/// Shifts are modulo the width of the dtype.
unsigned shift_amount(std::int64_t amount, DType dtype) {
  return static_cast<unsigned>(as_unsigned(amount) % (8u * static_cast<unsigned>(size_of(dtype))));
}

std::int64_t shift_left(Integers x, DType dtype) { return as_signed(as_unsigned(x[0]) << shift_amount(x[1], dtype)); }

std::int64_t shift_right(Integers x, DType dtype) {
  const unsigned amount = shift_amount(x[1], dtype);
  return is_unsigned(dtype) ? as_signed(as_unsigned(x[0]) >> amount) : x[0] >> amount;
}

// A row is a paragraph.
// clang-format off
constexpr OpRow kRows[] = {
    {.name = "and", .role = Role::logical_and, .arity = 2, .types = kBool, .glsl = {.boolean = "{0} && {1}"},
     .integer = [](Integers x, DType) { return x[0] & x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true,
     .doc = "Both."},
    {.name = "or", .role = Role::logical_or, .arity = 2, .types = kBool, .glsl = {.boolean = "{0} || {1}"},
     .integer = [](Integers x, DType) { return x[0] | x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true,
     .doc = "Either."},
    {.name = "xor", .arity = 2, .types = kBool, .glsl = {.boolean = "{0} != {1}"},
     .integer = [](Integers x, DType) { return x[0] ^ x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true,
     .doc = "Exactly one."},
    {.name = "not", .role = Role::logical_not, .types = kBool, .glsl = {.boolean = "!{0}"},
     .integer = [](Integers x, DType) { return x[0] ^ 1; }, .propagation = ErrorPropagation::exact,
     .doc = "Negation."},
    {.name = "bit_and", .role = Role::bit_and, .arity = 2, .types = kIntegers,
     .glsl = on_integers("{0} & {1}", "{0} & {1}"),
     .integer = [](Integers x, DType) { return x[0] & x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true, .cost = 2,
     .doc = "Bits set in both."},
    {.name = "bit_or", .role = Role::bit_or, .arity = 2, .types = kIntegers,
     .glsl = on_integers("{0} | {1}", "{0} | {1}"),
     .integer = [](Integers x, DType) { return x[0] | x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true, .cost = 2,
     .doc = "Bits set in either."},
    {.name = "bit_xor", .role = Role::bit_xor, .arity = 2, .types = kIntegers,
     .glsl = on_integers("{0} ^ {1}", "{0} ^ {1}"),
     .integer = [](Integers x, DType) { return x[0] ^ x[1]; }, .propagation = ErrorPropagation::exact,
     .commutative = true, .cost = 2,
     .doc = "Bits set in exactly one."},
    {.name = "bit_not", .types = kIntegers, .glsl = on_integers("~{0}", "~{0}"),
     .integer = [](Integers x, DType) { return ~x[0]; }, .propagation = ErrorPropagation::exact,
     .doc = "Bits not set."},
    {.name = "shift_left", .arity = 2, .types = kIntegers,
     .glsl = {.i32 = "{0} << ({1} & {w})", .u32 = "{0} << ({1} & {w}u)", .i64 = "{0} << (int({1}) & {w})",
              .u64 = "{0} << (int({1}) & {w})", .pair64 = "pair_shift_left({0}, {1})"},
     .integer = shift_left, .propagation = ErrorPropagation::exact, .cost = 2,
     .doc = "x shifted left by y modulo the width."},
    {.name = "shift_right", .role = Role::shift_right, .arity = 2, .types = kIntegers,
     .glsl = {.i32 = "{0} >> ({1} & {w})", .u32 = "{0} >> ({1} & {w}u)", .i64 = "{0} >> (int({1}) & {w})",
              .u64 = "{0} >> (int({1}) & {w})", .pair64 = "{s}p_shift_right({0}, {1})"},
     .integer = shift_right, .propagation = ErrorPropagation::exact, .cost = 2,
     .doc = "x shifted right by y modulo the width; signed integers keep their sign."},
};
// clang-format on

}  // namespace

std::span<const OpRow> bit_and_logic_rows() { return kRows; }

}  // namespace vkfuse::ops

#include "schedule/sub_byte.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/mutations.hpp"
#include "ops/float_formats.hpp"
#include "schedule/operands.hpp"

namespace vkfuse::schedule {

namespace {

using segment::Loops;
using segment::Value;
using segment::ValueId;

constexpr std::int64_t kMostOffset = std::int64_t{1} << 20;  // what is added to a float of few bits stays exact

bool is_small_integer(DType type) { return is_integer(type) && size_of(type) <= 4; }

bool holds(DType type, std::int64_t low, std::int64_t high) {
  const int bits = 8 * size_of(type);
  const bool negative = type == DType::i8 || type == DType::i16 || type == DType::i32;
  return negative ? low >= -(std::int64_t{1} << (bits - 1)) && high < (std::int64_t{1} << (bits - 1))
                  : low >= 0 && high < (std::int64_t{1} << bits);
}

std::optional<std::int64_t> constant_of(const ir::Graph& graph, const Value& value) {
  const ir::Node& node = graph.node(value.node);
  const auto* constant = value.kind == Value::Kind::literal ? std::get_if<ir::ConstantPayload>(&node.payload) : nullptr;
  if (constant == nullptr || !is_small_integer(node.type.dtype)) return std::nullopt;
  return ir::decode_int(node.type.dtype, constant->bytes->data());
}

// One op with a constant, after those that `field` has been through; false where the result is no field any more.

bool mask_field(SubByteField& field, std::int64_t number) {
  if (field.offset != 0 || field.flip != 0 || number < 0) return false;
  field.mask &= static_cast<std::uint32_t>(number);
  return true;
}

bool flip_field(SubByteField& field, std::int64_t number) {
  if (field.offset != 0 || number < 0 || number > 0xff) return false;
  field.flip ^= static_cast<std::uint32_t>(number);
  return true;
}

bool add_to_field(SubByteField& field, std::int64_t number) {
  if (std::abs(number) >= kMostOffset) return false;
  field.offset += number;
  return true;
}

bool subtract_from_field(SubByteField& field, std::int64_t number) { return add_to_field(field, -number); }

struct FieldOp {
  ops::Role role;
  bool (*apply)(SubByteField& field, std::int64_t number);
};
constexpr FieldOp kFieldOps[] = {
    {ops::Role::bit_and, mask_field},
    {ops::Role::bit_xor, flip_field},
    {ops::Role::add, add_to_field},
    {ops::Role::sub, subtract_from_field},
};

/// The same of any op: shifts are by a value.
bool apply_op(const ir::Graph& graph, const Loops& loops, const Value& value, SubByteField& field) {
  const ops::Role op = ops::element_row(*graph.node(value.node).op).role;
  if (op == ops::Role::cast) return true;
  if (value.operands.size() != 2) return false;
  if (op == ops::Role::shift_right) {
    const bool is_byte = field.offset == 0 && field.flip == 0 && field.mask == 0xff && !field.shift;
    if (is_byte) field.shift = value.operands[1];
    return is_byte;
  }
  const auto* const row =
      std::find_if(std::begin(kFieldOps), std::end(kFieldOps), [&](const FieldOp& one) { return one.role == op; });
  if (row == std::end(kFieldOps)) return false;
  const std::optional<std::int64_t> number = constant_of(graph, loops.values[value.operands[1]]);
  return number && row->apply(field, *number);
}

}  // namespace

std::optional<SubByteField> sub_byte_field_of(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  const DType type = graph.node(value.node).type.dtype;
  if (!is_small_integer(type)) return std::nullopt;
  if (value.kind == Value::Kind::load) {
    SubByteField field;
    field.load = id;
    return type == DType::u8 ? std::optional(field) : std::nullopt;
  }
  if (value.kind != Value::Kind::compute) return std::nullopt;
  std::optional<SubByteField> field = sub_byte_field_of(graph, loops, value.operands[0]);
  if (!field || !apply_op(graph, loops, value, *field)) return std::nullopt;
  const bool fits =
      std::abs(field->offset) < kMostOffset && holds(type, field->offset, field->offset + (field->mask | field->flip));
  return fits ? field : std::nullopt;
}

std::int64_t most_whole(DType type) {
  return type == DType::f16 ? 2048 : type == DType::bf16 ? 256 : type == DType::f32 ? std::int64_t{1} << 24 : 0;
}

namespace {

/// A whole number that a literal is.
std::optional<std::int64_t> whole_number_of(const ir::Graph& graph, const Value& value) {
  const auto number = number_of(graph, value);
  if (!number || *number != std::floor(*number) || std::abs(*number) >= static_cast<double>(kMostOffset))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// The difference or the sum of a number of few bits and a literal.
std::optional<SubByteField> shifted_number(const ir::Graph& graph, const Loops& loops, const Value& value) {
  const ops::Role op = ops::element_row(*graph.node(value.node).op).role;
  if ((op != ops::Role::add && op != ops::Role::sub) || value.operands.size() != 2) return std::nullopt;
  for (const std::size_t side : {0u, 1u}) {
    const auto number = whole_number_of(graph, loops.values[value.operands[1 - side]]);
    if (!number || (op == ops::Role::sub && side == 1)) continue;
    auto field = sub_byte_number_of(graph, loops, value.operands[side]);
    const std::int64_t added = op == ops::Role::sub ? -*number : *number;
    if (field && add_to_field(*field, VKF_PLANT(float_zero_point_lost, added, 0))) return field;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SubByteField> sub_byte_number_of(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  const DType type = graph.node(value.node).type.dtype;
  if (value.kind != Value::Kind::compute || !is_float(type)) return std::nullopt;
  std::optional<SubByteField> field;
  if (ops::element_row(*graph.node(value.node).op).role == ops::Role::cast) {
    const bool of_float = is_float(graph.node(loops.values[value.operands[0]].node).type.dtype);
    field = of_float ? sub_byte_number_of(graph, loops, value.operands[0])
                     : sub_byte_field_of(graph, loops, value.operands[0]);
  } else {
    field = shifted_number(graph, loops, value);
  }
  const bool fits = field && std::abs(field->offset) < kMostOffset && field->offset >= -most_whole(type) &&
                    field->offset + static_cast<std::int64_t>(field->mask | field->flip) <= most_whole(type);
  return fits ? field : std::nullopt;
}

namespace {

/// A signed byte that is loaded: a byte whose sign is flipped, less 128.
std::optional<PackedNumber> signed_byte_of(const ir::Graph& graph, const Loops& loops, const Value& cast) {
  const Value& load = loops.values[cast.operands[0]];
  if (load.kind != Value::Kind::load || graph.node(load.node).type.dtype != DType::i8) return std::nullopt;
  return PackedNumber{cast.operands[0], {.bits = 8, .flip = 0x80, .offset = -128}, std::nullopt};
}

/// Bits of a byte as a code of `bits`; nothing where some of these are missing.
std::optional<PackedNumber> number_of_field(const SubByteField& field, ops::PackedCode code, int bits) {
  const std::uint32_t needed = (1u << bits) - 1;
  if ((field.mask & needed) != needed || (field.shift && bits != 4)) return std::nullopt;
  code.bits = field.shift ? 4 : 8;
  return PackedNumber{field.load, code, field.shift};
}

/// The number of a float's code, whose bits are in the low ones of an integer.
std::optional<PackedNumber> float_of_code(const ir::Graph& graph, const Loops& loops, ValueId bits_of_float) {
  const Value& decoded = loops.values[bits_of_float];
  if (decoded.kind != Value::Kind::compute) return std::nullopt;
  const ops::FloatFormatRow* const format = ops::format_decoded_by(*graph.node(decoded.node).op);
  if (format == nullptr || format->power_of_two || !format->negative_zero) return std::nullopt;
  const auto field = sub_byte_field_of(graph, loops, decoded.operands[0]);
  if (!field || field->flip != 0 || field->offset != 0) return std::nullopt;
  return number_of_field(*field, {.format = format->format}, format->bits());
}

std::optional<PackedNumber> whole_number_of_bits(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const auto field = sub_byte_number_of(graph, loops, id);
  if (!field || field->mask != (field->shift ? 15u : 0xffu)) return std::nullopt;
  return number_of_field(*field, {.flip = field->flip, .offset = field->offset}, field->shift ? 4 : 8);
}

}  // namespace

std::optional<PackedNumber> packed_number_of(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  if (value.kind != Value::Kind::compute || !is_float(graph.node(value.node).type.dtype)) return std::nullopt;
  const ops::Role role = ops::element_row(*graph.node(value.node).op).role;
  if (role == ops::Role::bitcast) return float_of_code(graph, loops, value.operands[0]);
  if (role == ops::Role::cast) {
    if (auto number = signed_byte_of(graph, loops, value)) return number;
    const Value& operand = loops.values[value.operands[0]];
    const bool of_float = operand.kind == Value::Kind::compute && is_float(graph.node(operand.node).type.dtype);
    // Floats of 8 bits and fewer are exact in f16.
    if (of_float && graph.node(value.node).type.dtype == DType::f16) {
      auto number = packed_number_of(graph, loops, value.operands[0]);
      if (number && number->code.format) return number;
    }
  }
  return whole_number_of_bits(graph, loops, id);
}

std::optional<std::int64_t> number_at(
    const ir::Graph& graph, const Loops& loops, ValueId id,
    const std::function<std::optional<std::int64_t>(const index::Expr& offset)>& position) {
  const Value& value = loops.values[id];
  const DType type = graph.node(value.node).type.dtype;
  if (!is_small_integer(type)) return std::nullopt;
  std::optional<std::int64_t> number = constant_of(graph, value);
  if (value.kind == Value::Kind::position && !std::holds_alternative<ir::RandomPayload>(graph.node(value.node).payload))
    number = position(value.offset);
  if (value.kind == Value::Kind::compute) {
    std::vector<std::int64_t> operands;
    for (ValueId operand : value.operands) {
      const auto known = number_at(graph, loops, operand, position);
      if (!known) return std::nullopt;
      operands.push_back(*known);
    }
    const ops::Role op = ops::element_row(*graph.node(value.node).op).role;
    std::int64_t product = 0;
    if (op == ops::Role::cast) number = operands[0];
    if (op == ops::Role::add) number = operands[0] + operands[1];
    if (op == ops::Role::sub) number = operands[0] - operands[1];
    if (op == ops::Role::mul && !__builtin_mul_overflow(operands[0], operands[1], &product)) number = product;
  }
  return number && holds(type, *number, *number) ? number : std::nullopt;
}

}  // namespace vkfuse::schedule

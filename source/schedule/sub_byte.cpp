#include "schedule/sub_byte.hpp"

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

}  // namespace

std::optional<SubByteField> sub_byte_field_of(const ir::Graph& graph, const Loops& loops, ValueId id) {
  const Value& value = loops.values[id];
  const DType type = graph.node(value.node).type.dtype;
  if (!is_small_integer(type)) return std::nullopt;
  SubByteField field;
  field.load = id;
  if (value.kind == Value::Kind::load)
    return type == DType::u8 && value.data.empty() ? std::optional(field) : std::nullopt;
  if (value.kind != Value::Kind::compute) return std::nullopt;
  const std::string_view op = ops::element_row(*graph.node(value.node).op).name;
  const auto below = sub_byte_field_of(graph, loops, value.operands[0]);
  if (!below) return std::nullopt;
  field = *below;
  const bool raw = field.offset == 0, plain = raw && field.flip == 0;
  const std::optional<std::int64_t> second =
      value.operands.size() == 2 ? constant_of(graph, loops.values[value.operands[1]]) : std::nullopt;
  const bool known = second.has_value();
  const std::int64_t number = second.value_or(0);
  if (op == "shift_right" && plain && field.mask == 0xff && !field.shift) {
    field.shift = value.operands[1];
  } else if (op == "bit_and" && plain && known && number >= 0) {
    field.mask &= static_cast<std::uint32_t>(number);
  } else if (op == "bit_xor" && raw && known && number >= 0 && number <= 0xff) {
    field.flip ^= static_cast<std::uint32_t>(number);
  } else if ((op == "add" || op == "sub") && known && std::abs(number) < kMostOffset) {
    field.offset += op == "add" ? number : -number;
  } else if (op != "cast") {
    return std::nullopt;
  }
  const bool fits =
      std::abs(field.offset) < kMostOffset && holds(type, field.offset, field.offset + (field.mask | field.flip));
  return fits ? std::optional(field) : std::nullopt;
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
    const std::string_view op = ops::element_row(*graph.node(value.node).op).name;
    std::int64_t product = 0;
    if (op == "cast") number = operands[0];
    if (op == "add") number = operands[0] + operands[1];
    if (op == "sub") number = operands[0] - operands[1];
    if (op == "mul" && !__builtin_mul_overflow(operands[0], operands[1], &product)) number = product;
  }
  return number && holds(type, *number, *number) ? number : std::nullopt;
}

}  // namespace vkfuse::schedule

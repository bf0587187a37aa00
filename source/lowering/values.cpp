// The lines that compute one scalar of the body.
#include <algorithm>
#include <cmath>

#include "base/mutations.hpp"
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

namespace {

/// A float that the driver must not know: its bits are joined with a bit of a push constant that is never
/// set. What drivers compute from constants differs from what their devices do.
Code hidden(DType type, const Code& text, const Code& bit) {
  if (type == DType::f64) return code("packDouble2x32(unpackDouble2x32({}) | uvec2(0u, {}))", text, bit);
  return code("uintBitsToFloat(floatBitsToUint({}) | {})", text, bit);
}

/// What a reduction starts from, in its accumulator's type.
Code identity_text(DType type, double identity, const Dialect& dialect) {
  if (type == DType::boolean) return identity != 0 ? "true" : "false";
  if (is_float(type)) {
    const DType register_type = type == DType::f64 ? DType::f64 : DType::f32;
    return literal(register_type, ir::encode_scalar(register_type, identity)->data(), dialect);
  }
  std::vector<std::byte> bytes;
  if (identity == 0 || identity == 1) {
    ir::encode_int(type, static_cast<std::int64_t>(identity), bytes);
  } else {
    ir::encode(type, identity, bytes);  // saturates at the ends of the dtype
  }
  return literal(type, bytes.data(), dialect);
}

}  // namespace

Code reduction_identity(const ir::Graph& graph, const ir::Node& node, const Dialect& dialect) {
  return identity_text(graph.node(node.operands[0]).type.dtype,
                       VKF_PLANT(identity_of_max, node.op->reduction.identity,
                                 std::isinf(node.op->reduction.identity) ? 0.0 : node.op->reduction.identity),
                       dialect);
}

Code Emitter::literal_text(ValueId id) const {
  const ir::NodeId node = loops_.values[id].node;
  const auto* constant = std::get_if<ir::ConstantPayload>(&graph_.node(node).payload);
  if (constant == nullptr) {
    if (graph_.node(node).op->reduction.kind == ops::Reduction::Kind::arg) return "0";  // of nothing: no element has it
    if (graph_.node(node).op->reduction.kind == ops::Reduction::Kind::mean) return "uintBitsToFloat(0x7fc00000u)";
    return reduction_identity(graph_, graph_.node(node), dialect_);
  }
  const std::byte* bytes = constant->bytes->data();
  const Code text = literal(dtype(node), bytes, dialect_);
  return is_hidden_zero(id) ? hidden(dtype(node), text, nan_.barrier) : text;
}

/// Whether a literal is a zero that drivers must not know.
bool Emitter::is_hidden_zero(ValueId id) const {
  const ir::NodeId node = loops_.values[id].node;
  const auto* constant = std::get_if<ir::ConstantPayload>(&graph_.node(node).payload);
  return constant != nullptr && nan_.hides_zeros && is_float(dtype(node)) &&
         ir::decode(dtype(node), constant->bytes->data()) == 0;
}

Code Emitter::use(const Scope& scope, ValueId id) const {
  if (is_literal(id)) return literal_text(id);
  const auto found = scope.names.find(id);
  check(found != scope.names.end(), "a value is emitted before it is used");
  return found->second;
}

Result<void> Emitter::emit_values(Scope& scope, const std::vector<ValueId>& ids) {
  for (ValueId id : ids) VKF_CHECK_OK(emit_value(scope, id));
  return {};
}

namespace {

/// The T of the op's signature.
DType operand_dtype(const ir::Graph& graph, const ir::Node& node) {
  return graph.node(node.operands.back()).type.dtype;
}

}  // namespace

Code Emitter::random_text(Scope& scope, const Value& value, std::uint64_t seed) {
  // The block's number as an expression of its own: four neighbours of a chunk are seen to share it.
  const Code block = position(scope, index::floor_div(value.offset, 4));
  const Code word = position(scope, index::floor_mod(value.offset, 4));
  return code("philox4(uvec2({}u, {}u), uvec2({}, 0u))[{}]", VKF_PLANT(seed_of_random, seed, seed + 1) & 0xffffffffu,
              seed >> 32, block, word);
}

Code Emitter::position_text(Scope& scope, const Value& value) {
  const ir::Node& node = graph_.node(value.node);
  if (const auto* random = std::get_if<ir::RandomPayload>(&node.payload))
    return random_text(scope, value, random->seed);
  const Code at = position(scope, value.offset);
  const DType type = node.type.dtype;
  const index::Interval all = index::interval_of(value.offset);
  const bool fits =
      is_integer(type) && size_of(type) < 4 && all.low >= 0 && all.high < std::int64_t{1} << (8 * size_of(type) - 1);
  return cast_expression(DType::u32,
                         !fits                     ? type
                         : is_signed_integer(type) ? DType::i32
                                                   : DType::u32,
                         dialect_, at.parenthesised());
}

/// What computes a value in one step: its own op, or with a product that is part of the sum.
Emitter::ElementOp Emitter::element_op(ValueId id) const {
  const Value& value = loops_.values[id];
  const ir::Node& node = graph_.node(value.node);
  const std::vector<ValueId>& ids = value.operands;
  for (std::size_t i = 0; i < ids.size() && ids.size() == 2; ++i) {
    const auto product = found_.contracted.find(ids[i]);
    if (product == found_.contracted.end() || product->second != id) continue;
    const std::vector<ValueId>& factors = loops_.values[ids[i]].operands;
    return {&ops::row(node.op->of_product), {factors[0], factors[1], ids[1 - i]}};
  }
  return {&ops::element_row(*node.op), ids};
}

/// The operands of an op. Where all are constants, floats among them are kept from the driver's compiler.
std::vector<Code> Emitter::operand_texts(const Scope& scope, const std::vector<ValueId>& ids) const {
  const bool constant = std::all_of(ids.begin(), ids.end(), [&](ValueId operand) { return is_literal(operand); });
  std::vector<Code> operands;
  for (ValueId operand : ids) {
    operands.push_back(use(scope, operand));
    const DType type = dtype_of(loops_.values[operand]);
    if (constant && !is_hidden_zero(operand) && is_float(type))
      operands.back() = hidden(type, operands.back(), nan_.barrier);
  }
  return operands;
}

/// A byte with a sign that has become a word without one is a byte with a sign again to NVIDIA's compiler.
bool Emitter::may_be_taken_for_signed(ValueId id) const {
  const Value& value = loops_.values[id];
  return dtype_of(value) == DType::u32 && value.kind != Value::Kind::load && !is_literal(id);
}

Code Emitter::converted_text(ValueId id, Code operand) const {
  const ValueId from_id = loops_.values[id].operands[0];
  const ir::Node& node = graph_.node(loops_.values[id].node);
  const DType from = dtype(node.operands[0]);
  const DType to = node.type.dtype;
  const bool from_integer = node.op->role == ops::Role::cast && is_integer(from);
  if (from_integer && is_float(to) && may_be_taken_for_signed(from_id))
    operand = code("({} | {})", operand, nan_.barrier);
  const ValueForm& form = forms_[id];
  if (form.kind == ValueForm::Kind::exact_float) return code("float({})", operand);
  if (form.kind == ValueForm::Kind::in_register) return cast_expression(from, form.dtype, dialect_, operand);
  if (form.kind == ValueForm::Kind::copy) return operand;
  if (node.op->role == ops::Role::bitcast) return bitcast_expression(from, to, dialect_, operand);
  return cast_expression(from, to, dialect_, operand);
}

Code Emitter::arithmetic_text(const Scope& scope, ValueId id, const ElementOp& element,
                              const std::vector<Code>& operands) const {
  // Of a mean in two parts, its low part, too.
  if (element.op->role == ops::Role::sub && element.operands.size() == 2) {
    const auto low = scope.lows.find(element.operands[1]);
    if (low != scope.lows.end()) return code("({} - {}) - {}", operands[0], operands[1], low->second);
  }
  const ValueForm& form = forms_[id];
  const Code& operand = operands[form.operand];
  switch (form.kind) {
    case ValueForm::Kind::copy: return operand;
    case ValueForm::Kind::power: return form.power == 2 ? code("{0} * {0}", operand) : code("{0} * {0} * {0}", operand);
    case ValueForm::Kind::product: return code("{} * {}", operand, float_text(form.factor));
    case ValueForm::Kind::one_plus_erf: return code("f16_one_plus_erf({})", operand);
    case ValueForm::Kind::half_one_plus_erf: return code("f16_half_one_plus_erf({})", operand);
    case ValueForm::Kind::softcap:
      return code("f16_capped({}, {})", form.factor == 0 ? operand : code("{} * {}", operand, float_text(form.factor)),
                  float_text(form.outer));
    default:
      return expression(*element.op, operand_dtype(graph_, graph_.node(loops_.values[id].node)), dialect_, operands);
  }
}

/// Whether a value is another name for bits that a load has decoded.
bool Emitter::is_decoded_as_loaded(ValueId id) const {
  while (loops_.values[id].kind == Value::Kind::compute && loops_.values[id].operands.size() == 1)
    id = loops_.values[id].operands[0];
  return loops_.values[id].kind == Value::Kind::load && forms_[id].decodes != nullptr;
}

/// The text of an op's result, or why the device does not offer it.
Result<Code> Emitter::computed_text(const Scope& scope, ValueId id, const std::vector<Code>& operands,
                                    const ElementOp& element) {
  const ir::Node& node = graph_.node(loops_.values[id].node);
  Code text;
  bool rounds = false;
  if (node.op->cls == ops::OpClass::convert) {
    text = converted_text(id, operands[0]);
    // Whole numbers are where constants hide: x ^ x, x != x. What memory holds is none.
    if (nan_.hides_zeros && !is_decoded_as_loaded(loops_.values[id].operands[0]) &&
        !is_float(dtype(node.operands[0])) && is_float(node.type.dtype) && !text.empty())
      text = hidden(node.type.dtype, text, nan_.barrier);
  } else if (std::holds_alternative<ir::CustomPayload>(node.payload)) {
    VKF_TRY(call, custom_call(node, operands));
    text = std::move(call);
    rounds = forms_[id].rounds;
  } else {
    text = arithmetic_text(scope, id, element, operands);
    rounds = forms_[id].rounds;
  }
  if (text.empty()) {
    return unsupported("'{}' of {} is not offered on this device, which has no native {} arithmetic.", node.op->name,
                       name_of(operand_dtype(graph_, node)), name_of(operand_dtype(graph_, node)));
  }
  if (VKF_PLANT(no_rounding_in_strict, rounds, rounds && !is_float(node.type.dtype)))
    text = narrow(node.type.dtype, dialect_, text);
  return text;
}

Result<void> Emitter::emit_value(Scope& scope, ValueId id) {
  if (scope.names.count(id) != 0 || is_literal(id) || is_contracted(id)) return {};
  const Value& value = loops_.values[id];
  Code text;
  switch (value.kind) {
    case Value::Kind::load: text = load_scalar(scope, id); break;
    case Value::Kind::position: text = position_text(scope, value); break;
    case Value::Kind::choose:
      text = code("{} ? {} : {}", condition(scope, value.predicates),
                  use(scope, value.operands[VKF_PLANT(swapped_choice, 0U, 1U)]),
                  use(scope, value.operands[VKF_PLANT(swapped_choice, 1U, 0U)]));
      break;
    case Value::Kind::compute: {
      const ElementOp element = element_op(id);
      const std::vector<Code> operands = operand_texts(scope, element.operands);
      if (forms_[id].kind == ValueForm::Kind::same) {
        scope.names[id] = operands[forms_[id].operand];
        return {};
      }
      VKF_TRY(computed, computed_text(scope, id, operands, element));
      text = std::move(computed);
      break;
    }
    default: return invalid("'{}' is not a value of one element.", graph_.node(value.node).op->name);
  }
  const bool precise = is_float(dtype_of(value)) && value.kind == Value::Kind::compute;
  const Code& name = names_.values[id];
  scope.out->line("{}{} {} = {};", precise ? "precise " : "", scalar_type(value.node), name, text);
  scope.names[id] = name;
  return {};
}

}  // namespace vkfuse::lowering

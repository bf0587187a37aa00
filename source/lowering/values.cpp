// The lines that compute one scalar of the body.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/mutations.hpp"
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

namespace {

/// A float that the driver must not know: its bits are joined with a bit of a push constant that is never
/// set. What drivers compute from constants differs from what their devices do.
std::string hidden(DType type, const std::string& text, const std::string& bit) {
  if (type == DType::f64) return fmt::format("packDouble2x32(unpackDouble2x32({}) | uvec2(0u, {}))", text, bit);
  return fmt::format("uintBitsToFloat(floatBitsToUint({}) | {})", text, bit);
}

/// What a reduction starts from, in its accumulator's type.
std::string identity_text(DType type, double identity, const Dialect& dialect) {
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

std::string reduction_identity(const ir::Graph& graph, const ir::Node& node, const Dialect& dialect) {
  return identity_text(graph.node(node.operands[0]).type.dtype,
                       VKF_PLANT(identity_of_max, node.op->reduction.identity,
                                 std::isinf(node.op->reduction.identity) ? 0.0 : node.op->reduction.identity),
                       dialect);
}

std::string Emitter::literal_text(ValueId id) const {
  const ir::NodeId node = loops_.values[id].node;
  const auto* constant = std::get_if<ir::ConstantPayload>(&graph_.node(node).payload);
  if (constant == nullptr) {
    if (graph_.node(node).op->reduction.kind == ops::Reduction::Kind::arg) return "0";  // of nothing: no element has it
    if (graph_.node(node).op->reduction.kind == ops::Reduction::Kind::mean) return "uintBitsToFloat(0x7fc00000u)";
    return reduction_identity(graph_, graph_.node(node), dialect_);
  }
  const std::byte* bytes = constant->bytes->data();
  const bool zero = hides_zeros_behind_barrier_ && is_float(dtype(node)) && ir::decode(dtype(node), bytes) == 0;
  const std::string text = literal(dtype(node), bytes, dialect_);
  return zero ? hidden(dtype(node), text, optimization_barrier_) : text;
}

/// What to multiply by in place of dividing by a literal that is a power of two, in f32; else empty. Other reciprocals
/// are rounded: 41 * (1 / 41) is less than 1.
std::string Emitter::reciprocal_of(ValueId divisor) const {
  const ir::Node& node = graph_.node(loops_.values[divisor].node);
  const auto* constant = is_literal(divisor) ? std::get_if<ir::ConstantPayload>(&node.payload) : nullptr;
  if (constant == nullptr || ops::register_type_of(node.type.dtype) != ops::RegisterType::f32) return {};
  const double number = ir::decode(node.type.dtype, constant->bytes->data());
  int exponent = 0;
  if (std::abs(std::frexp(number, &exponent)) != 0.5) return {};
  constexpr double kFarthest = 0x1p125;
  if (!(std::abs(number) <= kFarthest && std::abs(number) >= 1 / kFarthest)) return {};
  const auto reciprocal = static_cast<float>(1 / number);
  return literal(DType::f32, reinterpret_cast<const std::byte*>(&reciprocal), dialect_);
}

std::optional<std::string> Emitter::text_of_softcap(ValueId id, const std::vector<std::string>& operands) const {
  if (!softcap_ || (id != softcap_->softcapped && id != softcap_->tanh && id != softcap_->scaled)) return std::nullopt;
  const auto number = [&](double value) {
    const auto single = static_cast<float>(value);
    return literal(DType::f32, reinterpret_cast<const std::byte*>(&single), dialect_);
  };
  const std::string scale = number(softcap_->inner * 2 * std::numbers::log2e);
  if (id == softcap_->scaled) return fmt::format("{} * {}", operands[0], scale);
  const std::string argument =
      softcap_->scaled || id != softcap_->tanh ? "" : fmt::format("{} * {}", operands[0], scale);
  if (id != softcap_->softcapped) return argument;
  const std::size_t of = id == softcap_->tanh || !is_literal(loops_.values[id].operands[0]) ? 0 : 1;
  return fmt::format("f16_capped({}, {})", argument.empty() ? operands[of] : argument,
                     number(softcap_->outer * std::numbers::log2e));
}

/// 2 or 3 where an exponent is that literal: products are nearer to the power than any logarithm. Else 0.
int Emitter::whole_power(ValueId exponent) const {
  const ir::Node& node = graph_.node(loops_.values[exponent].node);
  const auto* constant = is_literal(exponent) ? std::get_if<ir::ConstantPayload>(&node.payload) : nullptr;
  if (constant == nullptr || ops::register_type_of(node.type.dtype) != ops::RegisterType::f32) return 0;
  const double number = ir::decode(node.type.dtype, constant->bytes->data());
  return number == 2 || number == 3 ? static_cast<int>(number) : 0;
}

std::string Emitter::use(const Scope& scope, ValueId id) const {
  if (is_literal(id)) return literal_text(id);
  const auto found = scope.names.find(id);
  check(found != scope.names.end(), "a value is emitted before it is used");
  return found->second;
}

/// Products that only one sum in this kernel reads, and nobody outside, become part of that sum. Not
/// in strict numerics, where every op rounds, and not in f32, whose product may be an infinity that the
/// sum of an unrounded product would not see (a 16-bit product is unrounded in either case).
void Emitter::find_products() {
  contracted_.clear();
  if (options_.numerics == Numerics::strict) return;
  std::map<ValueId, int> readers;
  for (const Value& value : loops_.values) {
    for (ValueId operand : value.operands) ++readers[operand];
    for (ValueId data : value.data) ++readers[data];
  }
  for (const segment::Store& store : loops_.stores) ++readers[store.value];
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    if (value.kind != Value::Kind::compute) continue;
    const ir::Node& node = graph_.node(value.node);
    const bool half = node.type.dtype == DType::f16 || node.type.dtype == DType::bf16;
    if (node.op->of_product.empty() || !half) continue;
    for (ValueId operand : value.operands) {
      const Value& product = loops_.values[operand];
      // Both in one scope: what does not vary with the element is computed elsewhere.
      if (product.kind != Value::Kind::compute || product.axes != value.axes || product.level != value.level) continue;
      if (readers[operand] != 1 || !graph_.node(product.node).op->is_product || contracted_.count(operand) != 0)
        continue;
      contracted_[operand] = id;
      break;  // one product per sum
    }
  }
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

/// Whether nothing in this kernel reads a value of 16-bit floats: the store rounds it, so that computing it need not.
bool Emitter::is_rounded_by_store(ValueId id) const {
  const DType type = dtype_of(loops_.values[id]);
  if (type != DType::f16 && type != DType::bf16) return false;
  const auto reads = [id](const std::vector<ValueId>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return std::none_of(loops_.values.begin(), loops_.values.end(),
                      [&](const Value& value) { return reads(value.operands) || reads(value.data); });
}

/// What a contraction folds is not rounded before it is.
bool Emitter::is_reduced_product(ValueId id) const {
  return std::any_of(loops_.values.begin(), loops_.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::reduction && value.operands[0] == id && value.node == loops_.values[id].node;
  });
}

Result<void> Emitter::emit_value(Scope& scope, ValueId id) {
  if (scope.names.count(id) != 0 || is_literal(id) || is_contracted(id)) return {};
  const Value& value = loops_.values[id];
  const ir::Node& node = graph_.node(value.node);
  const std::string& name = value_names_[id];
  std::string text;
  bool rounds = false;
  switch (value.kind) {
    case Value::Kind::load: text = load_scalar(scope, id); break;
    case Value::Kind::position: {
      if (const auto* random = std::get_if<ir::RandomPayload>(&node.payload)) {
        // The block's number as an expression of its own: four neighbours of a chunk are seen to share it.
        const std::string block = position(scope, index::floor_div(value.offset, 4));
        const std::string word = position(scope, index::floor_mod(value.offset, 4));
        text = fmt::format("philox4(uvec2({}u, {}u), uvec2({}, 0u))[{}]",
                           VKF_PLANT(seed_of_random, random->seed, random->seed + 1) & 0xffffffffu, random->seed >> 32,
                           block, word);
      } else {
        const std::string at = position(scope, value.offset);
        const DType type = node.type.dtype;
        const index::Interval all = index::interval_of(value.offset);
        const bool fits = is_integer(type) && size_of(type) < 4 && all.low >= 0 &&
                          all.high < std::int64_t{1} << (8 * size_of(type) - 1);
        text = ops::cast_expression(DType::u32,
                                    !fits                     ? type
                                    : is_signed_integer(type) ? DType::i32
                                                              : DType::u32,
                                    dialect_.native_int64, at.find(' ') == std::string::npos ? at : "(" + at + ")");
      }
      break;
    }
    case Value::Kind::choose:
      text = fmt::format("{} ? {} : {}", condition(scope, value.predicates),
                         use(scope, value.operands[VKF_PLANT(swapped_choice, 0U, 1U)]),
                         use(scope, value.operands[VKF_PLANT(swapped_choice, 1U, 0U)]));
      break;
    case Value::Kind::compute: {
      const ops::OpRow* op = &ops::element_row(*node.op);
      std::vector<ValueId> ids = value.operands;
      for (std::size_t i = 0; i < ids.size() && ids.size() == 2; ++i) {
        const auto product = contracted_.find(ids[i]);
        if (product == contracted_.end() || product->second != id) continue;
        const std::vector<ValueId>& tile_operands = loops_.values[ids[i]].operands;
        op = &ops::row(node.op->of_product);
        ids = {tile_operands[0], tile_operands[1], ids[1 - i]};
        break;
      }
      const bool constant = std::all_of(ids.begin(), ids.end(), [&](ValueId operand) { return is_literal(operand); });
      std::vector<std::string> operands;
      for (ValueId operand : ids) {
        operands.push_back(use(scope, operand));
        const bool known = operands.back().find(optimization_barrier_) == std::string::npos;
        const DType type = dtype_of(loops_.values[operand]);
        if (constant && known && is_float(type)) operands.back() = hidden(type, operands.back(), optimization_barrier_);
      }
      if (const auto of_softcap = text_of_softcap(id, operands)) {
        text = *of_softcap;
        if (text.empty()) {
          scope.names[id] = operands[0];
          return {};
        }
      } else if (node.op->cls == ops::OpClass::convert) {
        const DType from = dtype(node.operands[0]);
        const bool casts = node.op->role == ops::Role::cast && is_integer(from);
        // A byte with a sign that has become a word without one is a byte with a sign again to NVIDIA's compiler.
        if (casts && from == DType::u32 && is_float(node.type.dtype) &&
            loops_.values[value.operands[0]].kind != Value::Kind::load && !constant)
          operands[0] = fmt::format("({} | {})", operands[0], optimization_barrier_);
        if (casts && holds_exactly(node.type.dtype, value.operands[0])) {
          text = fmt::format("float({})", operands[0]);
        } else if (casts && is_integer(node.type.dtype) && size_of(node.type.dtype) < 4 &&
                   stays_inside(value.operands[0], node.type.dtype)) {
          text = ops::cast_expression(from, is_signed_integer(node.type.dtype) ? DType::i32 : DType::u32,
                                      dialect_.native_int64, operands[0]);
        } else if (node.op->role == ops::Role::bitcast) {
          text = ops::bitcast_expression(from, node.type.dtype, dialect_.native_int64, operands[0]);
        } else if (ops::register_type_of(from) == ops::RegisterType::f32 && is_rounded_by_store(id)) {
          text = operands[0];
        } else {
          text = ops::cast_expression(from, node.type.dtype, dialect_.native_int64, operands[0]);
        }
        // Whole numbers are where constants hide: x ^ x, x != x.
        if (hides_zeros_behind_barrier_ && !is_float(from) && is_float(node.type.dtype) && !text.empty())
          text = hidden(node.type.dtype, text, optimization_barrier_);
      } else if (std::holds_alternative<ir::CustomPayload>(node.payload)) {
        VKF_TRY(call, custom_call(node, operands));
        text = std::move(call);
        rounds = !is_float(node.type.dtype) || options_.numerics == Numerics::strict;
      } else {
        const std::string reciprocal = op->role == ops::Role::div ? reciprocal_of(value.operands[1]) : "";
        const int power = op->role == ops::Role::pow ? whole_power(value.operands[1]) : 0;
        const auto low = op->role == ops::Role::sub && ids.size() == 2 ? scope.lows.find(ids[1]) : scope.lows.end();
        text = low != scope.lows.end() ? fmt::format("({} - {}) - {}", operands[0], operands[1], low->second)
               : power == 2            ? fmt::format("{0} * {0}", operands[0])
               : power == 3            ? fmt::format("{0} * {0} * {0}", operands[0])
               : reciprocal.empty()    ? ops::expression(*op, operand_dtype(graph_, node), dialect_.native(), operands)
                                       : fmt::format("{} * {}", operands[0], reciprocal);
        rounds = (!is_float(node.type.dtype) && wraps(value)) ||
                 (is_float(node.type.dtype) && options_.numerics == Numerics::strict && !is_reduced_product(id) &&
                  !is_rounded_by_store(id));
      }
      if (text.empty()) {
        return unsupported("'{}' of {} is not offered on this device, which has no native {} arithmetic.",
                           node.op->name, name_of(operand_dtype(graph_, node)), name_of(operand_dtype(graph_, node)));
      }
      if (VKF_PLANT(no_rounding_in_strict, rounds, rounds && !is_float(node.type.dtype)))
        text = ops::narrow(node.type.dtype, text);
      break;
    }
    default: return invalid("'{}' is not a value of one element.", node.op->name);
  }
  scope.out->line("{}{} {} = {};", is_float(node.type.dtype) && value.kind == Value::Kind::compute ? "precise " : "",
                  scalar_type(value.node), name, text);
  scope.names[id] = name;
  return {};
}

}  // namespace vkfuse::lowering

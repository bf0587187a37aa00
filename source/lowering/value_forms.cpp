#include "lowering/value_forms.hpp"

#include <algorithm>
#include <cmath>

#include "ir/structured.hpp"

namespace vkfuse::lowering {

using segment::Value;
using segment::ValueId;

namespace {

/// The number that an f32, f16 or bf16 literal is.
std::optional<double> float_number(const FormInput& in, ValueId id) {
  const Value& value = in.loops.values[id];
  const ir::Node& node = in.graph.node(value.node);
  const auto* constant = value.kind == Value::Kind::literal ? std::get_if<ir::ConstantPayload>(&node.payload) : nullptr;
  if (constant == nullptr || ops::register_type_of(node.type.dtype) != ops::RegisterType::f32) return std::nullopt;
  return ir::decode(node.type.dtype, constant->bytes->data());
}

const ir::Node& node_of(const FormInput& in, ValueId id) { return in.graph.node(in.loops.values[id].node); }
DType dtype_of(const FormInput& in, ValueId id) { return node_of(in, id).type.dtype; }

bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }
bool is_custom(const ir::Node& node) { return std::holds_alternative<ir::CustomPayload>(node.payload); }

/// Calls visit(id, node) for each value that an op of that role computes.
template <typename Visit>
void each_of_role(const FormInput& in, ops::Role role, const Visit& visit) {
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    const ir::Node& node = node_of(in, id);
    if (in.loops.values[id].kind == Value::Kind::compute && ops::element_row(*node.op).role == role) visit(id, node);
  }
}

/// What values and data of this kernel read; stores apart.
std::vector<bool> read_values(const segment::Loops& loops) {
  std::vector<bool> read(loops.values.size(), false);
  for (const Value& value : loops.values) {
    for (ValueId operand : value.operands) read[operand] = true;
    for (ValueId data : value.data) read[data] = true;
  }
  return read;
}

std::vector<int> count_readers(const segment::Loops& loops) {
  std::vector<int> readers(loops.values.size(), 0);
  for (const Value& value : loops.values) {
    for (ValueId operand : value.operands) ++readers[operand];
    for (ValueId data : value.data) ++readers[data];
  }
  for (const segment::Store& store : loops.stores) ++readers[store.value];
  return readers;
}

/// Whether a conversion is a cast of an integer that changes no number.
bool keep_integer(const FormInput& in, ValueId id, ValueForm& form) {
  const ir::Node& node = node_of(in, id);
  const ValueId operand = in.loops.values[id].operands[0];
  const DType to = node.type.dtype;
  if (node.op->role != ops::Role::cast || !is_integer(in.graph.node(node.operands[0]).type.dtype)) return false;
  if (in.ranges.holds_exactly(to, operand)) {
    form.kind = ValueForm::Kind::exact_float;
    return true;
  }
  if (!is_integer(to) || size_of(to) >= 4 || !in.ranges.stays_inside(operand, to)) return false;
  form.kind = ValueForm::Kind::in_register;
  form.dtype = is_signed_integer(to) ? DType::i32 : DType::u32;
  return true;
}

}  // namespace

void multiply_powers(const FormInput& in, ValueForms& forms) {
  each_of_role(in, ops::Role::pow, [&](ValueId id, const ir::Node&) {
    const auto exponent = float_number(in, in.loops.values[id].operands[1]);
    if (exponent != 2 && exponent != 3) return;
    forms[id].kind = ValueForm::Kind::power;
    forms[id].power = static_cast<int>(*exponent);
  });
}

void multiply_by_reciprocals(const FormInput& in, ValueForms& forms) {
  constexpr double kFarthest = 0x1p125;
  each_of_role(in, ops::Role::div, [&](ValueId id, const ir::Node&) {
    const auto divisor = float_number(in, in.loops.values[id].operands[1]);
    int exponent = 0;
    if (!divisor || std::abs(std::frexp(*divisor, &exponent)) != 0.5) return;
    if (!(std::abs(*divisor) <= kFarthest && std::abs(*divisor) >= 1 / kFarthest)) return;
    forms[id].kind = ValueForm::Kind::product;
    forms[id].factor = static_cast<float>(1 / *divisor);
  });
}

namespace {

/// The only value that an op computes from this one, if there is one.
std::optional<ValueId> computed_from(const segment::Loops& loops, ValueId operand) {
  for (ValueId id = 0; id < loops.values.size(); ++id) {
    const std::vector<ValueId>& operands = loops.values[id].operands;
    if (loops.values[id].kind == Value::Kind::compute &&
        std::find(operands.begin(), operands.end(), operand) != operands.end())
      return id;
  }
  return std::nullopt;
}

/// The product with 0.5 that is left out where 1 + erf is halved at once.
struct Halving {
  ValueId product = 0;
  std::size_t other = 0;  ///< the operand that is not 0.5
};

bool is_half_product(const FormInput& in, ValueId id) {
  return in.loops.values[id].kind == Value::Kind::compute && is_half(dtype_of(in, id)) &&
         ops::element_row(*node_of(in, id).op).role == ops::Role::mul;
}

/// Whether a value that will have no name is read where it would be: once, by no reduction, and not for fewer
/// positions than it has.
bool is_read_in_place(const FormInput& in, const std::vector<int>& readers, ValueId id) {
  if (readers[id] != 1) return false;
  const auto reader = computed_from(in.loops, id);
  if (!reader)
    return std::any_of(in.loops.stores.begin(), in.loops.stores.end(),
                       [&](const segment::Store& store) { return store.value == id; });
  const Value &own = in.loops.values[id], &read = in.loops.values[*reader];
  return own.axes == read.axes && own.level == read.level && own.hoisted == read.hoisted;
}

std::optional<Halving> as_halving(const FormInput& in, const std::vector<int>& readers, ValueId product) {
  if (!is_half_product(in, product) || !is_read_in_place(in, readers, product)) return std::nullopt;
  const std::vector<ValueId>& operands = in.loops.values[product].operands;
  for (std::size_t k = 0; k < 2; ++k) {
    if (float_number(in, operands[k]) == 0.5) return Halving{product, 1 - k};
  }
  return std::nullopt;
}

/// Of 1 + erf, if it is a factor of such a product: multiplying by 0.5 rounds nothing, so that it may stand anywhere
/// among the factors.
std::optional<Halving> halving_of(const FormInput& in, const std::vector<int>& readers, ValueId factor) {
  while (readers[factor] == 1) {
    const auto product = computed_from(in.loops, factor);
    if (!product || !is_half_product(in, *product)) return std::nullopt;
    if (const auto found = as_halving(in, readers, *product)) return found;
    const std::vector<ValueId>& operands = in.loops.values[*product].operands;
    if (const auto found = as_halving(in, readers, operands[operands[0] == factor ? 1 : 0])) return found;
    factor = *product;
  }
  return std::nullopt;
}

}  // namespace

void join_erf(const FormInput& in, ValueForms& forms) {
  constexpr double kFarthest = 0x1p60;  // a divisor whose reciprocal is no subnormal
  if (in.strict || !in.keeps_nan) return;
  const std::vector<int> readers = count_readers(in.loops);
  const auto computes = [&](ValueId id, ops::Role role) {
    return in.loops.values[id].kind == Value::Kind::compute && ops::element_row(*node_of(in, id).op).role == role &&
           is_half(dtype_of(in, id)) && readers[id] == 1;
  };
  each_of_role(in, ops::Role::add, [&](ValueId id, const ir::Node&) {
    if (!is_half(dtype_of(in, id))) return;
    const std::vector<ValueId>& operands = in.loops.values[id].operands;
    for (std::size_t k = 0; k < 2; ++k) {
      const ValueId erf = operands[k];
      if (float_number(in, operands[1 - k]) != 1 || !computes(erf, ops::Role::erf)) continue;
      forms[id].kind = ValueForm::Kind::one_plus_erf;
      forms[id].operand = k;
      forms[erf].kind = ValueForm::Kind::same;
      if (const auto halving = halving_of(in, readers, id)) {
        forms[id].kind = ValueForm::Kind::half_one_plus_erf;
        forms[halving->product].kind = ValueForm::Kind::same;
        forms[halving->product].operand = halving->other;
      }
      const ValueId scaled = in.loops.values[erf].operands[0];
      if (!computes(scaled, ops::Role::div)) return;
      const auto divisor = float_number(in, in.loops.values[scaled].operands[1]);
      if (!divisor || !(std::abs(*divisor) <= kFarthest && std::abs(*divisor) >= 1 / kFarthest)) return;
      forms[scaled].kind = ValueForm::Kind::product;
      forms[scaled].factor = static_cast<float>(1 / *divisor);
      return;
    }
  });
}

void drop_conversions(const FormInput& in, ValueForms& forms) {
  const std::vector<bool> read = read_values(in.loops);
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    const ir::Node& node = node_of(in, id);
    if (in.loops.values[id].kind != Value::Kind::compute || node.op->cls != ops::OpClass::convert) continue;
    if (keep_integer(in, id, forms[id])) continue;
    const DType from = in.graph.node(node.operands[0]).type.dtype;
    const bool from_float =
        node.op->role != ops::Role::bitcast && ops::register_type_of(from) == ops::RegisterType::f32;
    if (from_float && is_half(node.type.dtype) && !read[id]) forms[id].kind = ValueForm::Kind::copy;
  }
}

void leave_rounding_to_reader(const FormInput& in, ValueId id, DType dtype, ValueForms& forms) {
  const Value& value = in.loops.values[id];
  if (in.strict || value.kind != Value::Kind::compute || count_readers(in.loops)[id] != 1) return;
  const ir::Node& node = node_of(in, id);
  if (node.op->role == ops::Role::select) {
    for (const std::size_t k : {1U, 2U}) leave_rounding_to_reader(in, value.operands[k], dtype, forms);
  } else if (node.op->role == ops::Role::cast && node.type.dtype == dtype &&
             ops::register_type_of(in.graph.node(node.operands[0]).type.dtype) == ops::RegisterType::f32) {
    forms[id].kind = ValueForm::Kind::copy;
  }
}

void round_results(const FormInput& in, ValueForms& forms) {
  const std::vector<bool> read = read_values(in.loops);
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    const Value& value = in.loops.values[id];
    const ir::Node& node = node_of(in, id);
    if (value.kind != Value::Kind::compute || node.op->cls == ops::OpClass::convert) continue;
    if (!is_float(node.type.dtype)) {
      forms[id].rounds = is_custom(node) || in.ranges.wraps(value);
      continue;
    }
    const bool by_store = is_half(node.type.dtype) && !read[id];
    forms[id].rounds = in.strict && (is_custom(node) || (!is_reduced_product(in.loops, id) && !by_store));
  }
}

ValueForms value_forms(const FormInput& in) {
  ValueForms forms(in.loops.values.size());
  multiply_powers(in, forms);
  multiply_by_reciprocals(in, forms);
  join_erf(in, forms);
  drop_conversions(in, forms);
  round_results(in, forms);
  keep_decoded_numbers(in, forms);
  if (in.may_decode) decode_as_loaded(in, forms);
  return forms;
}

std::map<ValueId, ValueId> contract_products(const FormInput& in, const ValueForms& forms) {
  std::map<ValueId, ValueId> contracted;
  if (in.strict) return contracted;
  const std::vector<int> readers = count_readers(in.loops);
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    const Value& sum = in.loops.values[id];
    if (sum.kind != Value::Kind::compute || node_of(in, id).op->of_product.empty() || !is_half(dtype_of(in, id)))
      continue;
    // What does not vary with the element is computed elsewhere.
    const auto is_product_of_scope = [&](ValueId operand) {
      const Value& product = in.loops.values[operand];
      return readers[operand] == 1 && product.kind == Value::Kind::compute && product.axes == sum.axes &&
             product.level == sum.level && node_of(in, operand).op->is_product &&
             forms[operand].kind != ValueForm::Kind::same && contracted.count(operand) == 0;
    };
    const auto product = std::find_if(sum.operands.begin(), sum.operands.end(), is_product_of_scope);
    if (product != sum.operands.end()) contracted[*product] = id;  // one product per sum
  }
  return contracted;
}

bool is_reduced_product(const segment::Loops& loops, ValueId id) {
  return std::any_of(loops.values.begin(), loops.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::reduction && value.operands[0] == id && value.node == loops.values[id].node;
  });
}

}  // namespace vkfuse::lowering

// Codes of 8 bits that are decoded as they are loaded: a word of four at a time costs a third of four by themselves.
#include <algorithm>

#include "lowering/value_forms.hpp"
#include "ops/float_formats.hpp"

namespace vkfuse::lowering {

using segment::Value;
using segment::ValueId;

namespace {

const ir::Node& node_of(const FormInput& in, ValueId id) { return in.graph.node(in.loops.values[id].node); }

bool is_computed_by(const FormInput& in, ValueId id, ops::Role role, DType dtype) {
  return in.loops.values[id].kind == Value::Kind::compute && node_of(in, id).op->role == role &&
         node_of(in, id).type.dtype == dtype;
}

/// What reads a value; nothing where something else than an op does.
std::optional<std::vector<ValueId>> computing_readers(const segment::Loops& loops, ValueId id) {
  std::vector<ValueId> readers;
  for (ValueId other = 0; other < loops.values.size(); ++other) {
    const Value& value = loops.values[other];
    if (std::find(value.data.begin(), value.data.end(), id) != value.data.end()) return std::nullopt;
    if (std::find(value.operands.begin(), value.operands.end(), id) == value.operands.end()) continue;
    if (value.kind != Value::Kind::compute) return std::nullopt;
    readers.push_back(other);
  }
  const bool is_stored = std::any_of(loops.stores.begin(), loops.stores.end(),
                                     [&](const segment::Store& store) { return store.value == id; });
  return is_stored ? std::nullopt : std::optional(readers);
}

/// The values that decode a load's codes, all of them in one format.
struct Decoded {
  const ops::FloatFormatRow* format = nullptr;
  std::vector<ValueId> values;
};

std::optional<Decoded> decoded_of(const FormInput& in, ValueId load) {
  Decoded decoded;
  const auto widened = computing_readers(in.loops, load);
  if (!widened) return std::nullopt;
  for (const ValueId wide : *widened) {
    const auto readers = computing_readers(in.loops, wide);
    if (!readers || !is_computed_by(in, wide, ops::Role::cast, DType::u32)) return std::nullopt;
    for (const ValueId reader : *readers) {
      const ops::FloatFormatRow* format = ops::format_decoded_by(*node_of(in, reader).op);
      if (format == nullptr || (decoded.format != nullptr && decoded.format != format)) return std::nullopt;
      decoded.format = format;
      decoded.values.push_back(reader);
    }
  }
  return decoded.values.empty() || decoded.format->decode_word.empty() ? std::nullopt : std::optional(decoded);
}

}  // namespace

void decode_as_loaded(const FormInput& in, ValueForms& forms) {
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    if (in.loops.values[id].kind != Value::Kind::load || node_of(in, id).type.dtype != DType::u8) continue;
    const auto decoded = decoded_of(in, id);
    if (!decoded) continue;
    forms[id].decodes = decoded->format;
    for (const ValueId value : decoded->values) forms[value].kind = ValueForm::Kind::copy;
  }
}

void keep_decoded_numbers(const FormInput& in, ValueForms& forms) {
  for (ValueId id = 0; id < in.loops.values.size(); ++id) {
    if (!is_computed_by(in, id, ops::Role::cast, DType::f16)) continue;
    const ValueId number = in.loops.values[id].operands[0];
    if (!is_computed_by(in, number, ops::Role::bitcast, DType::f32)) continue;
    const ValueId bits = in.loops.values[number].operands[0];
    if (in.loops.values[bits].kind != Value::Kind::compute) continue;
    const ops::FloatFormatRow* format = ops::format_decoded_by(*node_of(in, bits).op);
    if (format != nullptr && !format->power_of_two) forms[id].kind = ValueForm::Kind::copy;
  }
}

}  // namespace vkfuse::lowering

// Parts: what is computed together for chunks of neighbouring elements, as functions of one element and calls of them.
#include <algorithm>
#include <set>

#include "lowering/tile_operands.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;

/// What is loaded once for a chunk is one number, and so is what is computed of such.
bool OperandEmitter::differs_in_chunk(const Part& part, ValueId id) const {
  const Value& value = loops_.values[id];
  if ((value.axes & part.along) == 0) return false;
  if (value.kind == Value::Kind::load)
    return schedule_.loads[id].kind != AccessKind::scalar && schedule_.loads[id].kind != AccessKind::uniform;
  const auto differs = [&](ValueId operand) {
    const auto is_in = [&](const std::vector<ValueId>& list) {
      return std::find(list.begin(), list.end(), operand) != list.end();
    };
    return is_in(part.vectors) || is_in(part.per_element);
  };
  return value.kind != Value::Kind::compute || !value.data.empty() || std::ranges::any_of(value.operands, differs);
}

void OperandEmitter::find_packed_numbers(Part& part, const std::vector<ValueId>& requested) const {
  Scope scope;
  set_axes(scope, part, true);
  const auto is_in = [](const std::vector<ValueId>& list, ValueId id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  for (auto& [id, field] : find_sub_byte_fields({graph_, loops_, schedule_, part.elements, scope.axes, kElement})) {
    if (is_in(part.per_element, id) && is_in(part.vectors, field.load)) part.fields.emplace(id, std::move(field));
  }
  if (part.fields.empty()) return;
  // What only led to them is not computed.
  std::vector<ValueId> numbers;
  for (const auto& field : part.fields) numbers.push_back(field.first);
  std::set<ValueId> computed, wanted(requested.begin(), requested.end());
  for (const ValueId one : requested) {
    for (const ValueId id : schedule::backward_slice_of(loops_, one, numbers)) {
      computed.insert(id);
      wanted.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    }
  }
  std::erase_if(part.fields, [&](const auto& field) { return wanted.count(field.first) == 0; });
  std::erase_if(part.per_element, [&](ValueId id) { return computed.count(id) == 0; });
}

/// What is loaded for a chunk, computed once for it, or for each of its elements.
void OperandEmitter::sort_values(Part& part, const std::vector<ValueId>& values) const {
  const std::vector<ValueId>& known = part.known;
  // What depends on what is passed is computed nowhere else.
  std::set<ValueId> after(known.begin(), known.end());
  const auto is_after = [&](ValueId operand) { return after.count(operand) != 0; };
  for (ValueId id : values) {
    const Value& value = loops_.values[id];
    if (is_literal(id) || std::find(known.begin(), known.end(), id) != known.end()) continue;
    const bool summed = std::any_of(value.operands.begin(), value.operands.end(), is_after) ||
                        std::any_of(value.data.begin(), value.data.end(), is_after);
    if (summed) after.insert(id);
    if (value.kind == Value::Kind::load && (schedule_.loads[id].kind == AccessKind::vector || is_unaligned(id))) {
      part.vectors.push_back(id);
    } else if (summed || differs_in_chunk(part, id)) {
      part.per_element.push_back(id);
    } else {
      part.per_chunk.push_back(id);
    }
  }
}

OperandEmitter::Part OperandEmitter::make_part(PartSpec spec) const {
  Part part;
  part.name = std::move(spec.name);
  part.own = spec.own;
  part.along = spec.along;
  part.flattened = spec.flattened;
  part.elements = spec.elements;
  part.known = std::move(spec.known);
  sort_values(part, spec.values);
  std::set<ValueId> used(spec.requested.begin(), spec.requested.end());  // by the function
  if (spec.has_fields) find_packed_numbers(part, spec.requested);
  for (ValueId id : part.per_element) {
    used.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    used.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  for (const std::vector<ValueId>* list : {&part.vectors, &part.per_chunk}) {
    for (ValueId id : *list) {
      if (used.count(id) != 0) part.function_inputs.push_back(id);
    }
  }
  for (const auto& field : part.fields) part.function_inputs.push_back(field.first);
  part.function_inputs.insert(part.function_inputs.end(), part.known.begin(), part.known.end());
  return part;
}

const OperandEmitter::Counted& OperandEmitter::counted(index::AxisId id) const {
  return *std::find_if(counted_.begin(), counted_.end(), [id](const Counted& one) { return one.id == id; });
}

std::vector<std::pair<index::AxisId, std::string>> OperandEmitter::own_axes(const Part& part) const {
  std::vector<std::pair<index::AxisId, std::string>> all;
  for (const Counted& one : counted_) all.emplace_back(one.id, part.own == one.id ? "chunk" : one.name);
  all.emplace_back(kElement, "j");
  return all;
}

void OperandEmitter::set_axes(Scope& scope, const Part& part, bool element) const {
  for (const Counted& one : counted_) {
    Sizes sizes;
    for (int axis : one.axes) sizes.push_back(loops_.axes[static_cast<std::size_t>(axis)].size);
    if (sizes.empty()) continue;
    std::int64_t all = 1;
    for (std::int64_t size : sizes) all *= size;
    if (part.own == one.id && part.flattened) {
      Expr place = Expr::axis(one.id, std::max<std::int64_t>(all / part.elements, 2)) * part.elements;
      if (element) place = place + Expr::axis(kElement, part.elements);
      const std::vector<Expr> digits = index::delinearize(place, sizes);
      for (std::size_t i = 0; i < one.axes.size(); ++i) scope.axes.emplace(one.axes[i], digits[i]);
      continue;
    }
    if (part.own == one.id) {
      sizes.back() /= part.elements;
      all /= part.elements;
    }
    const std::vector<Expr> digits = index::delinearize(Expr::axis(one.id, std::max<std::int64_t>(all, 2)), sizes);
    for (std::size_t i = 0; i < one.axes.size(); ++i) scope.axes.emplace(one.axes[i], digits[i]);
    if (part.own != one.id) continue;
    Expr& inner = scope.axes.at(one.axes.back());
    inner = inner * part.elements;
    if (element && part.elements > 1) inner = inner + Expr::axis(kElement, part.elements);
  }
}

Scope OperandEmitter::part_scope(const Part& part) {
  Scope scope;
  scope.out = &main_;
  for (const auto& [axis, name] : own_axes(part)) scope.axis_names.emplace(axis, name);
  set_axes(scope, part, false);
  return scope;
}

void OperandEmitter::use_chunks_of(const Part& part) {
  chunk_.elements = part.elements;
  chunk_.group = std::min(4, chunk_.elements);
  chunk_.groups = chunk_.elements / chunk_.group;
}

Result<void> OperandEmitter::element_function(Part& part, const std::function<void(Scope&)>& last,
                                              const std::vector<Code>& results) {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, part, true);
  const auto own = own_axes(part);
  for (const auto& [axis, name] : own) scope.axis_names.emplace(axis, name);
  for (ValueId id : part.function_inputs) scope.names[id] = names_.values[id];
  body.indent();
  for (ValueId id : part.function_inputs) {
    const Value& value = loops_.values[id];
    if (value.kind != Value::Kind::reduction && value.kind != Value::Kind::nested &&
        value.kind != Value::Kind::epilogue)
      continue;
    const DType type = dtype(value.node);
    if (is_float(type) && options_.numerics != Numerics::strict) continue;
    if (narrows(type)) body.line("{} = {};", names_.values[id], narrow(type, dialect_, names_.values[id]));
  }
  VKF_CHECK_OK(emit_values(scope, part.per_element));
  last(scope);
  const Code text = body.take();
  std::vector<Code> parameters;
  for (const auto& axis : own) {
    if (!text.uses(axis.second)) continue;
    parameters.push_back("uint " + axis.second);
    part.coordinates.push_back(axis.second);
  }
  for (ValueId id : part.function_inputs)
    parameters.push_back(scalar_type(loops_.values[id].node) + " " + names_.values[id]);
  parameters.insert(parameters.end(), results.begin(), results.end());
  functions_.open("void {}_element({}) {{", part.name, listed(parameters));
  functions_.raw(text);
  functions_.close();
  functions_.blank();
  return {};
}

Result<void> OperandEmitter::result_function(Part& part, const std::function<bool(std::size_t store)>& stores_here) {
  std::vector<Code> parameters;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (stores_here && !stores_here(i)) continue;
    part.stores.push_back(i);
    if (schedule_.stores[i].kind == AccessKind::vector)
      parameters.push_back("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
  }
  functions_.line("// One element of the results.");
  return element_function(
      part,
      [&](Scope& scope) {
        for (const std::size_t i : part.stores) {
          const Code value = use(scope, loops_.stores[i].value);
          if (schedule_.stores[i].kind == AccessKind::vector) {
            scope.out->line("{} = {};", result_name(i), value);
          } else {
            store_scalar(scope, i, value);
          }
        }
      },
      parameters);
}

/// Element `element` of the chunk of which main() knows the vectors' groups.
std::vector<Code> OperandEmitter::arguments(Scope& scope, const Part& part, int element,
                                            const std::map<ValueId, Code>& groups) const {
  std::vector<Code> all;
  for (const std::string& name : part.coordinates) all.push_back(name == "j" ? code("{}u", element) : Code(name));
  for (ValueId id : part.function_inputs) {
    const bool passed = groups.count(id) == 0 && scope.names.count(id) == 0 && !is_literal(id);
    if (passed) continue;  // the caller adds it
    const auto group = groups.find(id);
    all.push_back(group != groups.end() ? element_of(group->second, element % chunk_.group, chunk_.group)
                                        : use(scope, id));
  }
  return all;
}

Result<std::map<ValueId, Code>> OperandEmitter::load_chunk(Scope& scope, const Part& part, const Code& loaded) {
  VKF_CHECK_OK(emit_values(scope, part.per_chunk));
  for (ValueId id : part.vectors) {
    if (loaded.empty()) load_vectors(scope, id, "");
  }
  return unpack_group(part, 0, loaded);
}

std::map<ValueId, Code> OperandEmitter::unpack_group(const Part& part, int group, const Code& register_index) {
  std::map<ValueId, Code> groups;
  const auto is_passed = [&](ValueId id) {
    return std::find(part.function_inputs.begin(), part.function_inputs.end(), id) != part.function_inputs.end();
  };
  for (ValueId id : part.vectors) {
    if (!part.fields.empty() && !is_passed(id)) continue;
    groups[id] = code("{}_{}", names_.values[id], group);
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id],
               unpacked(id, group, is_kept(part, id) ? "" : register_index));
  }
  for (const auto& [id, field] : part.fields) {
    groups[id] = code("{}_{}", names_.values[id], group);
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id],
               sub_byte_group(id, group, is_kept(part, field.load) ? "" : register_index));
  }
  return groups;
}

Result<void> OperandEmitter::store_chunk(const Part& part, const std::function<std::vector<Code>(int element)>& known,
                                         const Code& loaded) {
  Scope scope = part_scope(part);
  VKF_TRY(groups, load_chunk(scope, part, loaded));
  for (const std::size_t s : part.stores) {
    if (schedule_.stores[s].kind == AccessKind::vector)
      main_.line("{} {};", group_type_of(loops_.stores[s].node), result_group(s, 0));
  }
  for (int e = 0; e < part.elements; ++e) {
    std::vector<Code> passed = arguments(scope, part, e, groups);
    for (Code& one : known(e)) passed.push_back(std::move(one));
    for (const std::size_t s : part.stores) {
      if (schedule_.stores[s].kind == AccessKind::vector)
        passed.push_back(element_of(result_group(s, 0), e, chunk_.group));
    }
    main_.line("{}_element({});", part.name, listed(passed));
  }
  for (const std::size_t s : part.stores) {
    if (schedule_.stores[s].kind == AccessKind::vector) store_vectors(scope, s, "", "");
  }
  return {};
}

Result<void> OperandEmitter::of_element(const Code& name, const Code& parameters,
                                        const std::function<Result<void>()>& body) {
  functions_.open("float {}(const in uint row, const in uint column, {}) {{", name, parameters);
  std::swap(functions_, main_);  // what computes positions and loads writes to main()
  const Result<void> done = body();
  std::swap(functions_, main_);
  functions_.close();
  functions_.blank();
  return done;
}

void OperandEmitter::locate_workgroup() {
  main_.line("uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;");
  main_.line("if (workgroup >= p.chunks) return;");
  main_.line("uint thread = gl_LocalInvocationID.x;");
}

}  // namespace vkfuse::lowering

#include "lowering/chunks.hpp"

#include <algorithm>

namespace vkfuse::lowering {

using schedule::AccessKind;

bool ChunkEmitter::is_vector(ValueId id) const {
  return loops_.values[id].kind == Value::Kind::load && schedule_.loads[id].kind == AccessKind::vector;
}

bool ChunkEmitter::is_loaded_whole(ValueId id) const {
  return is_vector(id) ||
         (loops_.values[id].kind == Value::Kind::load && schedule_.loads[id].kind == AccessKind::transposed);
}

void ChunkEmitter::sort_values() {
  std::vector<bool> inside(loops_.values.size(), false);  // known in the function of an element alone
  const auto needs_element = [&](const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return inside[id]; });
  };
  std::vector<ValueId> whole;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (is_literal(id) || !is_of_results(id)) continue;
    const Value& value = loops_.values[id];
    if (is_loaded_whole(id)) {
      whole.push_back(id);
      inside[id] = true;
      if (is_vector(id)) vectors_.push_back(id);
    } else if (schedule::varies_in_chunk(loops_, schedule_, value) || needs_element(value.operands) ||
               needs_element(value.data)) {
      // Of what a tile's columns have in common, too, once it has gone through shared memory.
      inside[id] = true;
      per_element_.push_back(id);
    } else {
      per_chunk_.push_back(id);
    }
  }
  find_function_inputs(whole);
}

namespace {

/// Data that a store's position, and whether it is stored, are made of.
std::vector<index::DataId> data_of(const segment::Store& store) {
  std::vector<index::DataId> all = index::data_of(store.offset);
  for (const segment::Predicate& predicate : store.predicates) {
    for (const segment::Predicate::Range& range : predicate.ranges) {
      const std::vector<index::DataId> own = index::data_of(range.value);
      all.insert(all.end(), own.begin(), own.end());
    }
  }
  return all;
}

}  // namespace

void ChunkEmitter::find_function_inputs(const std::vector<ValueId>& whole) {
  std::vector<bool> used_by_element(loops_.values.size(), false);
  for (ValueId id : per_element_) {
    for (ValueId operand : loops_.values[id].operands) used_by_element[operand] = true;
    for (ValueId data : loops_.values[id].data) used_by_element[data] = true;
  }
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    used_by_element[loops_.stores[i].value] = true;
    // Where its row goes, too.
    for (const index::DataId data : is_stored_whole(i) ? std::vector<index::DataId>() : data_of(loops_.stores[i]))
      used_by_element[loops_.data.at(data)] = true;
  }
  // A contracted product's operands are read by the sum.
  for (const auto& entry : found_.contracted) {
    for (ValueId factor : loops_.values[entry.first].operands) used_by_element[factor] = true;
  }
  for (ValueId id : whole) {
    if (used_by_element[id]) function_inputs_.push_back(id);
  }
  for (ValueId id : per_chunk_) {
    if (used_by_element[id] && !is_contracted(id)) function_inputs_.push_back(id);
  }
}

Result<Code> ChunkEmitter::element_body() {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, true);
  for (const auto& [axis, name] : own_axes()) scope.axis_names.emplace(axis, name);
  for (ValueId id : function_inputs_) scope.names[id] = names_.values[id];
  body.indent();
  VKF_CHECK_OK(emit_values(scope, per_element_));
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const Code value = use(scope, loops_.stores[i].value);
    if (is_stored_whole(i)) {
      body.line("{} = {};", result_name(i), value);
      continue;
    }
    if (takes_existence_) body.open("if (exists) {{");
    Scope inside = scope;  // positions that are named there are known nowhere else
    store_scalar(takes_existence_ ? inside : scope, i, value);
    if (takes_existence_) body.close();
  }
  return body.take();
}

Code ChunkEmitter::element_parameters(const Code& body) {
  Code parameters;
  const auto add = [&](const Code& parameter) { parameters += (parameters.empty() ? "" : ", ") + parameter; };
  if (takes_existence_) add("bool exists");
  for (const auto& axis : own_axes()) {
    if (!body.uses(axis.second)) continue;
    add("uint " + axis.second);
    coordinates_.push_back(axis.second);
  }
  for (ValueId id : function_inputs_) add(scalar_type(loops_.values[id].node) + " " + names_.values[id]);
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (is_stored_whole(i)) add("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
  }
  return parameters;
}

Result<void> ChunkEmitter::element_function() {
  bool stores_single = false, replaces = false;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (is_stored_whole(i)) continue;
    stores_single = true;
    replaces = replaces || may_alias({loops_.stores[i].node, true, false});
  }
  // An element after the end is the last one again, unless it comes with a vector; and one that is stored over what it
  // is computed from must be computed once.
  const bool from_vectors =
      std::any_of(function_inputs_.begin(), function_inputs_.end(), [&](ValueId id) { return is_loaded_whole(id); });
  takes_existence_ = stores_single && (from_vectors || replaces) && chunk_.elements > 1 && !existence(1).empty();
  VKF_TRY(body, element_body());
  const Code parameters = element_parameters(body);
  functions_.line("// One element.");
  functions_.open("void element({}) {{", parameters);
  functions_.raw(body);
  functions_.close();
  functions_.blank();
  return {};
}

Scope ChunkEmitter::chunk_scope() {
  Scope scope;
  scope.out = &main_;
  for (const auto& [axis, name] : own_axes()) scope.axis_names.emplace(axis, name);
  set_axes(scope, false);
  return scope;
}

void ChunkEmitter::compute(Scope& scope, const Code& register_index) {
  for (int g = 0; g < chunk_.groups; ++g) {
    std::map<ValueId, Code> groups;
    for (ValueId id : function_inputs_) {
      if (!is_loaded_whole(id)) continue;
      groups[id] = unique(names_.values[id] + "_" + std::to_string(g));
      main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], loaded_group(id, g, register_index));
    }
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      if (is_stored_whole(i)) main_.line("{} {};", group_type_of(loops_.stores[i].node), result_group(i, g));
    }
    for (int i = 0; i < chunk_.group; ++i) {
      Code arguments;
      const auto pass = [&](const Code& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
      if (takes_existence_) pass(existence(g * chunk_.group + i));
      for (const std::string& name : coordinates_) pass(argument(name, g * chunk_.group + i));
      for (ValueId id : function_inputs_)
        pass(is_loaded_whole(id) ? element_of(groups[id], i, chunk_.group) : use(scope, id));
      for (std::size_t k = 0; k < loops_.stores.size(); ++k) {
        if (is_stored_whole(k)) pass(element_of(result_group(k, g), i, chunk_.group));
      }
      main_.line("element({});", arguments);
    }
  }
}

void ChunkEmitter::store(Scope& scope, const Code& whole, const Code& valid) {
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (is_stored_whole(i)) store_vectors(scope, i, whole, valid);
  }
}

}  // namespace vkfuse::lowering

// The reduction template's passes over rows: which values a pass computes, and what it does to an element.
#include <fmt/ranges.h>

#include <algorithm>

#include "templates/reduction/lower_emitter.hpp"

namespace vkfuse::lowering {

using schedule::AccessKind;

/// The loads and values that are computed once for a chunk, and the scans, of a pass that needs these values.
void ReductionEmitter::add_values(const std::vector<bool>& needed, Pass& pass) const {
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (!needed[id] || is_literal(id)) continue;
    if (is_vector(id)) {
      pass.vectors.push_back(id);
    } else if (!varies(id)) {
      pass.per_chunk.push_back(id);
    }
  }
  for (std::size_t i = 0; i < scans_.size(); ++i) {
    if (needed[scans_[i].reduction.id]) pass.scans.push_back(i);
  }
  pass.waits = scans_across_threads() && !pass.scans.empty();
}

/// A body for each depth of scans that waits for other threads.
void ReductionEmitter::add_scan_bodies(Pass& pass) const {
  int depth = 0;
  for (std::size_t i : pass.scans) depth = std::max(depth, scans_[i].depth);
  for (int at = 1; at <= depth; ++at) {
    Body body;
    body.totals = true;
    for (std::size_t i : pass.scans) {
      if (scans_[i].depth == at) body.scans.push_back(i);
    }
    if (!body.scans.empty()) pass.bodies.push_back(std::move(body));
  }
}

/// What is stored and reduced in a pass.
ReductionEmitter::Body ReductionEmitter::last_body(const Pass& pass) const {
  Body last;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const segment::Store& store = loops_.stores[i];
    if ((store.axes & loops_.columns()) != 0 && segment::pass_of_store(loops_, store) == pass.number)
      last.stores.push_back(i);
  }
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    if (reductions_[i].level - 1 == pass.number) last.reductions.push_back(i);
  }
  if (!pass.waits) last.scans = pass.scans;
  return last;
}

/// Scans that other threads take part in cut the work on a chunk in pieces: first what each of them needs, then,
/// when it is known what the threads before have seen, the next one, and last what is stored and reduced.
ReductionEmitter::Pass ReductionEmitter::make_pass(int number) {
  Pass pass;
  pass.number = number;
  const std::vector<bool> needed = segment::needed_in_pass(loops_, number);
  add_values(needed, pass);
  if (pass.waits) add_scan_bodies(pass);
  pass.bodies.push_back(last_body(pass));
  pass.blocks = params_.block > 0 && !pass.waits && !(pass.scans.empty() && pass.bodies.back().reductions.empty());
  for (Body& body : pass.bodies) finish_body(pass, body, needed);
  return pass;
}

/// The values that a body's stores, reductions and totals take.
std::vector<bool> ReductionEmitter::results_of(const Body& body) const {
  std::vector<bool> used(loops_.values.size(), false);
  for (std::size_t i : body.stores) used[loops_.stores[i].value] = true;
  for (std::size_t i : body.reductions) used[loops_.values[reductions_[i].id].operands[0]] = true;
  if (body.totals) {
    for (std::size_t i : body.scans) used[loops_.values[scans_[i].reduction.id].operands[0]] = true;
  }
  return used;
}

/// Whether a body's function has the value as a parameter.
bool ReductionEmitter::is_given(const Pass& pass, ValueId id) const {
  return is_vector(id) || is_sub_byte(id) || !varies(id) || (is_scan(id) && pass.waits);
}

void ReductionEmitter::use_operands(ValueId id, std::vector<bool>& used) const {
  const auto scale = std::find_if(scales_of_chunks_.begin(), scales_of_chunks_.end(),
                                  [&](const auto& one) { return one.second.scaled == id; });
  if (scale != scales_of_chunks_.end()) {
    used[scale->second.left] = true;
    return;
  }
  for (ValueId operand : loops_.values[id].operands) used[operand] = true;
  for (ValueId data : loops_.values[id].data) used[data] = true;
}

/// What the body computes for each element, and what it is given.
void ReductionEmitter::finish_body(const Pass& pass, Body& body, const std::vector<bool>& needed) {
  std::vector<bool> used = results_of(body);
  std::vector<bool> inside(loops_.values.size(), false);
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    if (!used[id] || !needed[id] || is_literal(id)) continue;
    inside[id] = !is_given(pass, id);
    // A product that is part of a sum is computed where the sum is.
    if (inside[id] || is_contracted(id)) use_operands(id, used);
  }
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (inside[id]) body.per_element.push_back(id);
    if (used[id] && !inside[id] && !is_literal(id) && !is_contracted(id)) body.function_inputs.push_back(id);
  }
  body.lows = subtracted_means(body);
}

/// A norm subtracts a mean, and where elements differ by little, what rounding the mean has lost is as much as they do:
/// it is subtracted as well. Not in strict numerics, where a subtraction is of what is stored.
std::vector<ValueId> ReductionEmitter::subtracted_means(const Body& body) const {
  std::vector<ValueId> means;
  if (options_.numerics == Numerics::strict) return means;
  for (ValueId id : body.function_inputs) {
    if (low_of(id).empty()) continue;
    const bool subtracted = std::any_of(body.per_element.begin(), body.per_element.end(), [&](ValueId other) {
      const Value& value = loops_.values[other];
      return value.kind == Value::Kind::compute && graph_.node(value.node).op->role == ops::Role::sub &&
             value.operands[1] == id;
    });
    if (subtracted) means.push_back(id);
  }
  return means;
}

/// Empty where a value is no mean of two parts.
Code ReductionEmitter::low_of(ValueId mean) const {
  for (const ReductionText& reduction : reductions_) {
    if (reduction.kind == ReductionText::Kind::mean && reduction.id == mean && reduction.operand != DType::f64)
      return reduction.accumulators[1].name;
    if (reduction.kind == ReductionText::Kind::moments && loops_.values[reduction.id].partner == mean)
      return reduction.accumulators[3].name;
  }
  return "";
}

/// How many values and stores read each value.
std::vector<int> ReductionEmitter::count_readers() const {
  std::vector<int> readers(loops_.values.size(), 0);
  for (const Value& value : loops_.values) {
    for (ValueId operand : value.operands) ++readers[operand];
  }
  for (const segment::Store& store : loops_.stores) ++readers[store.value];
  return readers;
}

/// Whether a product of elements may be added to a sum in one step, without a rounding of its own.
bool ReductionEmitter::may_contract(ValueId id) const {
  const Value& product = loops_.values[id];
  if (product.kind != Value::Kind::compute || forms_[id].kind == ValueForm::Kind::same ||
      !ops::element_row(*graph_.node(product.node).op).is_product || !varies(id) || !loops_.per_element(product))
    return false;
  const DType type = dtype_of(product);
  return type == DType::f16 || type == DType::bf16 || (type == DType::f32 && is_reduced_product(loops_, id));
}

/// A product that a sum alone reads is added in one step, as in Emitter::find_products; that of a contraction has no
/// dtype of its own.
void ReductionEmitter::find_reduced_products() {
  if (options_.numerics == Numerics::strict) return;
  const std::vector<int> readers = count_readers();
  for (const ReductionText& reduction : reductions_) {
    const Value& value = loops_.values[reduction.id];
    if (value.kind != Value::Kind::reduction || reduction.kind != ReductionText::Kind::plain ||
        reduction.node->op->reduction.join != "add")
      continue;
    const ValueId product = value.operands[0];
    if (readers[product] != 1 || !may_contract(product)) continue;
    found_.contracted[product] = reduction.id;
    find_scale_of_chunks(reduction.id, readers);
  }
}

/// The element op that computes a value; empty where none does.
std::string_view ReductionEmitter::op_of(ValueId id) const {
  const Value& value = loops_.values[id];
  return value.kind == Value::Kind::compute ? ops::element_row(*graph_.node(value.node).op).name : std::string_view();
}

/// Whether a value is an integer, as a float, of so few bits that sums of its products stay in range.
bool ReductionEmitter::is_small_integer(ValueId id) const {
  constexpr std::int64_t kLargestWeight = 1 << 16;
  if (op_of(id) != "cast") return false;
  const ValueId integer = loops_.values[id].operands[0];
  if (!is_integer(dtype_of(loops_.values[integer]))) return false;
  const auto range = ranges_.range_of(integer);
  return range && range->low >= -kLargestWeight && range->high <= kLargestWeight;
}

/// Whether a value is a weight without its scale: a small integer, less a zero point where it has one.
bool ReductionEmitter::is_weight(ValueId id) const {
  const std::vector<ValueId>& operands = loops_.values[id].operands;
  return is_small_integer(id) || (op_of(id) == "sub" && is_small_integer(operands[0]) && is_small_integer(operands[1]));
}

/// Weights of few bits are multiplied with a scale that whole chunks share: so is the chunk's sum, then. What they are
/// multiplied with is of 16 bits, or the products might overflow without their scale.
void ReductionEmitter::find_scale_of_chunks(ValueId reduction, const std::vector<int>& readers) {
  if (width() > 1) return;
  const Value& product = loops_.values[loops_.values[reduction].operands[0]];
  for (const std::size_t weight : {0u, 1u}) {
    const ValueId scaled = product.operands[weight];
    const ValueId other = product.operands[1 - weight];
    if (op_of(scaled) != "mul" || readers[scaled] != 1 || dtype_of(loops_.values[other]) != DType::f16) continue;
    for (const std::size_t side : {0u, 1u}) {
      const ValueId left = loops_.values[scaled].operands[side];
      const ValueId scale = loops_.values[scaled].operands[1 - side];
      if (varies(scale) || !varies(left) || is_literal(scale) || !is_weight(left)) continue;
      scales_of_chunks_[reduction] = {scaled, left, other, scale};
      found_.contracted[scaled] = reduction;
      return;
    }
  }
}

/// What a reduction is given. A whole number that is the same for all elements may be a constant, and SwiftShader's
/// compiler takes the larger of one and the smallest number, which a reduction starts from, for that: it is not to know
/// it.
Code ReductionEmitter::reduced(Scope& scope, ValueId operand) const {
  const Code text = use(scope, operand);
  const Value& value = loops_.values[operand];
  const DType type = dtype_of(value);
  if (value.axes != 0 || is_float(type) || type == DType::boolean) return text;
  if (size_of(type) == 8 && !dialect_.native_int64) return code("({} ^ uvec2({}, 0u))", text, nan_.barrier);
  return code("({} ^ {}({}))", text, ops::glsl_type(ops::register_type_of(type), dialect_.native_int64), nan_.barrier);
}

/// One more element for a reduction's accumulators.
void ReductionEmitter::reduce_element(Scope& scope, const ReductionText& reduction) {
  Writer& out = *scope.out;
  const Value& value = loops_.values[reduction.id];
  if (is_contracted(value.operands[0])) {
    std::vector<ValueId> tile_operands = loops_.values[value.operands[0]].operands;
    const auto scale = scales_of_chunks_.find(reduction.id);
    if (scale != scales_of_chunks_.end()) tile_operands = {scale->second.other, scale->second.left};
    const Code& sum = reduction.accumulators[0].name;
    out.line("precise float {}_more = fma({}, {}, {});", sum, use(scope, tile_operands[0]),
             use(scope, tile_operands[1]), sum);
    out.line("{0} = {0}_more;", sum);
    return;
  }
  const Code operand = reduced(scope, value.operands[0]);
  const std::vector<Accumulator>& fields = reduction.accumulators;
  if (reduction.vec4s) {
    out.line("{}_x = {};", reduction.name, operand);
    return;
  }
  switch (reduction.kind) {
    case ReductionText::Kind::plain: out.line("{}({}, {});", reduction.join, fields[0].name, operand); break;
    case ReductionText::Kind::arg:
      out.line("{}({}, {}, {}, {});", reduction.join, fields[0].name, fields[1].name, operand,
               position(scope, value.offset));
      break;
    case ReductionText::Kind::mean:
      out.line("{}_add_term({}, {}, {});", reduction.operand == DType::f64 ? "f64" : "f32", fields[0].name,
               fields[1].name, operand);
      break;
    case ReductionText::Kind::softmax:
      out.line("{}({}, {}, {});", Combine::add_element(reduction), fields[0].name, fields[1].name, operand);
      break;
    case ReductionText::Kind::moments:
      out.line("{}({}, {}, {}, {}, 1.0, {}, 0.0, 0.0);", reduction.join, fields[0].name, fields[1].name, fields[2].name,
               fields[3].name, operand);
      break;
  }
}

/// A scan's lines for one element: into the thread's total where other threads are waited for, else into the carry.
void ReductionEmitter::scan_element(const Pass& pass, const Body& body, const ScanText& scan, Scope& scope) {
  const ValueId id = scan.reduction.id;
  const DType type = dtype_of(loops_.values[id]);
  const Code& name = names_.values[id];
  const Code operand = reduced(scope, loops_.values[id].operands[0]);
  const Code running = body.totals ? scan.total : in_block(pass, scan.reduction).accumulators[0].name;
  if (!scan.exclusive) scope.out->line("{}({}, {});", scan.reduction.join, running, operand);
  if (body.totals) {
    scope.out->line("{} = {};", name, running);
  } else if (pass.blocks) {
    scope.out->line("{} {} = {};", scan.reduction.type, name, scan.carry());
    scope.out->line("{}({}, {});", scan.reduction.join, name, running);
    if (is_narrowed(type)) scope.out->line("{} = {};", name, narrowed(type, name));
  } else {
    scope.out->line("{} {} = {};", scan.reduction.type, name, narrowed(type, running));
  }
  if (scan.exclusive) scope.out->line("{}({}, {});", scan.reduction.join, running, operand);
  scope.names[id] = name;
}

const ScanText& ReductionEmitter::scan_of(ValueId id) const {
  return *std::find_if(scans_.begin(), scans_.end(), [&](const ScanText& text) { return text.reduction.id == id; });
}

Result<void> ReductionEmitter::element_function(Pass& pass, std::size_t number) {
  const bool last = number + 1 == pass.bodies.size();
  Body& body = pass.bodies[number];
  Scope scope;
  Writer out;
  scope.out = &out;
  set_parallel_axes(scope, true);
  set_reduction_axes(scope, true);
  scope.axis_names = {{kRow, "row"}, {kColumn, "column"}, {kElement, "j"}};
  for (ValueId id : body.function_inputs) scope.names[id] = names_.values[id];
  for (ValueId id : body.lows) scope.lows[id] = low_of(id);
  out.indent();
  for (ValueId id : body.per_element) {
    if (is_scan(id)) {
      scan_element(pass, body, scan_of(id), scope);
    } else {
      VKF_CHECK_OK(emit_value(scope, id));
    }
  }
  if (body.totals) {
    for (std::size_t i : body.scans) scan_element(pass, body, scans_[i], scope);
  }
  for (std::size_t i : body.reductions) reduce_element(scope, in_block(pass, reductions_[i]));
  for (std::size_t i : body.stores) {
    const Code value = use(scope, loops_.stores[i].value);
    if (schedule_.stores[i].kind == AccessKind::vector) {
      out.line("{} = {};", result_name(i), value);
      continue;
    }
    out.open("if (inside) {{");
    Scope inner = scope;
    store_scalar(inner, i, value);
    out.close();
  }
  write_function(pass, body, out.take(),
                 last ? code("// One element of pass {}.", pass.number)
                      : code("// What one element of pass {} adds to the running folds.", pass.number));
  return {};
}

/// The parameters through which a body's function takes and leaves what a reduction has seen.
void ReductionEmitter::add_accumulator_parameters(const Pass& pass, const ReductionText& reduction,
                                                  std::vector<Code>& parameters) const {
  if (reduction.vec4s) {
    parameters.push_back(code("out float {}_x", reduction.name));
    return;
  }
  for (const Accumulator& accumulator : in_block(pass, reduction).accumulators)
    parameters.push_back(code("inout {} {}", accumulator.type, accumulator.name));
}

/// The parameters of a body that are no coordinates, in the order in which call() gives them.
std::vector<Code> ReductionEmitter::value_parameters(const Pass& pass, const Body& body) const {
  std::vector<Code> parameters;
  for (ValueId id : body.function_inputs)
    parameters.push_back(scalar_type(loops_.values[id].node) + " " + names_.values[id]);
  for (ValueId id : body.lows) parameters.push_back("float " + low_of(id));
  for (std::size_t i : body.scans) {
    const ReductionText& reduction = scans_[i].reduction;
    if (body.totals) {
      parameters.push_back(code("inout {} {}", reduction.type, scans_[i].total));
      parameters.push_back(code("out {} {}", reduction.type, names_.values[reduction.id]));
      continue;
    }
    if (pass.blocks) parameters.push_back(code("{} {}", reduction.type, scans_[i].carry()));
    add_accumulator_parameters(pass, reduction, parameters);
  }
  for (std::size_t i : body.reductions) add_accumulator_parameters(pass, reductions_[i], parameters);
  for (std::size_t i : body.stores) {
    if (schedule_.stores[i].kind == AccessKind::vector)
      parameters.push_back("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
  }
  return parameters;
}

/// The body's coordinates follow from its text.
void ReductionEmitter::write_function(const Pass& pass, Body& body, const Code& text, const Code& comment) {
  std::vector<Code> parameters;
  for (const char* name : {"inside", "row", "column", "j"}) {
    if (!text.uses(name)) continue;
    parameters.push_back((std::string_view(name) == "inside" ? "bool " : "uint ") + Code(name));
    body.coordinates.push_back(name);
  }
  for (Code& parameter : value_parameters(pass, body)) parameters.push_back(std::move(parameter));
  body.function = unique(body.totals ? code("pass{}_scan", pass.number) : code("pass{}", pass.number));
  functions_.line("{}", comment);
  functions_.open("void {}({}) {{", body.function, listed(parameters));
  functions_.raw(text);
  functions_.close();
  functions_.blank();
}

bool ReductionEmitter::kept(ValueId id) const {
  if (!params_.persistent || !is_vector(id)) return false;
  int used = 0;
  for (int pass = 0; pass < loops_.passes; ++pass) used += segment::needed_in_pass(loops_, pass)[id] ? 1 : 0;
  return used > 1 || params_.iterations > 1;
}

}  // namespace vkfuse::lowering

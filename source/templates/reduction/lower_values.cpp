// What the reduction template knows of a row: its reductions, what is computed from them, and what is stored once per
// row.
#include <algorithm>

#include "schedule/means.hpp"
#include "templates/reduction/lower_emitter.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;

bool ReductionEmitter::is_partner(ValueId id) const {
  return std::any_of(loops_.values.begin(), loops_.values.end(), [&](const Value& value) {
    return value.kind == Value::Kind::reduction && value.online != Value::Online::no && value.partner == id;
  });
}

/// A thread that owns several rows has one accumulator for each. And what depends on a scan is computed when the
/// scan is known: not before, for the whole chunk.
void ReductionEmitter::find_varying() {
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    bool varies = schedule::varies_in_chunk(loops_, schedule_, value) ||
                  (params_.vector_rows && chunk_.elements > 1 && value.kind == Value::Kind::reduction);
    int depth = 0;
    const auto depend = [&](ValueId other) {
      varies = varies || (params_.vector_rows && varies_[other]);
      depth = std::max(depth, depth_[other]);
    };
    for (ValueId operand : value.operands) depend(operand);
    for (ValueId data : value.data) depend(data);
    if (value.kind == Value::Kind::reduction) depth = 0;  // finished before the pass begins
    depth_.push_back(depth + (is_scan(id) ? 1 : 0));
    varies_.push_back(varies || depth_[id] > 0);
  }
}

void ReductionEmitter::find_needed_by_elements() {
  needed_by_elements_.assign(loops_.values.size(), false);
  for (const segment::Store& store : loops_.stores) {
    // A row's value that is the result at every position of the reduction axes.
    if ((store.axes & loops_.columns()) != 0) needed_by_elements_[store.value] = true;
  }
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    const Value& value = loops_.values[id];
    if (!needed_by_elements_[id] && !loops_.per_element(value) && value.kind != Value::Kind::reduction) continue;
    for (ValueId operand : value.operands) needed_by_elements_[operand] = true;
    for (ValueId data : value.data) needed_by_elements_[data] = true;
  }
}

ReductionText::Kind ReductionEmitter::text_kind_of(ValueId id) const {
  const Value& value = loops_.values[id];
  if (value.online == Value::Online::softmax) return ReductionText::Kind::softmax;
  if (value.online == Value::Online::moments) return ReductionText::Kind::moments;
  if (graph_.node(value.node).op->reduction.kind == ops::Reduction::Kind::arg) return ReductionText::Kind::arg;
  return schedule::sums_in_two_parts(graph_, loops_, id) ? ReductionText::Kind::mean : ReductionText::Kind::plain;
}

/// The accumulators of a reduction and their names.
void ReductionEmitter::name_accumulators(ReductionText& reduction) {
  const auto accumulator = [&](const Code& name, DType type, const Code& identity) {
    const Code text = Code(ops::glsl_type(ops::register_type_of(type), dialect_.native_int64));
    reduction.accumulators.push_back(
        {name, text, identity, unique(name + "_shared"), is_float(type) && type != DType::f64 ? DType::f32 : type});
  };
  const Code identity = reduction_identity(graph_, *reduction.node, dialect_);
  const ValueId partner = loops_.values[reduction.id].partner;
  switch (reduction.kind) {
    case ReductionText::Kind::softmax:
      accumulator(names_.values[partner], DType::f32, "uintBitsToFloat(0xff800000u)");
      accumulator(reduction.name, DType::f32, "0.0");
      break;
    case ReductionText::Kind::moments:
      accumulator(unique(reduction.name + "_count"), DType::f32, "0.0");
      accumulator(names_.values[partner], DType::f32, "0.0");
      accumulator(reduction.name, DType::f32, "0.0");
      accumulator(unique(names_.values[partner] + "_low"), DType::f32, "0.0");
      break;
    case ReductionText::Kind::arg:
      accumulator(unique(reduction.name + "_best"), reduction.operand, identity);
      accumulator(unique(reduction.name + "_at"), DType::u32, "0xffffffffu");
      break;
    case ReductionText::Kind::mean:
      accumulator(reduction.name, reduction.operand, identity);
      accumulator(unique(reduction.name + "_low"), reduction.operand, identity);
      break;
    case ReductionText::Kind::plain:
      accumulator(reduction.prefix ? unique(reduction.name + "_carry") : reduction.name, reduction.operand, identity);
      break;
  }
}

/// Whether elements of a thread's chunk are added four at a time. Elements that a ragged row lacks may be -infinity for
/// a maximum; a mean would count them.
bool ReductionEmitter::adds_vec4s(const ReductionText& reduction) const {
  const bool scans = std::any_of(loops_.values.begin(), loops_.values.end(),
                                 [](const Value& other) { return other.kind == Value::Kind::scan; });
  if (width() != 1 || chunk_.group != 4 || scans) return false;
  const bool floats = is_float(reduction.operand) && reduction.operand != DType::f64;
  switch (reduction.kind) {
    case ReductionText::Kind::plain: return false;
    case ReductionText::Kind::softmax: return true;
    case ReductionText::Kind::mean: return floats;
    case ReductionText::Kind::moments: return !is_ragged();
    case ReductionText::Kind::arg: break;
  }
  const bool side_by_side = index::stride_of(loops_.values[reduction.id].offset, schedule_.vector_axis) == 1;
  return floats && side_by_side && !is_ragged();
}

ReductionText ReductionEmitter::make_reduction(ValueId id) {
  const Value& value = loops_.values[id];
  ReductionText reduction;
  reduction.id = id;
  reduction.level = value.level;
  reduction.node = &graph_.node(value.node);
  reduction.operand = dtype(reduction.node->operands[0]);
  reduction.name = names_.values[id];
  reduction.type = Code(ops::glsl_type(ops::register_type_of(reduction.operand), dialect_.native_int64));
  reduction.join = unique(reduction.name + "_join");
  reduction.prefix = is_scan(id);
  reduction.kind = text_kind_of(id);
  name_accumulators(reduction);
  reduction.ragged = is_ragged();
  reduction.vec4s = adds_vec4s(reduction);
  return reduction;
}

void ReductionEmitter::declare(const ReductionText& reduction) {
  for (const Accumulator& accumulator : reduction.accumulators) {
    if (width() == 1) {
      main_.line("{} {} = {};", accumulator.type, accumulator.name, accumulator.identity);
      continue;
    }
    Code all = accumulator.identity;
    for (int j = 1; j < width(); ++j) all += ", " + accumulator.identity;
    main_.line("{0} {1}[{2}] = {0}[{2}]({3});", accumulator.type, accumulator.name, width(), all);
  }
}

void ReductionEmitter::declare_accumulators(int level) {
  for (const ReductionText& reduction : reductions_) {
    if (reduction.level == level) declare(reduction);
  }
}

void ReductionEmitter::assign_identities(const ReductionText& reduction) {
  for (const Accumulator& accumulator : reduction.accumulators) {
    for (int j = 0; j < width(); ++j) main_.line("{} = {};", at(accumulator.name, j), accumulator.identity);
  }
}

/// The lines that make the result of row j of what its accumulators hold, before it is rounded.
void ReductionEmitter::finish_accumulators(const ReductionText& reduction, int j, const Code& count) {
  const Code result = at(reduction.name, j);
  const auto of_finite = [&](const Accumulator& accumulator) {
    main_.line("if (f32_magnitude_bits({}) >= 0x7f800000u) {} = uintBitsToFloat(0x7fc00000u);", at(accumulator.name, j),
               result);
  };
  // An infinite or undefined maximum leaves no number: x - infinity is NaN where x is infinite.
  if (reduction.kind == ReductionText::Kind::softmax) of_finite(reduction.accumulators[0]);
  if (reduction.kind == ReductionText::Kind::moments) of_finite(reduction.accumulators[1]);
  if (reduction.kind == ReductionText::Kind::mean) {
    const Code low = at(reduction.accumulators[1].name, j);
    if (reduction.operand == DType::f64)
      main_.line("{0} = f64_mean({0}, {1}, {2});", result, low, count);
    else
      main_.line("f32_mean_parts({}, {}, {});", result, low, count);
  } else if (reduction.node->op->reduction.kind == ops::Reduction::Kind::mean) {
    main_.line("{0} = {0} / {1}({2});", result, reduction.type, count);
  }
}

/// An argmax or argmin has the position as its result.
void ReductionEmitter::finish_positions(const ReductionText& reduction) {
  const Code position = reduction.accumulators[1].name;
  if (width() > 1) main_.line("int {}[{}];", reduction.name, width());
  for (int j = 0; j < width(); ++j)
    main_.line("{}{} = int({});", width() == 1 ? "int " : "", at(reduction.name, j), at(position, j));
}

void ReductionEmitter::finish_reductions(int level) {
  const Code count = numbers_.size(loops_.reduction_count());
  for (const ReductionText& reduction : reductions_) {
    if (reduction.level != level || reduction.prefix) continue;
    const Value& value = loops_.values[reduction.id];
    const bool pair = value.online != Value::Online::no;
    for (int j = 0; j < width(); ++j) {
      finish_accumulators(reduction, j, count);
      if (reduction.kind == ReductionText::Kind::arg) continue;
      round_result(reduction.node->type.dtype, at(reduction.name, j));
      if (pair) round_result(dtype_of(loops_.values[value.partner]), at(names_.values[value.partner], j));
    }
    if (reduction.kind == ReductionText::Kind::arg) finish_positions(reduction);
    row_scope_.names[reduction.id] = reduction.name;
    if (pair) row_scope_.names[value.partner] = names_.values[value.partner];
  }
}

Code ReductionEmitter::narrowed(DType type, const Code& text) const {
  return is_narrowed(type) ? narrow(type, dialect_, text) : text;
}

void ReductionEmitter::round_result(DType type, const Code& result) {
  if (is_narrowed(type)) main_.line("{} = {};", result, narrowed(type, result));
}

void ReductionEmitter::set_parallel_axes(Scope& scope, bool element) const {
  Sizes sizes;
  std::vector<int> ids;
  for (std::size_t i = 0; i < loops_.axes.size(); ++i) {
    if (loops_.axes[i].role == segment::Role::reduction) continue;
    sizes.push_back(loops_.axes[i].size);
    ids.push_back(static_cast<int>(i));
  }
  if (sizes.empty()) return;
  if (params_.vector_rows) sizes.back() /= chunk_.elements;
  const std::vector<Expr> coordinates =
      index::delinearize(Expr::axis(kRow, std::max<std::int64_t>(schedule_.launch.parallel_chunks, 2)), sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(ids[i], coordinates[i]);
  if (!params_.vector_rows) return;
  Expr& inner = scope.axes.at(ids.back());
  inner = inner * chunk_.elements;
  if (element && chunk_.elements > 1) inner = inner + Expr::axis(kElement, chunk_.elements);
}

void ReductionEmitter::set_reduction_axes(Scope& scope, bool element) const {
  Sizes sizes;
  std::vector<int> ids;
  for (std::size_t i = 0; i < loops_.axes.size(); ++i) {
    if (loops_.axes[i].role != segment::Role::reduction) continue;
    sizes.push_back(loops_.axes[i].size);
    ids.push_back(static_cast<int>(i));
  }
  const bool vectors = !params_.vector_rows;
  if (vectors) sizes.back() = schedule::ceil_div(sizes.back(), chunk_.elements);
  const std::vector<Expr> coordinates =
      index::delinearize(Expr::axis(kColumn, std::max<std::int64_t>(schedule_.launch.reduction_chunks, 2)), sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(ids[i], coordinates[i]);
  if (!vectors) return;
  Expr& inner = scope.axes.at(ids.back());
  inner = inner * chunk_.elements;
  if (element && chunk_.elements > 1) inner = inner + Expr::axis(kElement, chunk_.elements);
}

void ReductionEmitter::set_row_element(Scope& scope, int j) const {
  scope.axes.clear();
  scope.known.clear();
  set_parallel_axes(scope, true);
  for (auto& entry : scope.axes) entry.second = index::substitute(entry.second, {{kElement, Expr(j)}});
}

Result<void> ReductionEmitter::row_values(int level) {
  std::vector<ValueId> own;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    const bool reductions = value.kind == Value::Kind::reduction || value.kind == Value::Kind::sort;
    if (reductions || is_literal(id) || is_contracted(id) || loops_.per_element(value) || value.level != level)
      continue;
    // What only stores of the row need is computed there, by the thread that stores: a gathered label waits for two
    // loads.
    if (width() == 1 && !needed_by_elements_[id]) continue;
    if (width() == 1 || !varies(id)) {
      VKF_CHECK_OK(emit_value(row_scope_, id));
    } else {
      own.push_back(id);
    }
  }
  return own.empty() ? Result<void>() : values_of_each_row(level, own);
}

/// What values of a row are computed from, apart from each other.
std::vector<ValueId> ReductionEmitter::inputs_of(const std::vector<ValueId>& own) const {
  std::vector<ValueId> inputs;
  const std::set<ValueId> inside(own.begin(), own.end());
  const auto add = [&](ValueId id) {
    if (is_literal(id) || inside.count(id) != 0 || is_contracted(id)) return;
    if (std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
  };
  for (ValueId id : own) {
    for (ValueId operand : loops_.values[id].operands) {
      add(operand);
      if (!is_contracted(operand)) continue;
      for (ValueId factor : loops_.values[operand].operands) add(factor);
    }
    for (ValueId data : loops_.values[id].data) add(data);
  }
  return inputs;
}

/// The function of one row that computes values which are known after a level's reductions.
Result<Code> ReductionEmitter::row_function(int level, const std::vector<ValueId>& own,
                                            const std::vector<ValueId>& inputs) {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_parallel_axes(scope, true);
  scope.axis_names = {{kRow, "row"}, {kElement, "j"}};
  for (ValueId id : inputs) scope.names[id] = names_.values[id];
  body.indent();
  VKF_CHECK_OK(emit_values(scope, own));
  Code function = unique(code("row{}", level));
  Code outs;
  for (ValueId id : own) {
    body.line("{}_row = {};", names_.values[id], use(scope, id));
    outs += (outs.empty() ? "out " : ", out ") + scalar_type(loops_.values[id].node) + " " + names_.values[id] + "_row";
  }
  Code parameters = "uint row, uint j";
  for (ValueId id : inputs) parameters += ", " + scalar_type(loops_.values[id].node) + " " + names_.values[id];
  functions_.line("// What one row knows after {} fold{}.", level, level == 1 ? "" : "s");
  functions_.open("void {}({}, {}) {{", function, parameters, outs);
  functions_.raw(body.take());
  functions_.close();
  functions_.blank();
  return function;
}

/// One call for each of the rows that a thread owns.
Result<void> ReductionEmitter::values_of_each_row(int level, const std::vector<ValueId>& own) {
  const std::vector<ValueId> inputs = inputs_of(own);
  VKF_TRY(function, row_function(level, own, inputs));
  for (ValueId id : own) {
    main_.line("{} {}[{}];", scalar_type(loops_.values[id].node), names_.values[id], width());
    row_scope_.names[id] = names_.values[id];
  }
  for (int j = 0; j < width(); ++j) {
    Code arguments = code("row, {}u", j);
    for (ValueId id : inputs)
      arguments += ", " + (varies(id) ? at(row_scope_.names.at(id), j) : row_scope_.names.at(id));
    for (ValueId id : own) arguments += ", " + at(names_.values[id], j);
    main_.line("{}({});", function, arguments);
  }
  return {};
}

Result<void> ReductionEmitter::emit_backward_slice(Scope& scope, ValueId root) {
  std::vector<bool> needed(loops_.values.size(), false);
  needed[root] = true;
  for (ValueId id = root + 1; id-- > 0;) {
    if (!needed[id] || scope.names.count(id) != 0) continue;
    for (ValueId operand : loops_.values[id].operands) needed[operand] = true;
    for (ValueId data : loops_.values[id].data) needed[data] = true;
  }
  for (ValueId id = 0; id <= root; ++id) {
    const bool reductions =
        loops_.values[id].kind == Value::Kind::reduction || loops_.values[id].kind == Value::Kind::sort;
    if (needed[id] && !reductions) VKF_CHECK_OK(emit_value(scope, id));
  }
  return {};
}

Result<void> ReductionEmitter::row_stores(int level) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const segment::Store& store = loops_.stores[i];
    if ((store.axes & loops_.columns()) == 0 && loops_.values[store.value].level == level) own.push_back(i);
  }
  if (own.empty()) return {};
  Code who = "inside";
  if (params_.reduction_threads > 1 && !params_.packed) who += " && reduction_thread == 0u";
  if (shares_rows() && level <= dispatch_) who += " && part == 0u";  // known to all; else the last one alone is here
  main_.open("if ({}) {{", who);
  Scope scope = row_scope_;  // what two stores need is computed once
  for (std::size_t i : own) VKF_CHECK_OK(store_rows(scope, i));
  main_.close();
  return {};
}

Result<void> ReductionEmitter::store_rows(Scope& shared, std::size_t i) {
  const segment::Store& store = loops_.stores[i];
  if (width() == 1) VKF_CHECK_OK(emit_backward_slice(shared, store.value));
  Scope scope = shared;
  const Code value = use(scope, store.value);
  if (width() == 1) {
    store_scalar(scope, i, value);
    return {};
  }
  const auto of_row = [&](int j) { return is_literal(store.value) || !varies(store.value) ? value : at(value, j); };
  if (schedule_.stores[i].kind == AccessKind::vector) {
    for (int g = 0; g < chunk_.groups; ++g) {
      Code parts;
      for (int k = 0; k < chunk_.group; ++k) parts += (k == 0 ? "" : ", ") + of_row(g * chunk_.group + k);
      main_.line("{0} {1} = {0}({2});", group_type_of(store.node), result_group(i, g), parts);
    }
    store_vectors(scope, i, "", "");
    return {};
  }
  for (int j = 0; j < width(); ++j) {
    Scope element = scope;
    set_row_element(element, j);
    store_scalar(element, i, of_row(j));
  }
  return {};
}

}  // namespace vkfuse::lowering

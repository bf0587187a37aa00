// The stencil template: from the rows of a window to sums.
#include <algorithm>

#include "templates/stencil/lower_emitter.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::StencilRole;

namespace {

constexpr index::AxisId kTap = 1 << 29, kLine = (1 << 29) + 64, kSerial = (1 << 29) + 128;
constexpr index::AxisId kTapNumber = kSerial + 1, kChunkElement = kSerial + 2, kRowElement = kSerial + 3;

struct LineNames {
  const char* line;
  const char* tap;
};
/// From the innermost window to the outermost.
constexpr LineNames kNames[] = {{"i", "k"}, {"line", "line_tap"}, {"sheet", "sheet_tap"}};

}  // namespace

std::vector<ValueId> StencilEmitter::values_of(StencilRole role) const {
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < params_.roles.size(); ++id) {
    if (params_.roles[id] == role && !is_literal(id)) ids.push_back(id);
  }
  return ids;
}

/// A product that a sum alone reads is added in one step, without being rounded first; see find_products.
void StencilEmitter::find_products_of_sums() {
  find_products();
  if (options_.numerics == Numerics::strict) return;
  std::vector<int> readers(loops_.values.size(), 0);
  for (const Value& value : loops_.values) {
    for (ValueId operand : value.operands) ++readers[operand];
  }
  for (const Sum& sum : sums_) {
    const Value& value = loops_.values[sum.id];
    const ValueId product = value.operands[0];
    const ops::Reduction& how = graph_.node(value.node).op->reduction;
    const Value& one = loops_.values[product];
    if (sum.in_two_parts || how.join != "add" || how.kind != ops::Reduction::Kind::plain || readers[product] != 1 ||
        params_.roles[product] != StencilRole::tap || !ops::element_row(*graph_.node(one.node).op).is_product)
      continue;
    const DType type = dtype_of(one);
    if (type == DType::f16 || type == DType::bf16 || (type == DType::f32 && is_reduced_product(loops_, product)))
      found_.contracted[product] = sum.id;
  }
}

/// What the function of a tap is given.
void StencilEmitter::find_inputs() {
  const auto add = [&](ValueId id) {
    if (is_literal(id)) return;
    if (params_.roles[id] == StencilRole::tap) return;
    if (std::find(inputs_.begin(), inputs_.end(), id) == inputs_.end()) inputs_.push_back(id);
  };
  for (ValueId id : values_of(StencilRole::tap)) {
    for (ValueId operand : loops_.values[id].operands) add(operand);
  }
  for (const Sum& sum : sums_) add(loops_.values[sum.id].operands[0]);
  std::sort(inputs_.begin(), inputs_.end());
  for (ValueId id : inputs_) {
    const bool is_read = std::any_of(reads_.begin(), reads_.end(), [&](const Read& read) { return read.value == id; });
    if (!is_read) arrays_[id] = unique(names_.values[id] + "_at");
  }
}

/// What differs along a chunk has an array, too, where windows or weights are computed of it.
void StencilEmitter::find_arrays_of_fixed() {
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (params_.roles[id] != StencilRole::window && params_.roles[id] != StencilRole::weight) continue;
    if (is_weight_of_vectors(id) && arrays_.count(id) == 0) arrays_[id] = unique(names_.values[id] + "_at");
    for (ValueId operand : loops_.values[id].operands) {
      if (params_.roles[operand] == StencilRole::fixed && varies_along_chunk(operand) && arrays_.count(operand) == 0)
        arrays_[operand] = unique(names_.values[operand] + "_at");
    }
  }
}

/// The elements `j` of what a block has arrays of.
void StencilEmitter::name_fixed(Scope& scope) const {
  for (const auto& [id, array] : arrays_) {
    if (params_.roles[id] == StencilRole::fixed && varies_along_chunk(id)) scope.names[id] = array + "[j]";
  }
}

void StencilEmitter::add_to_sum(Scope& scope, const Sum& sum) const {
  Writer& out = *scope.out;
  const Value& value = loops_.values[sum.id];
  const Code& name = names_.values[sum.id];
  const ValueId operand = value.operands[0];
  if (is_contracted(operand)) {
    const std::vector<ValueId>& factors = loops_.values[operand].operands;
    out.line("precise float {0}_more = fma({1}, {2}, {0});", name, use(scope, factors[0]), use(scope, factors[1]));
    out.line("{0} = {0}_more;", name);
    return;
  }
  if (sum.in_two_parts) {
    out.line("f32_add_term({}, {}_low, {});", name, name, use(scope, operand));
    return;
  }
  const ir::Node& node = graph_.node(value.node);
  const DType type = dtype(node.operands[0]);
  const DType in_register = is_float(type) ? DType::f32 : type;
  const Code joined = expression(ops::row(node.op->reduction.join), in_register, dialect_,
                                 std::vector<Code>{name, use(scope, operand)});
  out.line("{}{} {}_more = {};", is_float(type) ? "precise " : "", scalar_type(node.operands[0]), name, joined);
  out.line("{0} = {0}_more;", name);
}

Result<void> StencilEmitter::tap_function() {
  Scope scope;
  Writer body;
  scope.out = &body;
  std::vector<Code> parameters;
  for (ValueId id : inputs_) {
    scope.names[id] = names_.values[id];
    parameters.push_back(code("{} {}", scalar_type(loops_.values[id].node), names_.values[id]));
  }
  body.indent();
  for (ValueId id : values_of(StencilRole::tap)) {
    if (!is_contracted(id)) VKF_CHECK_OK(emit_value(scope, id));
  }
  for (const Sum& sum : sums_) {
    const Code type = scalar_type(graph_.node(loops_.values[sum.id].node).operands[0]);
    parameters.push_back(code("inout {} {}", type, names_.values[sum.id]));
    if (sum.in_two_parts) parameters.push_back(code("inout {} {}_low", type, names_.values[sum.id]));
    add_to_sum(scope, sum);
  }
  functions_.line("// One tap of one result.");
  functions_.open("void tap({}) {{", listed(parameters));
  functions_.raw(body.take());
  functions_.close();
  functions_.blank();
  return {};
}

/// Of a chunk, where they differ along it.
Result<void> StencilEmitter::values_at(StencilRole role, Scope& scope) {
  const std::vector<ValueId> values = values_of(role);
  std::vector<ValueId> spread;
  for (ValueId id : values) {
    if (varies_along_chunk(id))
      spread.push_back(id);
    else
      VKF_CHECK_OK(emit_value(scope, id));
  }
  if (spread.empty()) return {};
  for (ValueId id : spread) {
    if (arrays_.count(id) != 0)
      main_.line("{} {}[{}];", scalar_type(loops_.values[id].node), arrays_.at(id), chunk_.elements);
  }
  Scope inner = scope;
  std::vector<ValueId> one_by_one;
  for (ValueId id : spread) {
    if (!is_weight_of_vectors(id)) {
      one_by_one.push_back(id);
      continue;
    }
    Scope first = scope;
    read_vectors(first, {id, id, false, arrays_.at(id), true}, {}, "0u");
    inner.names[id] = arrays_.at(id) + "[j]";
  }
  if (one_by_one.empty()) return {};
  main_.open_unrolled("j", chunk_.elements);
  inner.axes[blocks_.local_axis(params_.chunk_axis)] = Expr::axis(kChunkElement, chunk_.elements);
  inner.axis_names[kChunkElement] = "j";
  if (role != StencilRole::fixed) name_fixed(inner);
  VKF_CHECK_OK(emit_values(inner, one_by_one));
  for (ValueId id : one_by_one) {
    if (arrays_.count(id) != 0) main_.line("{}[j] = {};", arrays_.at(id), use(inner, id));
  }
  main_.close();
  return {};
}

bool StencilEmitter::varies_along_chunk(ValueId id) const {
  return chunk_.elements > 1 && ((loops_.values[id].axes >> blocks_.local_axis(params_.chunk_axis)) & 1u) != 0;
}

bool StencilEmitter::is_weight_of_vectors(ValueId id) const {
  return params_.roles[id] == StencilRole::weight && loops_.values[id].kind == Value::Kind::load &&
         schedule_.loads[id].kind == schedule::AccessKind::vector && varies_along_chunk(id);
}

Result<void> StencilEmitter::fixed_values(Scope& scope) { return values_at(StencilRole::fixed, scope); }

/// Reduction axes without windows are a loop.
Result<void> StencilEmitter::serial_positions(const Scope& scope) {
  Scope inner = scope;
  if (!params_.serial.empty()) {
    Sizes sizes;
    std::int64_t count = 1;
    for (int axis : params_.serial) {
      sizes.push_back(loops_.axes[static_cast<std::size_t>(axis)].size);
      count *= sizes.back();
    }
    main_.open("for (uint serial = 0u; serial < {}; ++serial) {{", numbers_.size(count));
    inner.axis_names[kSerial] = "serial";
    const std::vector<Expr> positions = index::delinearize(Expr::axis(kSerial, count), sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      inner.axes[params_.serial[i]] = positions[i];
      scoped(inner, positions[i]);
    }
  }
  if (params_.keeps_weights) VKF_CHECK_OK(kept_weights(inner));
  VKF_CHECK_OK(window_lines(0, inner));
  if (!params_.serial.empty()) main_.close();
  return {};
}

Result<void> StencilEmitter::kept_weights(const Scope& scope) {
  Sizes sizes;
  std::int64_t count = 1;
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    sizes.push_back(blocks_.taps(w));
    count *= sizes.back();
  }
  bool any = false;
  for (ValueId id : values_of(StencilRole::weight)) {
    if (arrays_.count(id) == 0) continue;
    main_.line("{} {}[{}];", scalar_type(loops_.values[id].node), arrays_.at(id), count);
    any = true;
  }
  if (!any) return {};
  main_.open_unrolled("t", count);
  Scope inner = scope;
  inner.axis_names[kTapNumber] = "t";
  const std::vector<Expr> taps = index::delinearize(Expr::axis(kTapNumber, count), sizes);
  for (std::size_t w = 0; w < params_.windows.size(); ++w) inner.axes[window(w).tap] = taps[w];
  VKF_CHECK_OK(emit_values(inner, values_of(StencilRole::weight)));
  for (ValueId id : values_of(StencilRole::weight)) {
    if (arrays_.count(id) != 0) main_.line("{}[t] = {};", arrays_.at(id), use(inner, id));
  }
  main_.close();
  return {};
}

/// Whether lines are written one after the other, as a driver does not unroll loops of so many iterations and weights
/// in registers would be indexed by the number of a line.
bool StencilEmitter::writes_lines_out() const {
  std::int64_t iterations = count_;
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    const bool is_row = params_.has_row && w + 1 == params_.windows.size();
    iterations *= is_row || block_extent(w) == 1 ? blocks_.taps(w) : blocks_.window_extent(w);
  }
  return params_.keeps_weights && iterations > target_.workarounds.unrolled_iterations;
}

/// The loops over lines of the window: those that taps are along where a block has one result, and of all that a block
/// reads where several share them.
Result<void> StencilEmitter::window_lines(std::size_t number, const Scope& scope) {
  const std::size_t lines = params_.windows.size() - (params_.has_row ? 1 : 0);
  if (number == lines) return line_of_window(scope);
  Scope inner = scope;
  const LineNames& names = kNames[params_.windows.size() - 1 - number];
  const int w = static_cast<int>(number);
  const Expr start = blocks_.start(window(number).position) * window(number).step;
  if (blocks_.extent(window(number).position) == 1) {
    main_.open("for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", names.tap, blocks_.taps(number));
    const Expr tap = Expr::axis(kTap + w, blocks_.taps(number));
    inner.axis_names[kTap + w] = names.tap;
    inner.axes[window(number).tap] = tap;
    inner.axes[schedule::kWindowAxis + w] = in_scope(scope, start) + tap * window(number).dilation;
  } else {
    if (writes_lines_out())
      main_.open_written_out(names.line, blocks_.window_extent(number));
    else
      main_.open_unrolled(names.line, blocks_.window_extent(number));
    inner.axis_names[kLine + w] = names.line;
    inner.axes[schedule::kWindowAxis + w] =
        in_scope(scope, start) + Expr::axis(kLine + w, blocks_.window_extent(number));
  }
  VKF_CHECK_OK(window_lines(number + 1, inner));
  main_.close();
  return {};
}

Result<void> StencilEmitter::line_of_window(const Scope& scope) {
  Scope inner = scope;
  if (params_.has_row) {
    const auto last = static_cast<int>(params_.windows.size()) - 1;
    inner.axes[schedule::kWindowAxis + last] =
        in_scope(scope, blocks_.start(window(params_.windows.size() - 1).position) * params_.windows.back().step);
  }
  for (const Read& one : reads_) read(inner, one);
  VKF_CHECK_OK(computed_elements(inner));
  return taps_of_line(0, scope);
}

/// What is known of the element `j` at a position of the row.
void StencilEmitter::name_elements(Scope& scope, const Code& position) const {
  for (const Read& one : reads_)
    scope.names[one.load] = scope.names[one.value] =
        code("{}[{}]", one.array, window_index(position, "j", one.along_chunk));
  name_fixed(scope);
}

/// Values of the window that are computed of what is read.
Result<void> StencilEmitter::computed_elements(const Scope& scope) {
  std::vector<ValueId> outputs;
  for (ValueId id : inputs_) {
    if (params_.roles[id] == StencilRole::window && arrays_.count(id) != 0) outputs.push_back(id);
  }
  if (outputs.empty()) return {};
  for (ValueId id : outputs) {
    main_.line("{} {}[{}];", scalar_type(loops_.values[id].node), arrays_.at(id),
               row_extent() * (computes_chunks() ? chunk_.elements : 1));
  }
  Scope inner = scope;
  if (params_.has_row) {
    main_.open_unrolled("i", row_extent());
    inner.axis_names[kRowElement] = "i";
    Expr& at = inner.axes.at(schedule::kWindowAxis + static_cast<int>(params_.windows.size()) - 1);
    at = at + Expr::axis(kRowElement, row_extent());
  }
  if (computes_chunks()) {
    main_.open_unrolled("j", chunk_.elements);
    inner.axis_names[kChunkElement] = "j";
    inner.axes[blocks_.local_axis(params_.chunk_axis)] = Expr::axis(kChunkElement, chunk_.elements);
  }
  const Code i = params_.has_row ? Code("i") : Code::zero();
  name_elements(inner, i);
  VKF_CHECK_OK(emit_values(inner, values_of(StencilRole::window)));
  for (ValueId id : outputs)
    main_.line("{}[{}] = {};", arrays_.at(id), window_index(i, "j", computes_chunks()), use(inner, id));
  if (computes_chunks()) main_.close();
  if (params_.has_row) main_.close();
  return {};
}

/// Where a position of the row, and an element of its chunk, is in an array.
Code StencilEmitter::window_index(const Code& position, const Code& element, bool along_chunk) const {
  if (!along_chunk) return position;
  if (position.is_zero()) return element;
  return code("{} * {}u + {}", position.parenthesised(), chunk_.elements, element);
}

/// The results that a line is a line of: one tap of each.
Result<void> StencilEmitter::taps_of_line(std::size_t number, const Scope& scope) {
  const std::size_t lines = params_.windows.size() - (params_.has_row ? 1 : 0);
  if (number == lines) return taps_of_row(scope);
  const schedule::WindowAxis& one = window(number);
  if (block_extent(number) == 1) return taps_of_line(number + 1, scope);
  const LineNames& names = kNames[params_.windows.size() - 1 - number];
  const std::string_view chunk = chunk_name(number);
  main_.open_unrolled(chunk, block_extent(number));
  const Code before = one.step == 1 ? Code(chunk) : code("{} * {}u", chunk, one.step);
  const Code taps = code("{}u", blocks_.taps(number));
  if (one.dilation == 1) {
    main_.line("uint {} = {} - {};", names.tap, names.line, before);
    main_.open("if ({} < {}) {{", names.tap, taps);
  } else {
    main_.line("uint {} = ({} - {}) / {}u;", names.tap, names.line, before, one.dilation);
    main_.open("if ({0} < {1} && {2} == {3} + {0} * {4}u) {{", names.tap, taps, names.line, before, one.dilation);
  }
  Scope inner = scope;
  const int w = static_cast<int>(number);
  inner.axis_names[kTap + w] = names.tap;
  inner.axes[one.tap] = Expr::axis(kTap + w, blocks_.taps(number));
  VKF_CHECK_OK(taps_of_line(number + 1, inner));
  main_.close();
  main_.close();
  return {};
}

Result<void> StencilEmitter::taps_of_row(Scope scope) {
  const std::size_t last = params_.windows.size() - 1;
  if (params_.has_row) {
    main_.open_unrolled("k", blocks_.taps(last));
    const auto w = static_cast<int>(last);
    scope.axis_names[kTap + w] = "k";
    scope.axes[window(last).tap] = Expr::axis(kTap + w, blocks_.taps(last));
  }
  if (!params_.keeps_weights) VKF_CHECK_OK(values_at(StencilRole::weight, scope));
  const bool chunks = params_.has_row && block_extent(last) > 1;
  if (chunks) main_.open_unrolled(chunk_name(last), block_extent(last));
  if (chunk_.elements > 1) main_.open_unrolled("j", chunk_.elements);
  call_tap(scope);
  if (chunk_.elements > 1) main_.close();
  if (chunks) main_.close();
  if (params_.has_row) main_.close();
  return {};
}

/// The position in a row that a tap of a chunk's element, or of a chunk, is at.
Code StencilEmitter::position_in_row(const Code& element) const {
  if (!params_.has_row) return Code::zero();
  const std::size_t last = params_.windows.size() - 1;
  const schedule::WindowAxis& row = window(last);
  const Code tap = row.dilation == 1 ? Code("k") : code("k * {}u", row.dilation);
  const Code own = params_.along_window ? element : block_extent(last) > 1 ? Code(chunk_name(last)) : Code::zero();
  if (own.is_zero()) return tap;
  return code("{} + {}", row.step == 1 ? own : code("{} * {}u", own, row.step), tap);
}

/// Which of all taps, in row-major order.
Code StencilEmitter::number_of_tap() const {
  Code number;
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    const Code tap = kNames[params_.windows.size() - 1 - w].tap;
    number = number.empty() ? tap : code("{} * {}u + {}", number.parenthesised(), blocks_.taps(w), tap);
  }
  return number;
}

/// What the function of a tap is given for a value.
Code StencilEmitter::tap_argument(const Scope& scope, ValueId id, const Code& element) const {
  const auto read = std::find_if(reads_.begin(), reads_.end(), [&](const Read& one) { return one.value == id; });
  if (read != reads_.end())
    return code("{}[{}]", read->array, window_index(position_in_row(element), element, read->along_chunk));
  if (params_.roles[id] == StencilRole::window)
    return code("{}[{}]", arrays_.at(id), window_index(position_in_row(element), element, computes_chunks()));
  if (params_.roles[id] == StencilRole::weight && params_.keeps_weights)
    return code("{}[{}]", arrays_.at(id), number_of_tap());
  return varies_along_chunk(id) ? code("{}[{}]", arrays_.at(id), element) : use(scope, id);
}

void StencilEmitter::call_tap(const Scope& scope) {
  const Code element = chunk_.elements > 1 ? Code("j") : Code::zero();
  std::vector<Code> arguments;
  for (ValueId id : inputs_) arguments.push_back(tap_argument(scope, id, element));
  const Code at = place(element);
  for (const Sum& sum : sums_) {
    arguments.push_back(code("{}[{}]", sum.name, at));
    if (sum.in_two_parts) arguments.push_back(code("{}[{}]", sum.low, at));
  }
  main_.line("tap({});", listed(arguments));
}

}  // namespace vkfuse::lowering

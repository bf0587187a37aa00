// Factors and results of the templates that multiply through shared memory.
#include "lowering/tile_operands.hpp"

#include <algorithm>
#include <set>

#include "schedule/operands.hpp"

namespace vkfuse::lowering {

using index::Expr;
using schedule::AccessKind;

namespace {

/// What so many numbers are an element of an array as.
std::string tile_word(DType dtype, int count) {
  return count == 1 ? std::string(component(dtype)) : std::string(word_type(size_of(dtype) * count));
}

std::string joined(const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, ", ")); }

}  // namespace

// Parts. ------------------------------------------------------------------------------------------------

OperandEmitter::Part OperandEmitter::make_part(std::string name, index::AxisId own, segment::AxisSet along,
                                               int elements, const std::vector<ValueId>& values,
                                               const std::vector<ValueId>& requested,
                                               const std::vector<ValueId>& known) const {
  Part part;
  part.name = std::move(name);
  part.own = own;
  part.along = along;
  part.elements = elements;
  std::set<ValueId> used(requested.begin(), requested.end());  // by the function
  // What depends on what is passed is computed nowhere else.
  std::set<ValueId> after(known.begin(), known.end());
  for (ValueId id : values) {
    const Value& value = loops_.values[id];
    if (is_literal(id) || std::find(known.begin(), known.end(), id) != known.end()) continue;
    const auto sums = [&](ValueId operand) { return after.count(operand) != 0; };
    const bool summed = std::any_of(value.operands.begin(), value.operands.end(), sums) ||
                        std::any_of(value.data.begin(), value.data.end(), sums);
    if (summed) after.insert(id);
    if (value.kind == Value::Kind::load && (schedule_.loads[id].kind == AccessKind::vector || is_unaligned(id))) {
      part.vectors.push_back(id);
    } else if (summed || (value.axes & along) != 0) {
      part.per_element.push_back(id);
    } else {
      part.per_chunk.push_back(id);
    }
  }
  for (ValueId id : part.per_element) {
    used.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    used.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  for (const std::vector<ValueId>* list : {&part.vectors, &part.per_chunk}) {
    for (ValueId id : *list) {
      if (used.count(id) != 0) part.function_inputs.push_back(id);
    }
  }
  part.function_inputs.insert(part.function_inputs.end(), known.begin(), known.end());
  return part;
}

OperandEmitter::TileOperand OperandEmitter::make_tile_operand(ValueId value, const std::vector<ValueId>& backward_slice,
                                                              bool along_k, bool flattened, int elements,
                                                              const Counted& across, const Counted& depth, int extent,
                                                              int k_extent,
                                                              std::vector<std::pair<ValueId, std::string>> beside,
                                                              const std::map<ValueId, std::string>& of_rows) {
  TileOperand tile_operand;
  tile_operand.value = value;
  tile_operand.across = across.id;
  tile_operand.depth = depth.id;
  tile_operand.extent = extent;
  tile_operand.k_extent = k_extent;
  tile_operand.beside = std::move(beside);
  const Counted& own = along_k ? depth : across;
  std::vector<ValueId> requested{value};
  for (const auto& other : tile_operand.beside) requested.push_back(other.first);
  segment::AxisSet along = 0;
  for (int axis : own.axes) along = (flattened ? along : 0) | segment::AxisSet{1} << axis;
  std::vector<ValueId> known;
  const auto asks = [&](ValueId user, ValueId id) {
    return std::find(loops_.values[user].operands.begin(), loops_.values[user].operands.end(), id) !=
           loops_.values[user].operands.end();
  };
  for (const auto& row : of_rows) {
    const bool wants = std::any_of(backward_slice.begin(), backward_slice.end(),
                                   [&](ValueId user) { return asks(user, row.first); }) ||
                       std::find(requested.begin(), requested.end(), row.first) != requested.end();
    if (!wants) continue;
    known.push_back(row.first);
    tile_operand.of_rows.insert(row);
  }
  tile_operand.part =
      make_part(unique(value_names_[value] + "_factor"), own.id, along, elements, backward_slice, requested, known);
  tile_operand.part.flattened = flattened;
  tile_operand.plain =
      backward_slice.size() == 1 && tile_operand.part.vectors.size() == 1 && tile_operand.beside.empty();
  tile_operand.tile = unique(value_names_[value] + "_tile");
  tile_operand.units = std::int64_t{extent} * k_extent / elements;
  tile_operand.iterations = schedule::ceil_div(tile_operand.units, schedule_.workgroup);
  int words = 0;
  for (ValueId id : tile_operand.part.vectors)
    words += schedule::registers_of_chunk(schedule_.loads[id], size_of(dtype_of(loops_.values[id])), elements);
  const bool data = std::any_of(tile_operand.part.vectors.begin(), tile_operand.part.vectors.end(),
                                [&](ValueId id) { return !loops_.values[id].data.empty(); });
  tile_operand.prefetched =
      target_.type != DeviceType::cpu && !data && schedule::is_double_buffered(words, tile_operand.iterations);
  unroll_where_it_pays(tile_operand);
  return tile_operand;
}

/// On a GPU, registers are told apart by the counter. On a CPU they are memory anyway, and what is unrolled is compiled
/// as often.
void OperandEmitter::unroll_where_it_pays(TileOperand& tile_operand) const {
  tile_operand.unrolled = tile_operand.prefetched || (!tile_operand.beside.empty() && target_.type != DeviceType::cpu);
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
  elements_ = part.elements;
  group_ = std::min(4, elements_);
  groups_ = elements_ / group_;
}

Result<void> OperandEmitter::element_function(Part& part, const std::function<void(Scope&)>& last,
                                              const std::vector<std::string>& results) {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, part, true);
  const auto own = own_axes(part);
  for (const auto& [axis, name] : own) scope.axis_names.emplace(axis, name);
  for (ValueId id : part.function_inputs) scope.names[id] = value_names_[id];
  body.indent();
  for (ValueId id : part.function_inputs) {
    const Value& value = loops_.values[id];
    if (value.kind != Value::Kind::reduction && value.kind != Value::Kind::nested &&
        value.kind != Value::Kind::epilogue)
      continue;
    const DType type = dtype(value.node);
    if (is_float(type) && options_.numerics != Numerics::strict) continue;
    const std::string text = ops::narrow(type, value_names_[id]);
    if (text != value_names_[id]) body.line("{} = {};", value_names_[id], text);
  }
  VKF_CHECK_OK(emit_values(scope, part.per_element));
  last(scope);
  const std::string text = body.take();
  std::vector<std::string> parameters;
  for (const auto& axis : own) {
    if (!mentions(text, axis.second)) continue;
    parameters.push_back("uint " + axis.second);
    part.coordinates.push_back(axis.second);
  }
  for (ValueId id : part.function_inputs)
    parameters.push_back(scalar_type(loops_.values[id].node) + " " + value_names_[id]);
  parameters.insert(parameters.end(), results.begin(), results.end());
  functions_.open("void {}_element({}) {{", part.name, joined(parameters));
  functions_.raw(text);
  functions_.close();
  functions_.blank();
  return {};
}

Result<void> OperandEmitter::tile_operand_function(TileOperand& tile_operand) {
  if (tile_operand.plain || tile_operand.as_read || tile_operand.copied) return {};
  std::vector<std::string> results = {"out " + scalar_type(loops_.values[tile_operand.value].node) + " tile_operand"};
  for (const auto& [id, name] : tile_operand.beside)
    results.push_back(fmt::format("out {} {}", scalar_type(loops_.values[id].node), name));
  functions_.line("// One element of an operand.");
  return element_function(
      tile_operand.part,
      [&](Scope& scope) {
        scope.out->line("tile_operand = {};", use(scope, tile_operand.value));
        for (const auto& [id, name] : tile_operand.beside) scope.out->line("{} = {};", name, use(scope, id));
      },
      results);
}

Result<void> OperandEmitter::result_function(Part& part, const std::function<bool(std::size_t store)>& stores_here) {
  std::vector<std::string> parameters;
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
          const std::string value = use(scope, loops_.stores[i].value);
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
std::vector<std::string> OperandEmitter::arguments(Scope& scope, const Part& part, int element,
                                                   const std::map<ValueId, std::string>& groups) const {
  std::vector<std::string> all;
  for (const std::string& name : part.coordinates) all.push_back(name == "j" ? fmt::format("{}u", element) : name);
  for (ValueId id : part.function_inputs) {
    const bool passed = groups.count(id) == 0 && scope.names.count(id) == 0 && !is_literal(id);
    if (passed) continue;  // the caller adds it
    const auto group = groups.find(id);
    all.push_back(group != groups.end() ? element_of(group->second, element % group_, group_) : use(scope, id));
  }
  return all;
}

Result<std::map<ValueId, std::string>> OperandEmitter::load_chunk(Scope& scope, const Part& part,
                                                                  const std::string& loaded) {
  VKF_CHECK_OK(emit_values(scope, part.per_chunk));
  for (ValueId id : part.vectors) {
    if (loaded.empty()) load_vectors(scope, id, "");
  }
  return unpack_group(part, 0, loaded);
}

std::map<ValueId, std::string> OperandEmitter::unpack_group(const Part& part, int group,
                                                            const std::string& register_index) {
  std::map<ValueId, std::string> groups;
  for (ValueId id : part.vectors) {
    groups[id] = fmt::format("{}_{}", value_names_[id], group);
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], unpacked(id, group, register_index));
  }
  return groups;
}

// From memory to shared memory. -------------------------------------------------------------------------

/// Units whose loads a thread may have in flight; all, unless the driver's compiler is left the choice on a GPU.
int OperandEmitter::units_in_flight(const TileOperand& tile_operand) const {
  const auto all = static_cast<int>(tile_operand.iterations);
  if (!tile_operand.unrolled && schedule::has_few_registers(target_)) return 1;
  return tile_operand.unrolled || target_.type == DeviceType::cpu ? all : schedule::loads_in_flight(all);
}

void OperandEmitter::close_units(const TileOperand& tile_operand) {
  main_.close();
  const int together = units_in_flight(tile_operand);
  if (together > 1 && together < tile_operand.iterations) main_.close();
}

/// Whether a thread's units are all at the same place of their rows, which is found once then.
bool OperandEmitter::keeps_position(const TileOperand& tile_operand) const {
  return tile_operand.positions_once && !tile_operand.turned && tile_operand.units % schedule_.workgroup == 0 &&
         schedule_.workgroup % chunks_of_row(tile_operand) == 0;
}

/// Opens the loop over a thread's units, or none for one; unrolled where registers are told apart by its counter.
/// Whether every thread has a unit each time.
bool OperandEmitter::open_units(const TileOperand& tile_operand) {
  if (tile_operand.iterations > 1) {
    const int together = units_in_flight(tile_operand);
    if (together == 1) {
      main_.line("// One load at a time: lanes have few registers.");
      main_.open("[[dont_unroll]] for (uint u = 0u; u < {}u; ++u) {{", tile_operand.iterations);
    } else if (together < tile_operand.iterations) {
      main_.line("// A few loads at a time: all of them would crowd out what has been added up.");
      main_.open("[[dont_unroll]] for (uint start = 0u; start < {}u; start += {}u) {{", tile_operand.iterations,
                 together);
      main_.open("[[unroll]] for (uint u = start; u < start + {}u; ++u) {{", together);
    } else {
      // CPU drivers unroll it unless told not to, and then compile twice as long for nothing.
      main_.open("{}for (uint u = 0u; u < {}u; ++u) {{",
                 tile_operand.unrolled             ? "[[unroll]] "
                 : target_.type == DeviceType::cpu ? "[[dont_unroll]] "
                                                   : "",
                 tile_operand.iterations);
    }
    if (!keeps_position(tile_operand)) main_.line("uint unit = u * {}u + thread;", schedule_.workgroup);
  } else {
    main_.open("{{");
    if (tile_operand.unrolled || !tile_operand.beside.empty()) main_.line("const uint u = 0u;");
    if (!keeps_position(tile_operand)) main_.line("uint unit = thread;");
  }
  return tile_operand.units % schedule_.workgroup == 0;
}

std::string OperandEmitter::limited(const std::string& position, Extent all, int piece) {
  return divides(piece, all) ? position : fmt::format("min({}, {} - 1u)", position, numbers_.size(all.count));
}

void OperandEmitter::position_unit(const TileOperand& tile_operand, const std::string& across,
                                   const std::string& depth) {
  const bool along_k = tile_operand.along_k();
  const int elements = tile_operand.part.elements;
  const Counted& own_across = counted(tile_operand.across);
  const Counted& owns_k = counted(tile_operand.depth);
  const Extent chunks = extent(own_across.axes) / (along_k ? 1 : elements);
  const Extent k_chunks = extent(owns_k.axes) / (along_k ? elements : 1);
  const int per_tile = tile_operand.extent / (along_k ? 1 : elements);
  const int per_step = tile_operand.k_extent / (along_k ? elements : tile_operand.steps());
  // Neighbouring units are neighbours in memory.
  constexpr int kRows = 4,
                kColumns =
                    8;  // of 32 threads: rows of a turned tile begin in the same bank, columns in neighbouring ones
  if (tile_operand.turned && per_tile % kRows == 0 && per_step % kColumns == 0) {
    main_.line("uint row = unit / {}u % {}u * {}u + unit % {}u;", kRows * kColumns, per_tile / kRows, kRows, kRows);
    main_.line("uint column = unit / {}u * {}u + unit / {}u % {}u;", kColumns * per_tile, kColumns, kRows, kColumns);
  } else if (keeps_position(tile_operand)) {
    const int per = chunks_of_row(tile_operand), rows = schedule_.workgroup / per;
    main_.line("uint {} = {}thread / {}u;", along_k ? "row" : "column",
               tile_operand.iterations > 1 ? fmt::format("u * {}u + ", rows) : "", per);
    main_.line("uint {} = thread % {}u;", along_k ? "column" : "row", per);
  } else if (along_k) {
    main_.line("uint row = unit / {}u;", per_step);
    main_.line("uint column = unit % {}u;", per_step);
  } else {
    main_.line("uint row = unit % {}u;", per_tile);
    main_.line("uint column = unit / {}u;", per_tile);
  }
  const auto at = [](const std::string& tile, int piece, const char* in_tile) {
    return tile.empty() ? std::string(in_tile) : fmt::format("{} * {}u + {}", tile, piece, in_tile);
  };
  main_.line("uint {} = {};", along_k ? own_across.name : "chunk",
             limited(at(across, per_tile, "row"), chunks, per_tile));
  if (tile_operand.steps() > 1) return;  // each has a depth of its own
  main_.line("uint {} = {};", along_k ? "chunk" : owns_k.name,
             limited(at(depth, per_step, "column"), k_chunks, per_step));
}

void OperandEmitter::declare_prefetch(const TileOperand& tile_operand) {
  use_chunks_of(tile_operand.part);
  for (ValueId id : tile_operand.part.vectors) {
    for (const std::string& name : raw_names(id)) {
      main_.line("{} {}{};", word_type(schedule_.loads[id].vector_bytes), name, slots(tile_operand));
    }
  }
  for (ValueId id : loads_of_chunks(tile_operand.part))
    main_.line("{} {}_ahead{};", scalar_type(loops_.values[id].node), value_names_[id], slots(tile_operand));
}

std::vector<ValueId> OperandEmitter::loads_of_chunks(const Part& part) const {
  std::vector<ValueId> loads;
  for (ValueId id : part.per_chunk) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::load && value.data.empty() && value.predicates.empty()) loads.push_back(id);
  }
  return loads;
}

Result<void> OperandEmitter::fetch(const TileOperand& tile_operand, const std::string& across,
                                   const std::string& depth) {
  use_chunks_of(tile_operand.part);
  const bool whole = open_units(tile_operand);
  if (!whole) main_.line("unit = min(unit, {}u);", tile_operand.units - 1);
  position_unit(tile_operand, across, depth);
  if (tile_operand.steps() > 1) open_steps(tile_operand, depth, nullptr);
  Scope scope = part_scope(tile_operand.part);
  for (ValueId id : tile_operand.part.vectors)
    load_vectors(scope, id, register_index(tile_operand).empty() ? " " : register_index(tile_operand));
  for (ValueId id : loads_of_chunks(tile_operand.part)) {
    VKF_CHECK_OK(emit_value(scope, id));
    main_.line("{}_ahead{} = {};", value_names_[id], register_index(tile_operand), use(scope, id));
  }
  if (tile_operand.steps() > 1) main_.close();
  close_units(tile_operand);
  return {};
}

std::string OperandEmitter::tile_operand_group(const TileOperand& tile_operand, Scope& scope, int g) {
  const std::map<ValueId, std::string> groups =
      unpack_group(tile_operand.part, g, tile_operand.prefetched ? register_index(tile_operand) : "");
  if (tile_operand.plain) return groups.at(tile_operand.value);
  std::string value = fmt::format("factor_{}", g);
  main_.line("{} {};", group_type(ops::register_type_of(dtype_of(loops_.values[tile_operand.value])), group_, dialect_),
             value);
  for (int e = 0; e < group_; ++e) {
    std::vector<std::string> passed = arguments(scope, tile_operand.part, g * group_ + e, groups);
    passed.push_back(element_of(value, e, group_));
    for (const auto& [id, name] : tile_operand.beside) {
      const std::string element = fmt::format("{}_{}", name, g * group_ + e);
      main_.line("{} {};", scalar_type(loops_.values[id].node), element);
      passed.push_back(element);
    }
    main_.line("{}_element({});", tile_operand.part.name, joined(passed));
  }
  return value;
}

void OperandEmitter::put_vec4s(const TileOperand& tile_operand, int g, const std::string& value) {
  const int elements = tile_operand.part.elements;
  if (!tile_operand.along_k() && group_ == 4) {
    main_.line("{}[column * {}u + row{}] = {};", tile_operand.tile, tile_operand.stride(),
               elements == 4 ? std::string() : fmt::format(" * {}u + {}u", elements / 4, g), value);
    return;
  }
  for (int e = 0; e < group_; ++e) {
    const int at = g * group_ + e;
    const std::string element = element_of(value, e, group_);
    if (tile_operand.along_k()) {
      const std::string column = elements == 1 ? "column" : fmt::format("(column * {}u + {}u)", elements, at);
      main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", tile_operand.tile, column, tile_operand.stride(), element);
    } else {
      const std::string row = elements == 1 ? "row" : fmt::format("(row * {}u + {}u)", elements, at);
      main_.line("{}[column * {}u + {} / 4u][{} % 4u] = {};", tile_operand.tile, tile_operand.stride(), row, row,
                 element);
    }
  }
}

std::string OperandEmitter::fragment_at(const TileOperand& tile_operand, const std::string& across,
                                        const std::string& depth, bool second) {
  const auto words = [&](const std::string& elements) {
    return tile_operand.per_word() == 1 ? elements : fmt::format("{} / {}u", elements, tile_operand.per_word());
  };
  const std::string place =
      tile_operand.rows_along_k()
          ? fmt::format("({}) * {}u + {}", across, tile_operand.row_words(), words(depth))
          : fmt::format("({}) * {}u + {}", depth, tile_operand.row_words(), words("(" + across + ")"));
  const bool rows_lie = tile_operand.rows_along_k() != second;
  return fmt::format("{}, {}{}, {}u, gl_CooperativeMatrixLayout{}Major", tile_operand.tile,
                     tile_operand.begin > 0 ? fmt::format("{}u + ", tile_operand.begin) : "", place,
                     tile_operand.row_words(), rows_lie ? "Row" : "Column");
}

void OperandEmitter::declare_tile(const TileOperand& tile_operand) {
  if (tile_operand.unit) {
    shared_.line("shared {} {}[{}];", tile_word(*tile_operand.unit, tile_operand.per_word()), tile_operand.tile,
                 tile_operand.rows() * tile_operand.row_words());
  } else if (tile_operand.integer_dot) {
    shared_.line("shared ivec4 {}[{}];  // a word is four neighbours along the sum", tile_operand.tile,
                 tile_operand.k_extent / 4 * tile_operand.stride());
  } else {
    shared_.line("shared {} {}[{}];", vec4(tile_operand.value), tile_operand.tile,
                 tile_operand.k_extent * tile_operand.stride());
  }
}

Result<void> OperandEmitter::hand_over(const TileOperand& tile_operand, const std::string& across,
                                       const std::string& depth, const AfterChunk& after) {
  use_chunks_of(tile_operand.part);
  const bool whole = open_units(tile_operand);
  if (!whole) main_.open("if (unit < {}u) {{", tile_operand.units);
  position_unit(tile_operand, across, depth);
  if (tile_operand.steps() > 1) {
    VKF_CHECK_OK(gather_steps(tile_operand, depth));
    if (!whole) main_.close();
    close_units(tile_operand);
    return {};
  }
  Scope scope = part_scope(tile_operand.part);
  if (tile_operand.prefetched) {
    for (ValueId id : loads_of_chunks(tile_operand.part))
      scope.names[id] = value_names_[id] + "_ahead" + register_index(tile_operand);
  }
  for (const auto& [id, array] : tile_operand.of_rows) scope.names[id] = array + "[row]";
  for (ValueId id : tile_operand.part.per_chunk) {
    if (!tile_operand.copied && scope.names.count(id) == 0) VKF_CHECK_OK(emit_value(scope, id));
  }
  if (!tile_operand.prefetched) {
    for (ValueId id : tile_operand.part.vectors) load_vectors(scope, id, "");
  }
  const int elements = tile_operand.part.elements;
  const bool along_k = tile_operand.along_k();
  const DType type_here = dtype_of(loops_.values[tile_operand.value]);
  const std::string zero = fmt::format("{}({})", group_type(ops::register_type_of(type_here), group_, dialect_),
                                       is_float(type_here) ? "0.0" : "0");
  const Extent k_chunks = extent(counted(tile_operand.depth).axes) / (along_k ? elements : 1);
  const int per_step = tile_operand.k_extent / (along_k ? elements : 1);
  std::string inside;
  if (!divides(per_step, k_chunks)) {
    inside = fmt::format("{}column < {}", depth.empty() ? "" : fmt::format("{} * {}u + ", depth, per_step),
                         numbers_.size(k_chunks.count));
  }
  if (tile_operand.unit) {
    const std::vector<std::string> words = sub32_words(tile_operand, scope, *tile_operand.unit);
    const std::string word = tile_word(*tile_operand.unit, tile_operand.per_word());
    const std::string all = words.size() == 1 ? words.front() : fmt::format("{}({})", word, joined(words));
    main_.line("{}[{}{} * {}u + {}] = {};", tile_operand.tile,
               tile_operand.begin > 0 ? fmt::format("{}u + ", tile_operand.begin) : "", along_k ? "row" : "column",
               tile_operand.row_words(), along_k ? "column" : "row",
               inside.empty() ? all : fmt::format("{} ? {} : {}(0)", inside, all, word));
  } else if (tile_operand.integer_dot) {
    put_integer_dots(tile_operand, scope, inside);
  } else {
    for (int g = 0; g < groups_; ++g) {
      const std::string value = tile_operand_group(tile_operand, scope, g);
      if (!inside.empty()) main_.line("if (!({})) {} = {};", inside, value, zero);
      put_vec4s(tile_operand, g, value);
    }
  }
  if (after) after(inside);
  if (!whole) main_.close();
  close_units(tile_operand);
  return {};
}

// Results. ------------------------------------------------------------------------------------------------

Result<void> OperandEmitter::store_chunk(const Part& part,
                                         const std::function<std::vector<std::string>(int element)>& known,
                                         const std::string& loaded) {
  Scope scope = part_scope(part);
  VKF_TRY(groups, load_chunk(scope, part, loaded));
  for (const std::size_t s : part.stores) {
    if (schedule_.stores[s].kind == AccessKind::vector)
      main_.line("{} {};", group_type_of(loops_.stores[s].node), result_group(s, 0));
  }
  for (int e = 0; e < part.elements; ++e) {
    std::vector<std::string> passed = arguments(scope, part, e, groups);
    for (std::string& one : known(e)) passed.push_back(std::move(one));
    for (const std::size_t s : part.stores) {
      if (schedule_.stores[s].kind == AccessKind::vector) passed.push_back(element_of(result_group(s, 0), e, group_));
    }
    main_.line("{}_element({});", part.name, joined(passed));
  }
  for (const std::size_t s : part.stores) {
    if (schedule_.stores[s].kind == AccessKind::vector) store_vectors(scope, s, "", "");
  }
  return {};
}

Result<void> OperandEmitter::of_element(const std::string& name, const std::string& parameters,
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

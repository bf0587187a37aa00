// Factors and results of the templates that multiply through shared memory.
#include "codegen/factors.hpp"

#include <algorithm>
#include <set>

#include "schedule/products.hpp"

namespace vkfuse::codegen {

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

Factors::Part Factors::make_part(std::string name, index::AxisId own, segment::AxisSet along, int elements,
                                 const std::vector<ValueId>& values, const std::vector<ValueId>& wanted,
                                 const std::vector<ValueId>& known) const {
  Part part;
  part.name = std::move(name);
  part.own = own;
  part.along = along;
  part.elements = elements;
  std::set<ValueId> used(wanted.begin(), wanted.end());  // by the function
  // What depends on what is passed is computed nowhere else.
  std::set<ValueId> after(known.begin(), known.end());
  for (ValueId id : values) {
    const Value& value = loops_.values[id];
    if (is_literal(id) || std::find(known.begin(), known.end(), id) != known.end()) continue;
    const auto sums = [&](ValueId operand) { return after.count(operand) != 0; };
    const bool summed = std::any_of(value.operands.begin(), value.operands.end(), sums) ||
                        std::any_of(value.data.begin(), value.data.end(), sums);
    if (summed) after.insert(id);
    if (value.kind == Value::Kind::load && (schedule_.loads[id].kind == AccessKind::vector || is_shifted(id))) {
      part.vectors.push_back(id);
    } else if (summed || (value.axes & along) != 0) {
      part.per_element.push_back(id);
    } else {
      part.per_item.push_back(id);
    }
  }
  for (ValueId id : part.per_element) {
    used.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    used.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  for (const std::vector<ValueId>* list : {&part.vectors, &part.per_item}) {
    for (ValueId id : *list) {
      if (used.count(id) != 0) part.feeds.push_back(id);
    }
  }
  part.feeds.insert(part.feeds.end(), known.begin(), known.end());
  return part;
}

Factors::Factor Factors::make_factor(ValueId value, const std::vector<ValueId>& cone, bool along_depth, bool crosses,
                                     int elements, const Counted& across, const Counted& depth, int extent, int deep,
                                     std::vector<std::pair<ValueId, std::string>> beside,
                                     const std::map<ValueId, std::string>& of_rows) {
  Factor factor;
  factor.value = value;
  factor.across = across.id;
  factor.depth = depth.id;
  factor.extent = extent;
  factor.deep = deep;
  factor.beside = std::move(beside);
  const Counted& own = along_depth ? depth : across;
  std::vector<ValueId> wanted{value};
  for (const auto& other : factor.beside) wanted.push_back(other.first);
  segment::AxisSet along = 0;
  for (int axis : own.axes) along = (crosses ? along : 0) | segment::AxisSet{1} << axis;
  std::vector<ValueId> known;
  const auto asks = [&](ValueId user, ValueId id) {
    return std::find(loops_.values[user].operands.begin(), loops_.values[user].operands.end(), id) !=
           loops_.values[user].operands.end();
  };
  for (const auto& row : of_rows) {
    const bool wants = std::any_of(cone.begin(), cone.end(), [&](ValueId user) { return asks(user, row.first); }) ||
                       std::find(wanted.begin(), wanted.end(), row.first) != wanted.end();
    if (!wants) continue;
    known.push_back(row.first);
    factor.of_rows.insert(row);
  }
  factor.part = make_part(unique(value_names_[value] + "_factor"), own.id, along, elements, cone, wanted, known);
  factor.part.crosses = crosses;
  factor.plain = cone.size() == 1 && factor.part.vectors.size() == 1 && factor.beside.empty();
  factor.tile = unique(value_names_[value] + "_tile");
  factor.units = std::int64_t{extent} * deep / elements;
  factor.trips = schedule::ceil_div(factor.units, schedule_.workgroup);
  int words = 0;
  for (ValueId id : factor.part.vectors)
    words += schedule::registers_of_item(schedule_.loads[id], size_of(dtype_of(loops_.values[id])), elements);
  const bool data = std::any_of(factor.part.vectors.begin(), factor.part.vectors.end(),
                                [&](ValueId id) { return !loops_.values[id].data.empty(); });
  factor.ahead = target_.type != DeviceType::cpu && !data && schedule::is_on_its_way(words, factor.trips);
  unroll_where_it_pays(factor);
  return factor;
}

/// On a GPU, registers are told apart by the counter. On a CPU they are memory anyway, and what is unrolled is compiled
/// as often.
void Factors::unroll_where_it_pays(Factor& factor) const {
  factor.unrolled = factor.ahead || (!factor.beside.empty() && target_.type != DeviceType::cpu);
}

const Factors::Counted& Factors::counted(index::AxisId id) const {
  return *std::find_if(counted_.begin(), counted_.end(), [id](const Counted& one) { return one.id == id; });
}

std::vector<std::pair<index::AxisId, std::string>> Factors::own_axes(const Part& part) const {
  std::vector<std::pair<index::AxisId, std::string>> all;
  for (const Counted& one : counted_) all.emplace_back(one.id, part.own == one.id ? "item" : one.name);
  all.emplace_back(kElement, "j");
  return all;
}

void Factors::set_axes(Scope& scope, const Part& part, bool element) const {
  for (const Counted& one : counted_) {
    Sizes sizes;
    for (int axis : one.axes) sizes.push_back(loops_.axes[static_cast<std::size_t>(axis)].size);
    if (sizes.empty()) continue;
    std::int64_t all = 1;
    for (std::int64_t size : sizes) all *= size;
    if (part.own == one.id && part.crosses) {
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

Scope Factors::part_scope(const Part& part) {
  Scope scope;
  scope.out = &main_;
  for (const auto& [axis, name] : own_axes(part)) scope.axis_names.emplace(axis, name);
  set_axes(scope, part, false);
  return scope;
}

void Factors::use_items_of(const Part& part) {
  elements_ = part.elements;
  group_ = std::min(4, elements_);
  groups_ = elements_ / group_;
}

Result<void> Factors::element_function(Part& part, const std::function<void(Scope&)>& last,
                                       const std::vector<std::string>& results) {
  Scope scope;
  Writer body;
  scope.out = &body;
  set_axes(scope, part, true);
  const auto own = own_axes(part);
  for (const auto& [axis, name] : own) scope.axis_names.emplace(axis, name);
  for (ValueId id : part.feeds) scope.names[id] = value_names_[id];
  body.indent();
  for (ValueId id : part.feeds) {
    const Value& value = loops_.values[id];
    if (value.kind != Value::Kind::fold && value.kind != Value::Kind::contract && value.kind != Value::Kind::tail)
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
  for (ValueId id : part.feeds) parameters.push_back(scalar_type(loops_.values[id].node) + " " + value_names_[id]);
  parameters.insert(parameters.end(), results.begin(), results.end());
  functions_.open("void {}_element({}) {{", part.name, joined(parameters));
  functions_.raw(text);
  functions_.close();
  functions_.blank();
  return {};
}

Result<void> Factors::factor_function(Factor& factor) {
  if (factor.plain || factor.as_read || factor.moved) return {};
  std::vector<std::string> results = {"out " + scalar_type(loops_.values[factor.value].node) + " factor"};
  for (const auto& [id, name] : factor.beside)
    results.push_back(fmt::format("out {} {}", scalar_type(loops_.values[id].node), name));
  functions_.line("// One element of a factor.");
  return element_function(
      factor.part,
      [&](Scope& scope) {
        scope.out->line("factor = {};", use(scope, factor.value));
        for (const auto& [id, name] : factor.beside) scope.out->line("{} = {};", name, use(scope, id));
      },
      results);
}

Result<void> Factors::result_function(Part& part, const std::function<bool(std::size_t store)>& stores_here) {
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

/// Element `element` of the item of which main() knows the vectors' groups.
std::vector<std::string> Factors::arguments(Scope& scope, const Part& part, int element,
                                            const std::map<ValueId, std::string>& groups) const {
  std::vector<std::string> all;
  for (const std::string& name : part.coordinates) all.push_back(name == "j" ? fmt::format("{}u", element) : name);
  for (ValueId id : part.feeds) {
    const bool passed = groups.count(id) == 0 && scope.names.count(id) == 0 && !is_literal(id);
    if (passed) continue;  // the caller adds it
    const auto group = groups.find(id);
    all.push_back(group != groups.end() ? element_of(group->second, element % group_, group_) : use(scope, id));
  }
  return all;
}

Result<std::map<ValueId, std::string>> Factors::load_item(Scope& scope, const Part& part, const std::string& loaded) {
  VKF_CHECK_OK(emit_values(scope, part.per_item));
  for (ValueId id : part.vectors) {
    if (loaded.empty()) load_vectors(scope, id, "");
  }
  return unpack_group(part, 0, loaded);
}

std::map<ValueId, std::string> Factors::unpack_group(const Part& part, int group, const std::string& slot) {
  std::map<ValueId, std::string> groups;
  for (ValueId id : part.vectors) {
    groups[id] = fmt::format("{}_{}", value_names_[id], group);
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], unpacked(id, group, slot));
  }
  return groups;
}

// From memory to shared memory. -------------------------------------------------------------------------

/// Units whose loads a lane may have in flight; all, unless the driver's compiler is left the choice on a GPU.
int Factors::units_together(const Factor& factor) const {
  const auto all = static_cast<int>(factor.trips);
  if (!factor.unrolled && schedule::has_few_registers(target_)) return 1;
  return factor.unrolled || target_.type == DeviceType::cpu ? all : schedule::loads_together(all);
}

void Factors::close_units(const Factor& factor) {
  main_.close();
  const int together = units_together(factor);
  if (together > 1 && together < factor.trips) main_.close();
}

/// Whether a lane's units are all at the same place of their rows, which is found once then.
bool Factors::keeps_place(const Factor& factor) const {
  return factor.places_once && !factor.turned && factor.units % schedule_.workgroup == 0 &&
         schedule_.workgroup % items_of_row(factor) == 0;
}

/// Opens the loop over a lane's units, or none for one; unrolled where registers are told apart by its counter.
/// Whether every lane has a unit each time.
bool Factors::open_units(const Factor& factor) {
  if (factor.trips > 1) {
    const int together = units_together(factor);
    if (together == 1) {
      main_.line("// One load at a time: lanes have few registers.");
      main_.open("[[dont_unroll]] for (uint u = 0u; u < {}u; ++u) {{", factor.trips);
    } else if (together < factor.trips) {
      main_.line("// A few loads at a time: all of them would crowd out what has been added up.");
      main_.open("[[dont_unroll]] for (uint start = 0u; start < {}u; start += {}u) {{", factor.trips, together);
      main_.open("[[unroll]] for (uint u = start; u < start + {}u; ++u) {{", together);
    } else {
      // CPU drivers unroll it unless told not to, and then compile twice as long for nothing.
      main_.open("{}for (uint u = 0u; u < {}u; ++u) {{",
                 factor.unrolled                   ? "[[unroll]] "
                 : target_.type == DeviceType::cpu ? "[[dont_unroll]] "
                                                   : "",
                 factor.trips);
    }
    if (!keeps_place(factor)) main_.line("uint unit = u * {}u + lane;", schedule_.workgroup);
  } else {
    main_.open("{{");
    if (factor.unrolled || !factor.beside.empty()) main_.line("const uint u = 0u;");
    if (!keeps_place(factor)) main_.line("uint unit = lane;");
  }
  return factor.units % schedule_.workgroup == 0;
}

std::string Factors::limited(const std::string& position, Extent all, int piece) {
  return divides(piece, all) ? position : fmt::format("min({}, {} - 1u)", position, numbers_.size(all.count));
}

void Factors::place_unit(const Factor& factor, const std::string& across, const std::string& depth) {
  const bool along_depth = factor.along_depth();
  const int elements = factor.part.elements;
  const Counted& own_across = counted(factor.across);
  const Counted& own_depth = counted(factor.depth);
  const Extent items = extent(own_across.axes) / (along_depth ? 1 : elements);
  const Extent items_deep = extent(own_depth.axes) / (along_depth ? elements : 1);
  const int per_tile = factor.extent / (along_depth ? 1 : elements);
  const int per_step = factor.deep / (along_depth ? elements : factor.steps());
  // Neighbouring units are neighbours in memory.
  constexpr int kRows = 4,
                kColumns =
                    8;  // of 32 lanes: rows of a turned tile begin in the same bank, columns in neighbouring ones
  if (factor.turned && per_tile % kRows == 0 && per_step % kColumns == 0) {
    main_.line("uint row = unit / {}u % {}u * {}u + unit % {}u;", kRows * kColumns, per_tile / kRows, kRows, kRows);
    main_.line("uint column = unit / {}u * {}u + unit / {}u % {}u;", kColumns * per_tile, kColumns, kRows, kColumns);
  } else if (keeps_place(factor)) {
    const int per = items_of_row(factor), rows = schedule_.workgroup / per;
    main_.line("uint {} = {}lane / {}u;", along_depth ? "row" : "column",
               factor.trips > 1 ? fmt::format("u * {}u + ", rows) : "", per);
    main_.line("uint {} = lane % {}u;", along_depth ? "column" : "row", per);
  } else if (along_depth) {
    main_.line("uint row = unit / {}u;", per_step);
    main_.line("uint column = unit % {}u;", per_step);
  } else {
    main_.line("uint row = unit % {}u;", per_tile);
    main_.line("uint column = unit / {}u;", per_tile);
  }
  const auto at = [](const std::string& tile, int piece, const char* in_tile) {
    return tile.empty() ? std::string(in_tile) : fmt::format("{} * {}u + {}", tile, piece, in_tile);
  };
  main_.line("uint {} = {};", along_depth ? own_across.name : "item",
             limited(at(across, per_tile, "row"), items, per_tile));
  if (factor.steps() > 1) return;  // each has a depth of its own
  main_.line("uint {} = {};", along_depth ? "item" : own_depth.name,
             limited(at(depth, per_step, "column"), items_deep, per_step));
}

void Factors::declare_ahead(const Factor& factor) {
  use_items_of(factor.part);
  for (ValueId id : factor.part.vectors) {
    for (const std::string& name : raw_names(id)) {
      main_.line("{} {}{};", word_type(schedule_.loads[id].vector_bytes), name, slots(factor));
    }
  }
  for (ValueId id : loads_of_items(factor.part))
    main_.line("{} {}_ahead{};", scalar_type(loops_.values[id].node), value_names_[id], slots(factor));
}

std::vector<ValueId> Factors::loads_of_items(const Part& part) const {
  std::vector<ValueId> loads;
  for (ValueId id : part.per_item) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::load && value.data.empty() && value.guards.empty()) loads.push_back(id);
  }
  return loads;
}

Result<void> Factors::fetch(const Factor& factor, const std::string& across, const std::string& depth) {
  use_items_of(factor.part);
  const bool whole = open_units(factor);
  if (!whole) main_.line("unit = min(unit, {}u);", factor.units - 1);
  place_unit(factor, across, depth);
  if (factor.steps() > 1) open_steps(factor, depth, nullptr);
  Scope scope = part_scope(factor.part);
  for (ValueId id : factor.part.vectors) load_vectors(scope, id, slot(factor).empty() ? " " : slot(factor));
  for (ValueId id : loads_of_items(factor.part)) {
    VKF_CHECK_OK(emit_value(scope, id));
    main_.line("{}_ahead{} = {};", value_names_[id], slot(factor), use(scope, id));
  }
  if (factor.steps() > 1) main_.close();
  close_units(factor);
  return {};
}

std::string Factors::factor_group(const Factor& factor, Scope& scope, int g) {
  const std::map<ValueId, std::string> groups = unpack_group(factor.part, g, factor.ahead ? slot(factor) : "");
  if (factor.plain) return groups.at(factor.value);
  std::string value = fmt::format("factor_{}", g);
  main_.line("{} {};", group_type(ops::lane_of(dtype_of(loops_.values[factor.value])), group_, dialect_), value);
  for (int e = 0; e < group_; ++e) {
    std::vector<std::string> passed = arguments(scope, factor.part, g * group_ + e, groups);
    passed.push_back(element_of(value, e, group_));
    for (const auto& [id, name] : factor.beside) {
      const std::string element = fmt::format("{}_{}", name, g * group_ + e);
      main_.line("{} {};", scalar_type(loops_.values[id].node), element);
      passed.push_back(element);
    }
    main_.line("{}_element({});", factor.part.name, joined(passed));
  }
  return value;
}

void Factors::put_fours(const Factor& factor, int g, const std::string& value) {
  const int elements = factor.part.elements;
  if (!factor.along_depth() && group_ == 4) {
    main_.line("{}[column * {}u + row{}] = {};", factor.tile, factor.stride(),
               elements == 4 ? std::string() : fmt::format(" * {}u + {}u", elements / 4, g), value);
    return;
  }
  for (int e = 0; e < group_; ++e) {
    const int at = g * group_ + e;
    const std::string element = element_of(value, e, group_);
    if (factor.along_depth()) {
      const std::string column = elements == 1 ? "column" : fmt::format("(column * {}u + {}u)", elements, at);
      main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", factor.tile, column, factor.stride(), element);
    } else {
      const std::string row = elements == 1 ? "row" : fmt::format("(row * {}u + {}u)", elements, at);
      main_.line("{}[column * {}u + {} / 4u][{} % 4u] = {};", factor.tile, factor.stride(), row, row, element);
    }
  }
}

std::string Factors::fragment_at(const Factor& factor, const std::string& across, const std::string& depth,
                                 bool second) {
  const auto words = [&](const std::string& elements) {
    return factor.per_word() == 1 ? elements : fmt::format("{} / {}u", elements, factor.per_word());
  };
  const std::string place = factor.rows_in_depth()
                                ? fmt::format("({}) * {}u + {}", across, factor.row_words(), words(depth))
                                : fmt::format("({}) * {}u + {}", depth, factor.row_words(), words("(" + across + ")"));
  const bool rows_lie = factor.rows_in_depth() != second;
  return fmt::format("{}, {}{}, {}u, gl_CooperativeMatrixLayout{}Major", factor.tile,
                     factor.begin > 0 ? fmt::format("{}u + ", factor.begin) : "", place, factor.row_words(),
                     rows_lie ? "Row" : "Column");
}

void Factors::declare_tile(const Factor& factor) {
  if (factor.unit) {
    shared_.line("shared {} {}[{}];", tile_word(*factor.unit, factor.per_word()), factor.tile,
                 factor.rows() * factor.row_words());
  } else if (factor.dots) {
    shared_.line("shared ivec4 {}[{}];  // a word is four neighbours along the sum", factor.tile,
                 factor.deep / 4 * factor.stride());
  } else {
    shared_.line("shared {} {}[{}];", four(factor.value), factor.tile, factor.deep * factor.stride());
  }
}

Result<void> Factors::hand_over(const Factor& factor, const std::string& across, const std::string& depth,
                                const AfterItem& after) {
  use_items_of(factor.part);
  const bool whole = open_units(factor);
  if (!whole) main_.open("if (unit < {}u) {{", factor.units);
  place_unit(factor, across, depth);
  if (factor.steps() > 1) {
    VKF_CHECK_OK(gather_steps(factor, depth));
    if (!whole) main_.close();
    close_units(factor);
    return {};
  }
  Scope scope = part_scope(factor.part);
  if (factor.ahead) {
    for (ValueId id : loads_of_items(factor.part)) scope.names[id] = value_names_[id] + "_ahead" + slot(factor);
  }
  for (const auto& [id, array] : factor.of_rows) scope.names[id] = array + "[row]";
  for (ValueId id : factor.part.per_item) {
    if (!factor.moved && scope.names.count(id) == 0) VKF_CHECK_OK(emit_value(scope, id));
  }
  if (!factor.ahead) {
    for (ValueId id : factor.part.vectors) load_vectors(scope, id, "");
  }
  const int elements = factor.part.elements;
  const bool along_depth = factor.along_depth();
  const DType type_here = dtype_of(loops_.values[factor.value]);
  const std::string zero =
      fmt::format("{}({})", group_type(ops::lane_of(type_here), group_, dialect_), is_float(type_here) ? "0.0" : "0");
  const Extent items_deep = extent(counted(factor.depth).axes) / (along_depth ? elements : 1);
  const int per_step = factor.deep / (along_depth ? elements : 1);
  std::string inside;
  if (!divides(per_step, items_deep)) {
    inside = fmt::format("{}column < {}", depth.empty() ? "" : fmt::format("{} * {}u + ", depth, per_step),
                         numbers_.size(items_deep.count));
  }
  if (factor.unit) {
    const std::vector<std::string> words = narrow_words(factor, scope, *factor.unit);
    const std::string word = tile_word(*factor.unit, factor.per_word());
    const std::string all = words.size() == 1 ? words.front() : fmt::format("{}({})", word, joined(words));
    main_.line("{}[{}{} * {}u + {}] = {};", factor.tile, factor.begin > 0 ? fmt::format("{}u + ", factor.begin) : "",
               along_depth ? "row" : "column", factor.row_words(), along_depth ? "column" : "row",
               inside.empty() ? all : fmt::format("{} ? {} : {}(0)", inside, all, word));
  } else if (factor.dots) {
    put_dots(factor, scope, inside);
  } else {
    for (int g = 0; g < groups_; ++g) {
      const std::string value = factor_group(factor, scope, g);
      if (!inside.empty()) main_.line("if (!({})) {} = {};", inside, value, zero);
      put_fours(factor, g, value);
    }
  }
  if (after) after(inside);
  if (!whole) main_.close();
  close_units(factor);
  return {};
}

// Results. ------------------------------------------------------------------------------------------------

Result<void> Factors::store_item(const Part& part, const std::function<std::vector<std::string>(int element)>& known,
                                 const std::string& loaded) {
  Scope scope = part_scope(part);
  VKF_TRY(groups, load_item(scope, part, loaded));
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

Result<void> Factors::of_element(const std::string& name, const std::string& parameters,
                                 const std::function<Result<void>()>& body) {
  functions_.open("float {}(const in uint row, const in uint column, {}) {{", name, parameters);
  std::swap(functions_, main_);  // what computes positions and loads writes to main()
  const Result<void> done = body();
  std::swap(functions_, main_);
  functions_.close();
  functions_.blank();
  return done;
}

void Factors::locate_workgroup() {
  main_.line("uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;");
  main_.line("if (workgroup >= p.items) return;");
  main_.line("uint lane = gl_LocalInvocationID.x;");
}

}  // namespace vkfuse::codegen

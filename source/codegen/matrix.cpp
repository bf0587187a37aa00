// The matrix template: a loop over steps of k in which the workgroup brings a piece of each factor to shared memory
// and every lane multiplies what it owns; then the results.
#include "codegen/matrix.hpp"

#include <algorithm>
#include <set>

namespace vkfuse::codegen {

using index::Expr;
using schedule::AccessKind;

namespace {

constexpr int kMostWordsAhead = 24;  // of a lane's registers, for one factor

std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

std::string joined(const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, ", ")); }

}  // namespace

Matrix::Matrix(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops, const schedule::Schedule& schedule,
               const Target& target, const EmitOptions& options, const std::vector<std::string>& names)
    : Emitter(graph, segment, loops, schedule, target, options, names), tile_(schedule.matrix), shape_(schedule.matrix.shape) {
  for (const schedule::Factor& factor : tile_.factors) {
    FactorText text;
    text.factor = &factor;
    const auto own = factor.along_k ? kK : factor.second ? kN : kM;
    const int axis = factor.along_k ? tile_.k.back() : factor.second ? tile_.n.back() : tile_.m.back();
    const std::vector<ValueId> values = schedule::cone_of(loops, factor.value);
    text.part = make_part(unique(value_names_[factor.value] + "_factor"), own, axis, factor.elements, values, {factor.value});
    text.part.plain = values.size() == 1 && text.part.vectors.size() == 1;
    text.tile = unique(value_names_[factor.value] + "_tile");
    text.units = std::int64_t{text.extent(shape_)} * shape_.k / factor.elements;
    text.trips = schedule::ceil_div(text.units, schedule.workgroup);
    for (ValueId id : text.part.vectors) {
      text.raw_words += std::max(1, factor.elements * size_of(dtype_of(loops.values[id])) / 4);
    }
    text.ahead = target.type != DeviceType::cpu && text.raw_words > 0 && text.raw_words * text.trips <= kMostWordsAhead;
    factors_.push_back(std::move(text));
  }
  std::set<ValueId> values;
  std::vector<ValueId> wanted;
  for (const segment::Store& store : loops.stores) {
    for (ValueId id : schedule::cone_of(loops, store.value)) values.insert(id);
    wanted.push_back(store.value);
  }
  results_ = make_part("result", kN, tile_.n.back(), tile_.elements, {values.begin(), values.end()}, wanted);
  for (const schedule::MatrixTile::Sum& sum : tile_.sums) {
    results_.feeds.push_back(sum.fold);
    sums_.push_back(unique(value_names_[sum.fold] + "_sums"));
  }
}

// Parts. ------------------------------------------------------------------------------------------------

Matrix::Part Matrix::make_part(std::string name, index::AxisId own, int axis, int elements, const std::vector<ValueId>& values,
                               const std::vector<ValueId>& wanted) const {
  Part part;
  part.name = std::move(name);
  part.own = own;
  part.axis = axis;
  part.elements = elements;
  std::set<ValueId> used(wanted.begin(), wanted.end());  // by the function
  // What depends on a sum is known nowhere else.
  std::set<ValueId> after;
  for (ValueId id : values) {
    const Value& value = loops_.values[id];
    if (is_literal(id)) continue;
    const auto sums = [&](ValueId operand) { return loops_.values[operand].kind == Value::Kind::fold || after.count(operand) != 0; };
    const bool summed = std::any_of(value.operands.begin(), value.operands.end(), sums) || std::any_of(value.data.begin(), value.data.end(), sums);
    if (summed) after.insert(id);
    if (value.kind == Value::Kind::load && schedule_.loads[id].kind == AccessKind::vector) {
      part.vectors.push_back(id);
    } else if (summed || ((value.axes >> axis) & 1u) != 0) {
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
  return part;
}

std::vector<std::pair<index::AxisId, std::string>> Matrix::own_axes(const Part& part) const {
  const auto name = [&](index::AxisId axis, const char* own) { return std::pair(axis, std::string(part.own == axis ? "item" : own)); };
  return {{kBatch, "batch"}, name(kM, "m"), name(kN, "n"), name(kK, "k"), {kElement, "j"}};
}

void Matrix::set_axes(Scope& scope, const Part& part, bool element) const {
  const auto spread = [&](const std::vector<int>& axes, index::AxisId counted) {
    Sizes sizes;
    for (int axis : axes) sizes.push_back(loops_.axes[static_cast<std::size_t>(axis)].size);
    if (sizes.empty()) return;
    if (part.own == counted) sizes.back() /= part.elements;
    std::int64_t all = 1;
    for (std::int64_t size : sizes) all *= size;
    const std::vector<Expr> digits = index::delinearize(Expr::axis(counted, std::max<std::int64_t>(all, 2)), sizes);
    for (std::size_t i = 0; i < axes.size(); ++i) scope.axes.emplace(axes[i], digits[i]);
    if (part.own != counted) return;
    Expr& inner = scope.axes.at(axes.back());
    inner = inner * part.elements;
    if (element && part.elements > 1) inner = inner + Expr::axis(kElement, part.elements);
  };
  spread(tile_.batch, kBatch);
  spread(tile_.m, kM);
  spread(tile_.n, kN);
  spread(tile_.k, kK);
}

Scope Matrix::part_scope(const Part& part) {
  Scope scope;
  scope.out = &main_;
  for (const auto& [axis, name] : own_axes(part)) scope.axis_names.emplace(axis, name);
  set_axes(scope, part, false);
  return scope;
}

void Matrix::use_items_of(const Part& part) {
  elements_ = part.elements;
  group_ = std::min(4, elements_);
  groups_ = elements_ / group_;
}

Result<void> Matrix::element_function(Part& part, const std::function<void(Scope&)>& last, const std::vector<std::string>& results) {
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
    if (value.kind != Value::Kind::fold) continue;
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

/// Element `element` of the item of which main() knows the vectors' groups.
std::vector<std::string> Matrix::arguments(Scope& scope, const Part& part, int element, const std::map<ValueId, std::string>& groups) const {
  std::vector<std::string> all;
  for (const std::string& name : part.coordinates) all.push_back(name == "j" ? fmt::format("{}u", element) : name);
  for (ValueId id : part.feeds) {
    if (loops_.values[id].kind == Value::Kind::fold) continue;  // the caller adds them
    const auto group = groups.find(id);
    all.push_back(group != groups.end() ? element_of(group->second, element % group_, group_) : use(scope, id));
  }
  return all;
}

std::map<ValueId, std::string> Matrix::unpack_group(const Part& part, int group, const std::string& slot) {
  std::map<ValueId, std::string> groups;
  for (ValueId id : part.vectors) {
    groups[id] = fmt::format("{}_{}", value_names_[id], group);
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], unpacked(id, group, slot));
  }
  return groups;
}

// The kernel. -------------------------------------------------------------------------------------------

Result<std::vector<Kernel>> Matrix::run() {
  for (const std::int64_t own : {std::int64_t{shape_.m}, std::int64_t{shape_.n}, std::int64_t{shape_.k}}) numbers_.keep(own);
  numbers_.named("items", static_cast<std::uint32_t>(schedule_.workgroups), "tiles of all matrices");
  numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.workgroups_x, 1)), "workgroups in one row of the dispatch");
  find_products();
  for (FactorText& text : factors_) VKF_CHECK_OK(factor_function(text));
  VKF_CHECK_OK(result_function());
  VKF_CHECK_OK(main_function());
  VKF_TRY(kernel, finish(fmt::format("tiles of {} x {}, {} at a time along the sum; {} x {} per lane", shape_.m, shape_.n, shape_.k, shape_.lane_m, shape_.lane_n)));
  kernel.groups_x = static_cast<std::uint32_t>(schedule_.workgroups_x);
  kernel.groups_y = schedule_.workgroups_x == 0 ? 0 : static_cast<std::uint32_t>(schedule::ceil_div(schedule_.workgroups, schedule_.workgroups_x));
  std::vector<Kernel> kernels;
  kernels.push_back(std::move(kernel));
  return kernels;
}

Result<void> Matrix::factor_function(FactorText& text) {
  if (text.part.plain) return {};
  const std::string type = scalar_type(loops_.values[text.factor->value].node);
  functions_.line("// One element of a factor.");
  return element_function(text.part, [&](Scope& scope) { scope.out->line("factor = {};", use(scope, text.factor->value)); }, {"out " + type + " factor"});
}

Result<void> Matrix::result_function() {
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (schedule_.stores[i].kind == AccessKind::vector) parameters.push_back("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
  }
  functions_.line("// One element of the results.");
  return element_function(
      results_,
      [&](Scope& scope) {
        for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
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

bool Matrix::whole_k() const { return count(tile_.k) % shape_.k == 0; }

void Matrix::declare() {
  for (const FactorText& text : factors_) {
    const std::string type = group_type(ops::lane_of(dtype_of(loops_.values[text.factor->value])), 4, dialect_);
    shared_.line("shared {} {}[{}];", type, text.tile, shape_.k * text.stride(shape_));
  }
  for (std::size_t i = 0; i < tile_.sums.size(); ++i) {
    const int fours = shape_.lane_m * shape_.lane_n / 4;
    main_.line("{} {}[{}];", four(tile_.sums[i]), sums_[i], fours);
    const std::string zero = four(tile_.sums[i]) + (four(tile_.sums[i])[0] == 'v' ? "(0.0)" : "(0)");
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {};", fours, sums_[i], zero);
  }
}

/// Tiles that share rows of m or n run at about the same time: they come in strips of some tiles of m.
void Matrix::locate_tile() {
  constexpr std::int64_t kStrip = 8;
  main_.line("uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;");
  main_.line("if (workgroup >= p.items) return;");
  main_.line("uint lane = gl_LocalInvocationID.x;");
  const std::int64_t per_matrix = tile_.tiles_m * tile_.tiles_n;
  std::string at = "workgroup";
  if (!tile_.batch.empty()) {
    main_.line("uint batch = {};", numbers_.quotient("workgroup", per_matrix, false));
    main_.line("uint tile = {};", numbers_.remainder("workgroup", per_matrix, false));
    at = "tile";
  }
  if (tile_.tiles_m >= 2 * kStrip && tile_.tiles_m % kStrip == 0) {
    main_.line("uint strip = {};", numbers_.quotient(at, kStrip * tile_.tiles_n, false));
    main_.line("uint in_strip = {};", numbers_.remainder(at, kStrip * tile_.tiles_n, false));
    main_.line("uint tile_m = strip * {0}u + in_strip % {0}u;", kStrip);
    main_.line("uint tile_n = in_strip / {}u;", kStrip);
  } else {
    main_.line("uint tile_m = {};", numbers_.remainder(at, tile_.tiles_m, false));
    main_.line("uint tile_n = {};", numbers_.quotient(at, tile_.tiles_m, false));
  }
  const int lanes_n = shape_.n / shape_.lane_n;
  main_.line("uint lane_m = lane / {}u;", lanes_n);
  main_.line("uint lane_n = lane % {}u;", lanes_n);
}

Result<void> Matrix::main_function() {
  main_.open("void main() {{");
  locate_tile();
  declare();
  const std::string steps = numbers_.size(schedule::ceil_div(count(tile_.k), shape_.k));
  const bool ahead = std::any_of(factors_.begin(), factors_.end(), [](const FactorText& text) { return text.ahead; });
  for (const FactorText& text : factors_) {
    if (!text.ahead) continue;
    for (ValueId id : text.part.vectors) {
      use_items_of(text.part);
      for (int v = 0; v < vectors_of(id); ++v) {
        main_.line("{} {}{};", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v), text.trips > 1 ? fmt::format("[{}]", text.trips) : "");
      }
    }
    fetch(text, "0u");
  }
  main_.open("for (uint step = 0u; step < {}; ++step) {{", steps);
  for (const FactorText& text : factors_) VKF_CHECK_OK(hand_over(text));
  main_.line("barrier();");
  if (ahead) {
    main_.line("// The next piece is on its way while this one is multiplied.");
    main_.line("uint next = min(step + 1u, {} - 1u);", steps);
    for (const FactorText& text : factors_) {
      if (text.ahead) fetch(text, "next");
    }
  }
  multiply();
  main_.line("barrier();");
  main_.close();
  VKF_CHECK_OK(store_results());
  main_.close();
  return {};
}

/// Where the tile stands out of the matrix its last item is read again; past the end of k it counts as zero.
void Matrix::place_unit(const FactorText& text, const std::string& step) {
  const int elements = text.factor->elements;
  const bool along_k = text.factor->along_k;
  const int across = text.extent(shape_);
  const char* own = text.factor->second ? "n" : "m";
  const std::vector<int>& axes = text.factor->second ? tile_.n : tile_.m;
  const std::int64_t items = count(axes) / (along_k ? 1 : elements);
  const std::int64_t items_k = count(tile_.k) / (along_k ? elements : 1);
  const int per_tile = across / (along_k ? 1 : elements);
  const int per_step = shape_.k / (along_k ? elements : 1);
  // Neighbouring units are neighbours in memory.
  if (along_k) {
    main_.line("uint row = unit / {}u;", per_step);
    main_.line("uint column = unit % {}u;", per_step);
  } else {
    main_.line("uint row = unit % {}u;", per_tile);
    main_.line("uint column = unit / {}u;", per_tile);
  }
  const std::string position = fmt::format("tile_{} * {}u + row", own, per_tile);
  const std::string along = fmt::format("{} * {}u + column", step, per_step);
  const auto limited = [&](const std::string& at, std::int64_t all, int piece) {
    return all % piece == 0 ? at : fmt::format("min({}, {} - 1u)", at, numbers_.size(all));
  };
  main_.line("uint {} = {};", along_k ? own : "item", limited(position, items, per_tile));
  main_.line("uint {} = {};", along_k ? "item" : "k", limited(along, items_k, per_step));
}

namespace {

/// Opens the loop over a lane's units, or none for one; unrolled where registers are told apart by its counter.
bool open_units(Writer& main, std::int64_t trips, std::int64_t units, int workgroup, bool unrolled) {
  if (trips > 1) {
    main.open("{}for (uint u = 0u; u < {}u; ++u) {{", unrolled ? "[[unroll]] " : "", trips);
    main.line("uint unit = u * {}u + lane;", workgroup);
  } else {
    main.open("{{");
    main.line("uint unit = lane;");
  }
  return units % workgroup == 0;
}

}  // namespace

void Matrix::fetch(const FactorText& text, const std::string& step) {
  use_items_of(text.part);
  const bool whole = open_units(main_, text.trips, text.units, schedule_.workgroup, text.ahead);
  if (!whole) main_.line("unit = min(unit, {}u);", text.units - 1);
  place_unit(text, step);
  Scope scope = part_scope(text.part);
  // A slot makes it an assignment; one unit needs none but is declared outside all the same.
  for (ValueId id : text.part.vectors) {
    Writer held;
    std::swap(held, main_);
    load_vectors(scope, id, slot(text));
    std::string lines = main_.take();
    std::swap(held, main_);
    if (text.trips == 1) {
      const std::string declared(word_type(schedule_.loads[id].vector_bytes));
      for (int v = 0; v < vectors_of(id); ++v) {
        const std::string begin = declared + " " + raw_name(id, v) + " = ";
        if (const std::size_t at = lines.find(begin); at != std::string::npos) lines.erase(at, declared.size() + 1);
      }
    }
    main_.raw(lines);
  }
  main_.close();
}

Result<void> Matrix::hand_over(const FactorText& text) {
  use_items_of(text.part);
  const bool whole = open_units(main_, text.trips, text.units, schedule_.workgroup, text.ahead);
  if (!whole) main_.open("if (unit < {}u) {{", text.units);
  place_unit(text, "step");
  Scope scope = part_scope(text.part);
  VKF_CHECK_OK(emit_values(scope, text.part.per_item));
  const std::string read = text.ahead ? slot(text) : "";
  if (!text.ahead) {
    for (ValueId id : text.part.vectors) load_vectors(scope, id, "");
  }
  const int elements = text.factor->elements;
  const bool along_k = text.factor->along_k;
  const int stride = text.stride(shape_);
  const DType dtype_here = dtype_of(loops_.values[text.factor->value]);
  const std::string type = group_type(ops::lane_of(dtype_here), group_, dialect_);
  const std::string zero = fmt::format("{}({})", type, is_float(dtype_here) ? "0.0" : "0");
  std::string inside;
  if (!whole_k()) {
    const std::int64_t items_k = count(tile_.k) / (along_k ? elements : 1);
    inside = fmt::format("step * {}u + column < {}", shape_.k / (along_k ? elements : 1), numbers_.size(items_k));
  }
  for (int g = 0; g < groups_; ++g) {
    const std::map<ValueId, std::string> groups = unpack_group(text.part, g, read);
    std::string factor;
    if (text.part.plain) {
      factor = groups.at(text.factor->value);
    } else {
      factor = fmt::format("factor_{}", g);
      main_.line("{} {};", type, factor);
      for (int e = 0; e < group_; ++e) {
        std::vector<std::string> passed = arguments(scope, text.part, g * group_ + e, groups);
        passed.push_back(element_of(factor, e, group_));
        main_.line("{}_element({});", text.part.name, joined(passed));
      }
    }
    if (!inside.empty()) main_.line("if (!({})) {} = {};", inside, factor, zero);
    if (!along_k && group_ == 4) {
      main_.line("{}[column * {}u + row{}] = {};", text.tile, stride, elements == 4 ? std::string() : fmt::format(" * {}u + {}u", elements / 4, g), factor);
      continue;
    }
    for (int e = 0; e < group_; ++e) {
      const int at = g * group_ + e;
      const std::string value = element_of(factor, e, group_);
      if (along_k) {
        const std::string column = elements == 1 ? "column" : fmt::format("(column * {}u + {}u)", elements, at);
        main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", text.tile, column, stride, value);
      } else {
        const std::string row = elements == 1 ? "row" : fmt::format("(row * {}u + {}u)", elements, at);
        main_.line("{}[column * {}u + {} / 4u][{} % 4u] = {};", text.tile, stride, row, row, value);
      }
    }
  }
  if (!whole) main_.close();
  main_.close();
  return {};
}

/// Every lane has rows of its own, and columns in groups of four that lie side by side over the lanes.
void Matrix::multiply() {
  const int rows = shape_.lane_m / 4;
  const int columns = shape_.lane_n / 4;
  const int lanes_n = shape_.n / shape_.lane_n;
  main_.open("for (uint k = 0u; k < {}u; ++k) {{", shape_.k);
  std::vector<std::vector<std::string>> registers;
  for (const FactorText& text : factors_) {
    const std::string type = group_type(ops::lane_of(dtype_of(loops_.values[text.factor->value])), 4, dialect_);
    std::vector<std::string> own;
    for (int i = 0; i < (text.factor->second ? columns : rows); ++i) {
      own.push_back(fmt::format("{}_{}", text.part.name, i));
      const std::string place = text.factor->second ? (i == 0 ? "lane_n" : fmt::format("lane_n + {}u", i * lanes_n))
                                : rows == 1         ? "lane_m"
                                                    : fmt::format("lane_m * {}u + {}u", rows, i);
      main_.line("{} {} = {}[k * {}u + {}];", type, own.back(), text.tile, text.stride(shape_), place);
    }
    registers.push_back(std::move(own));
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const std::string type = four(tile_.sums[s]);
    const auto& first = registers[static_cast<std::size_t>(tile_.sums[s].first)];
    const auto& second = registers[static_cast<std::size_t>(tile_.sums[s].second)];
    for (int i = 0; i < shape_.lane_m; ++i) {
      for (int g = 0; g < columns; ++g) {
        const std::string sum = fmt::format("{}[{}]", sums_[s], i * columns + g);
        const std::string one = fmt::format("{}({}.{})", type, first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
        if (type[0] == 'v') {
          main_.line("{} = fma({}, {}, {});", sum, one, second[static_cast<std::size_t>(g)], sum);
        } else {
          main_.line("{} += {} * {};", sum, one, second[static_cast<std::size_t>(g)]);
        }
      }
    }
  }
  main_.close();
}

Result<void> Matrix::store_results() {
  use_items_of(results_);
  const int columns = shape_.lane_n / 4;
  const int lanes_n = shape_.n / shape_.lane_n;
  const std::int64_t items_n = count(tile_.n) / tile_.elements;
  const int per_four = 4 / tile_.elements;
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", shape_.lane_m);
  main_.line("uint m = tile_m * {}u + lane_m * {}u + i;", shape_.m, shape_.lane_m);
  main_.open("[[unroll]] for (uint g = 0u; g < {}u; ++g) {{", shape_.lane_n / tile_.elements);
  const std::string four = per_four == 1 ? "g" : fmt::format("g / {}u", per_four);
  const std::string item = per_four == 1 ? fmt::format("tile_n * {}u + g * {}u + lane_n", shape_.n / 4, lanes_n)
                                         : fmt::format("tile_n * {}u + (g / {}u * {}u + lane_n) * {}u + g % {}u", shape_.n / tile_.elements, per_four, lanes_n, per_four, per_four);
  main_.line("uint item = {};", item);
  std::string inside;
  if (count(tile_.m) % shape_.m != 0) inside = fmt::format("m < {}", numbers_.size(count(tile_.m)));
  if (items_n % (shape_.n / tile_.elements) != 0) inside += fmt::format("{}item < {}", inside.empty() ? "" : " && ", numbers_.size(items_n));
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  Scope scope = part_scope(results_);
  VKF_CHECK_OK(emit_values(scope, results_.per_item));
  for (ValueId id : results_.vectors) load_vectors(scope, id, "");
  const std::map<ValueId, std::string> groups = unpack_group(results_, 0, "");
  for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
    if (schedule_.stores[s].kind == AccessKind::vector) main_.line("{} {};", group_type_of(loops_.stores[s].node), result_group(s, 0));
  }
  for (int e = 0; e < tile_.elements; ++e) {
    std::vector<std::string> passed = arguments(scope, results_, e, groups);
    for (const std::string& sum : sums_) {
      const std::string at = fmt::format("{}[i * {}u + {}]", sum, columns, four);
      passed.push_back(per_four == 1 ? fmt::format("{}.{}", at, "xyzw"[e])
                                     : fmt::format("{}[g % {}u * {}u + {}u]", at, per_four, tile_.elements, e));
    }
    for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
      if (schedule_.stores[s].kind == AccessKind::vector) passed.push_back(element_of(result_group(s, 0), e, group_));
    }
    main_.line("result_element({});", joined(passed));
  }
  for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
    if (schedule_.stores[s].kind == AccessKind::vector) store_vectors(scope, s, "", "");
  }
  if (!inside.empty()) main_.close();
  main_.close();
  main_.close();
  return {};
}

Result<std::vector<Kernel>> emit_matrix(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                                        const schedule::Schedule& schedule, const Target& target, const EmitOptions& options,
                                        const std::vector<std::string>& names) {
  return Matrix(graph, segment, loops, schedule, target, options, names).run();
}

}  // namespace vkfuse::codegen

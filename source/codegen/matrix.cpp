// The matrix template: a loop over steps of k in which the workgroup brings a piece of each factor to shared memory
// and every lane, or every subgroup with matrix units, multiplies what it owns; then the results.
#include "codegen/matrix.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/products.hpp"

namespace vkfuse::codegen {

namespace {

/// Items of results whose loads a lane has on their way at a time.
constexpr int kMostItemsTogether = 8;

/// Multiply-adds of a lane's results, beyond which a CPU's driver is not left to compile them once for each.
constexpr double kMostUnrolledOnCpu = 64;

}  // namespace

Matrix::Matrix(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
               const schedule::Schedule& schedule, const Target& target, const EmitOptions& options,
               const NodeNames& names, int dispatch)
    : Factors(graph, segment, loops, schedule, target, options, names),
      tile_(schedule.matrix),
      shape_(schedule.matrix.shape),
      dispatch_(dispatch) {
  counted_ = {{kBatch, "batch", tile_.batch},
              {kM, "m", tile_.m},
              {kN, "n", tile_.n},
              {kK, "k", tile_.k},
              {kDepth, "part_of_row", schedule::axes_in(loops, loops.inner())}};
  for (const schedule::MatrixTile::RowFold& fold : tile_.row_folds) {
    const std::string& name = value_names_[fold.fold];
    row_folds_.push_back({fold.fold, in_two_parts(fold.fold) ? "vec2" : scalar_type(loops.values[fold.fold].node),
                          unique(name + "_partial"), unique(name + "_slots"), unique(name + "_rows"),
                          unique(name + "_join")});
  }
  for (ValueId id : tile_.row_values) row_arrays_[id] = unique(value_names_[id] + "_of_rows");
  for (std::size_t i = 0; i < tile_.factors.size(); ++i) {
    const schedule::Factor& factor = tile_.factors[i];
    std::vector<std::pair<ValueId, std::string>> beside;
    for (std::size_t k = 0; k < row_folds_.size(); ++k) {
      if (tile_.row_folds[k].factor == static_cast<int>(i))
        beside.emplace_back(loops.values[row_folds_[k].id].operands[0], row_folds_[k].partial);
    }
    factors_.push_back(make_factor(factor.value, schedule::cone_of_factor(loops, tile_, factor), factor.along_k,
                                   factor.crosses, factor.elements, counted(factor.second ? kN : kM), counted(kK),
                                   factor.second ? shape_.n : shape_.m, shape_.k, std::move(beside),
                                   factor.second ? std::map<ValueId, std::string>() : row_arrays_));
    if (tile_.unit || tile_.dots)
      narrow_factor(factors_.back(), tile_.unit ? std::optional(tile_.unit->a) : std::nullopt, tile_.dots);
  }
  std::vector<ValueId> known = tile_.row_values;
  for (const RowFold& fold : row_folds_) known.push_back(fold.id);
  for (const schedule::MatrixTile::Sum& sum : tile_.sums) {
    known.push_back(sum.fold);
    sums_.push_back(unique(value_names_[sum.fold] + "_sums"));
    if (tile_.unit) strips_.push_back(unique(value_names_[sum.fold] + "_strips"));
  }
  make_tails(known);
  known.push_back(tile_.kept);
  std::vector<ValueId> stops;
  if (tails_.empty())
    known.pop_back();
  else
    stops.push_back(tile_.kept);
  for (const Fold& tail : tails_) known.push_back(tail.id);
  std::set<ValueId> values;
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    if (is_of_block(i)) continue;
    for (ValueId id : schedule::cone_of(loops, loops.stores[i].value, stops)) values.insert(id);
    wanted.push_back(loops.stores[i].value);
  }
  const std::vector<ValueId> all(values.begin(), values.end());
  results_known_ = needed(all, wanted, known);
  results_ =
      make_part("result", kN, segment::AxisSet{1} << tile_.n.back(), tile_.elements, all, wanted, results_known_);
}

Result<Draft> Matrix::run() {
  const std::int64_t joins = schedule::ceil_div(results_in_items(), schedule_.workgroup);
  const std::int64_t workgroups = dispatch_ == 0 ? schedule_.workgroups * schedule_.parts : joins;
  const std::int64_t workgroups_x = std::min<std::int64_t>(workgroups, target_.caps.max_groups_per_axis);
  numbers_.named("items", static_cast<std::uint32_t>(workgroups),
                 dispatch_ != 0        ? "workgroups"
                 : schedule_.parts > 1 ? "parts of tiles of all matrices"
                                       : "tiles of all matrices");
  numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x, 1)),
                 "workgroups in one row of the dispatch");
  find_products();
  if (dispatch_ == 0) {
    join_functions();
    for (Factor& factor : factors_) {
      if (!tile_.whole) VKF_CHECK_OK(factor_function(factor));
    }
  }
  if (dispatch_ == 0) VKF_CHECK_OK(fold_functions());
  if (!leaves_parts()) VKF_CHECK_OK(result_function(results_, [&](std::size_t store) { return !is_of_block(store); }));
  if (tile_.whole) {
    VKF_CHECK_OK(result_of_whole());
    VKF_CHECK_OK(whole_main());
    return finish(fmt::format("tiles of {} x {}, {} at a time along the sum, which the workgroup multiplies as one",
                              shape_.m, shape_.n, shape_.k),
                  workgroups, workgroups_x);
  }
  VKF_CHECK_OK(dispatch_ == 0 ? main_function() : joining_main());
  if (dispatch_ != 0)
    return finish(fmt::format("joins {} parts of every sum, dispatch 2 of 2", schedule_.parts), workgroups,
                  workgroups_x);
  const std::string owner = tile_.unit ? fmt::format("subgroup of {}, in products of {} x {} x {}", shape_.lanes,
                                                     tile_.unit->m, tile_.unit->n, tile_.unit->k)
                                       : "lane";
  const std::string shared =
      schedule_.parts > 1 ? fmt::format("; {} workgroups share a tile, dispatch 1 of 2", schedule_.parts) : "";
  return finish(fmt::format("tiles of {} x {}, {} at a time along the sum; {} x {} per {}{}", shape_.m, shape_.n,
                            shape_.k, shape_.lane_m, shape_.lane_n, owner, shared),
                workgroups, workgroups_x);
}

void Matrix::join_functions() {
  for (const RowFold& fold : row_folds_) join_function(fold.id, fold.type, fold.function);
}

void Matrix::declare() {
  for (const Factor& factor : factors_) {
    declare_tile(factor);
    for (std::size_t k = 0; k < row_folds_.size(); ++k) {
      const RowFold& fold = row_folds_[k];
      if (std::none_of(factor.beside.begin(), factor.beside.end(),
                       [&](const auto& beside) { return beside.second == fold.partial; }))
        continue;
      shared_.line("shared {} {}[{}];", fold.type, fold.slots, factor.units);
      shared_.line("shared {} {}[{}];", scalar_type(loops_.values[fold.id].node), fold.finished, shape_.m);
      main_.line("{} {}[{}];", fold.type, fold.partial, factor.trips);
      const std::string identity = in_two_parts(fold.id)
                                       ? "vec2(0.0)"
                                       : fold_identity(graph_, graph_.node(loops_.values[fold.id].node), dialect_);
      main_.line("[[unroll]] for (uint u = 0u; u < {}u; ++u) {}[u] = {};", factor.trips, fold.partial, identity);
    }
  }
  for (std::size_t i = 0; i < tile_.sums.size(); ++i) {
    if (tile_.unit) {
      shared_.line("shared {} {}[{}];", component_four(tile_.unit->c), strips_[i],
                   shape_.owners() * static_cast<int>(tile_.unit->m) * strip_fours());
      main_.line("{} {}[{}];", sum_type(), sums_[i], unit_rows() * unit_columns());
      main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}({});", unit_rows() * unit_columns(), sums_[i],
                 sum_type(), is_float(tile_.unit->c) ? "0.0" : "0");
      continue;
    }
    const int fours = shape_.lane_m * shape_.lane_n / 4;
    const std::string type = sums_four(i);
    main_.line("{} {}[{}];", type, sums_[i], fours);
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}({});", fours, sums_[i], type,
               type[0] == 'v' ? "0.0" : "0");
  }
}

/// Tiles that share rows of m or n run at about the same time: they come in strips of some tiles of m.
void Matrix::locate_tile() {
  constexpr std::int64_t kStrip = 8;
  locate_workgroup();
  const std::int64_t per_matrix = tile_.tiles_m * tile_.tiles_n;
  if (schedule_.parts > 1) {
    main_.line("uint part = {};", numbers_.quotient("workgroup", schedule_.workgroups, false));
    main_.line("workgroup = {};", numbers_.remainder("workgroup", schedule_.workgroups, false));
  }
  std::string at = "workgroup";
  if (!tile_.batch.empty()) {
    main_.line("uint batch = {};", numbers_.quotient("workgroup", per_matrix, false));
    main_.line("uint tile = {};", numbers_.remainder("workgroup", per_matrix, false));
    at = "tile";
  }
  const std::int64_t decided = like_.schedule->matrix.tiles_m;
  if (decided >= 2 * kStrip && divides(kStrip, {tile_.tiles_m, decided})) {
    main_.line("uint strip = {};", numbers_.quotient(at, kStrip * tile_.tiles_n, false));
    main_.line("uint in_strip = {};", numbers_.remainder(at, kStrip * tile_.tiles_n, false));
    main_.line("uint tile_m = strip * {0}u + in_strip % {0}u;", kStrip);
    main_.line("uint tile_n = in_strip / {}u;", kStrip);
  } else {
    main_.line("uint tile_m = {};", numbers_.remainder(at, tile_.tiles_m, false));
    main_.line("uint tile_n = {};", numbers_.quotient(at, tile_.tiles_m, false));
  }
  if (tile_.whole) return;
  const int lanes_n = shape_.n / shape_.lane_n;
  if (tile_.unit) main_.line("uint subgroup = gl_SubgroupID;");
  const char* owner = tile_.unit ? "subgroup" : "lane";
  main_.line("uint {0}_m = {0} / {1}u;", owner, lanes_n);
  main_.line("uint {0}_n = {0} % {1}u;", owner, lanes_n);
}

Result<void> Matrix::main_function() {
  main_.open("void main() {{");
  locate_tile();
  declare();
  VKF_CHECK_OK(find_row_values());
  const std::int64_t all_steps = schedule::ceil_div(count(tile_.k), shape_.k);
  std::string first, steps = numbers_.size(all_steps);
  if (schedule_.parts > 1) {
    main_.line("uint first_step = part * {};", numbers_.size(schedule::ceil_div(all_steps, schedule_.parts)));
    main_.line("uint end = min(first_step + {}, {});", numbers_.size(schedule::ceil_div(all_steps, schedule_.parts)),
               steps);
    first = "first_step";
    steps = "end";
  }
  const bool ahead = std::any_of(factors_.begin(), factors_.end(), [](const Factor& factor) { return factor.ahead; });
  for (const Factor& factor : factors_) {
    if (!factor.ahead) continue;
    declare_ahead(factor);
    VKF_CHECK_OK(fetch(factor, across(factor), first));
  }
  main_.open("for (uint step = {}; step < {}; ++step) {{", first.empty() ? "0u" : first, steps);
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const auto after = [&](const std::string& inside) { join_rows(i, inside); };
    VKF_CHECK_OK(hand_over(factors_[i], across(factors_[i]), "step", after));
  }
  main_.line("barrier();");
  if (ahead) {
    main_.line("// The next piece is on its way while this one is multiplied.");
    main_.line("uint next = min(step + 1u, {} - 1u);", steps);
    for (const Factor& factor : factors_) {
      if (factor.ahead) VKF_CHECK_OK(fetch(factor, across(factor), "next"));
    }
  }
  if (tile_.unit)
    multiply_units();
  else
    multiply();
  main_.line("barrier();");
  main_.close();
  finish_rows();
  VKF_CHECK_OK(tile_.unit ? store_strips() : tails_.empty() ? store_results() : store_tails());
  main_.close();
  return {};
}

/// What an item adds to its row is joined first, so that chains stay short.
void Matrix::join_rows(std::size_t factor, const std::string& inside) {
  for (std::size_t k = 0; k < row_folds_.size(); ++k) {
    if (tile_.row_folds[k].factor != static_cast<int>(factor)) continue;
    const RowFold& fold = row_folds_[k];
    const auto element = [&](int e) {
      return in_two_parts(fold.id) ? fmt::format("vec2({}_{}, 0.0)", fold.partial, e)
                                   : fmt::format("{}_{}", fold.partial, e);
    };
    std::string all = element(0);
    for (int e = 1; e < factors_[factor].part.elements; ++e) all = fold.join(all, element(e));
    main_.line("{}{}[u] = {};", inside.empty() ? "" : "if (" + inside + ") ", fold.partial,
               fold.join(fold.partial + "[u]", all));
  }
}

/// The lanes that have read parts of a row leave what they found, and one joins it.
void Matrix::finish_rows() {
  if (row_folds_.empty()) return;
  for (std::size_t k = 0; k < row_folds_.size(); ++k) {
    const Factor& factor = factors_[static_cast<std::size_t>(tile_.row_folds[k].factor)];
    const std::string leave =
        fmt::format("{}[u * {}u + lane] = {}[u];", row_folds_[k].slots, schedule_.workgroup, row_folds_[k].partial);
    const bool whole = factor.units % schedule_.workgroup == 0;
    main_.line("[[unroll]] for (uint u = 0u; u < {}u; ++u) {}{}", factor.trips,
               whole ? "" : fmt::format("if (u * {}u + lane < {}u) ", schedule_.workgroup, factor.units), leave);
  }
  main_.line("barrier();");
  main_.open("for (uint row = lane; row < {}u; row += {}u) {{", shape_.m, schedule_.workgroup);
  for (std::size_t k = 0; k < row_folds_.size(); ++k) {
    const RowFold& fold = row_folds_[k];
    const int per_row = shape_.k / factors_[static_cast<std::size_t>(tile_.row_folds[k].factor)].part.elements;
    const std::string& whole = value_names_[fold.id];
    main_.line("{} {} = {}[row * {}u];", fold.type, whole, fold.slots, per_row);
    main_.line("for (uint i = 1u; i < {0}u; ++i) {1} = {2};", per_row, whole,
               fold.join(whole, fmt::format("{}[row * {}u + i]", fold.slots, per_row)));
    const std::string terms = is_mean(fold.id) ? numbers_.size(count(tile_.k)) : "";
    const std::string result = in_two_parts(fold.id) ? fmt::format("f32_mean({0}.x, {0}.y, {1})", whole, terms)
                               : terms.empty()       ? whole
                                                     : fmt::format("{} / {}({})", whole, fold.type, terms);
    main_.line("{}[row] = {};", fold.finished, result);
  }
  main_.close();
  main_.line("barrier();");
}

/// Every lane has rows of its own, and columns in groups of four that lie side by side over the lanes.
void Matrix::multiply() {
  const int rows = shape_.lane_m / 4;
  const int columns = shape_.lane_n / 4;
  const int lanes_n = shape_.n / shape_.lane_n;
  main_.open("for (uint k = 0u; k < {}u; ++k) {{", tile_.dots ? shape_.k / 4 : shape_.k);
  std::vector<std::vector<std::string>> registers;
  for (const Factor& factor : factors_) {
    const bool second = factor.across == kN;
    std::vector<std::string> own;
    for (int i = 0; i < (second ? columns : rows); ++i) {
      own.push_back(fmt::format("{}_{}", factor.part.name, i));
      const std::string place = second      ? (i == 0 ? "lane_n" : fmt::format("lane_n + {}u", i * lanes_n))
                                : rows == 1 ? "lane_m"
                                            : fmt::format("lane_m * {}u + {}u", rows, i);
      main_.line("{} {} = {}[k * {}u + {}];", tile_.dots ? "ivec4" : four(factor.value), own.back(), factor.tile,
                 factor.stride(), place);
    }
    registers.push_back(std::move(own));
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const std::string type = sums_four(s);
    const auto& first = registers[static_cast<std::size_t>(tile_.sums[s].first)];
    const auto& second = registers[static_cast<std::size_t>(tile_.sums[s].second)];
    for (int i = 0; i < shape_.lane_m; ++i) {
      for (int g = 0; g < columns; ++g) {
        const std::string sum = fmt::format("{}[{}]", sums_[s], i * columns + g);
        const std::string one = fmt::format("{}({}.{})", type, first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
        if (tile_.dots) {
          const std::string a = fmt::format("{}.{}", first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
          const std::string& b = second[static_cast<std::size_t>(g)];
          main_.line(
              "{0} += ivec4(i8x4_dot({1}, {2}.x, 0), i8x4_dot({1}, {2}.y, 0), i8x4_dot({1}, {2}.z, 0), i8x4_dot({1}, "
              "{2}.w, 0));",
              sum, a, b);
        } else if (type[0] == 'v') {
          main_.line("{} = fma({}, {}, {});", sum, one, second[static_cast<std::size_t>(g)], sum);
        } else {
          main_.line("{} += {} * {};", sum, one, second[static_cast<std::size_t>(g)]);
        }
      }
    }
  }
  main_.close();
}

/// Every subgroup has rows and columns of its own. Tiles are in the order in which they were read, and fragments are
/// loaded either way.
void Matrix::multiply_units() {
  const MatrixShape& unit = *tile_.unit;
  main_.open("[[unroll]] for (uint k = 0u; k < {}u; k += {}u) {{", shape_.k, unit.k);
  // Of the first factors all rows; of the second ones a column at a time.
  const auto load = [&](const Factor& factor, const std::string& into, const std::string& index) {
    const bool second = factor.across == kN;
    const std::uint32_t own = second ? unit.n : unit.m;
    const std::string at = fmt::format("{}_{} * {}u + {} * {}u", "subgroup", second ? "n" : "m",
                                       second ? shape_.lane_n : shape_.lane_m, index, own);
    main_.line("coopMatLoad({}, {});", into, fragment_at(factor, at, "k", second));
  };
  for (const Factor& factor : factors_) {
    if (factor.across == kN) continue;
    main_.line("{} {}[{}];", fragment(unit.a, unit.m, unit.k, "A"), factor.part.name, unit_rows());
    main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", unit_rows());
    load(factor, factor.part.name + "[i]", "i");
    main_.close();
  }
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", unit_columns());
  for (const Factor& factor : factors_) {
    if (factor.across != kN) continue;
    main_.line("{} {};", fragment(unit.a, unit.k, unit.n, "B"), factor.part.name);
    load(factor, factor.part.name, "j");
  }
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", unit_rows());
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    const std::string sum = fmt::format("{}[i * {}u + j]", sums_[s], unit_columns());
    main_.line("{0} = coopMatMulAdd({1}[i], {2}, {0});", sum,
               factors_[static_cast<std::size_t>(tile_.sums[s].first)].part.name,
               factors_[static_cast<std::size_t>(tile_.sums[s].second)].part.name);
  }
  main_.close();
  main_.close();
  main_.close();
}

/// The condition under which `m` and `item` are in the matrix; empty where they always are.
std::string Matrix::limits_of_results(int elements) {
  const Extent all_n = extent(tile_.n);
  const Extent items_n = {schedule::ceil_div(all_n.count, elements), schedule::ceil_div(all_n.decided, elements)};
  std::string inside;
  if (!divides(shape_.m, extent(tile_.m))) inside = fmt::format("m < {}", numbers_.size(count(tile_.m)));
  if (!divides(shape_.n / elements, items_n))
    inside += fmt::format("{}item < {}", inside.empty() ? "" : " && ", numbers_.size(items_n.count));
  return inside;
}

std::string Matrix::known_name(ValueId id, const std::string& row, int e,
                               const std::function<std::string(std::size_t sum, int e)>& sum_of) const {
  for (const RowFold& fold : row_folds_) {
    if (fold.id == id) return fmt::format("{}[{}]", fold.finished, row);
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    if (tile_.sums[s].fold != id) continue;
    return sums_four(s) == four(id) ? sum_of(s, e)
                                    : fmt::format("{}({})", scalar_type(loops_.values[id].node), sum_of(s, e));
  }
  return fmt::format("{}[{}]", row_arrays_.at(id), row);
}

Result<void> Matrix::store_one(const std::function<std::string(ValueId known, int e)>& name_of,
                               const std::string& loaded) {
  const std::string inside = limits_of_results(tile_.elements);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_item(
      results_,
      [&](int e) {
        std::vector<std::string> all;
        for (ValueId id : results_known_) all.push_back(name_of(id, e));
        return all;
      },
      loaded));
  if (!inside.empty()) main_.close();
  return {};
}

std::string Matrix::partial_at(const std::string& part, std::size_t sum, int per_four) {
  const std::int64_t fours = schedule::ceil_div(count(tile_.n), 4);
  const std::int64_t matrix = count(tile_.m) * fours;
  std::string at =
      fmt::format("m * {} + item{}", numbers_.size(fours), per_four == 1 ? "" : fmt::format(" / {}u", per_four));
  if (!tile_.batch.empty()) at = fmt::format("batch * {} + {}", numbers_.size(matrix), at);
  const auto sums = static_cast<std::int64_t>(sums_.size());
  const std::string number = sums == 1  ? part
                             : sum == 0 ? fmt::format("{} * {}u", part, sums)
                                        : fmt::format("({} * {}u + {}u)", part, sums, sum);
  return fmt::format("partials.w[{} * {} + {}]", number, numbers_.size(count(tile_.batch) * matrix), at);
}

/// `m` and `item`, a four, are known.
Result<void> Matrix::leave_partial(const std::function<std::string(std::size_t sum)>& four_of) {
  const std::string inside = limits_of_results(4);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string type = four(tile_.sums[s].fold);
    main_.line("{} = {}({});", partial_at("part", s, 1), type[0] == 'v' ? "floatBitsToUint" : "uvec4",
               sums_four(s) == type ? four_of(s) : fmt::format("{}({})", type, four_of(s)));
  }
  if (!inside.empty()) main_.close();
  return {};
}

/// Every invocation joins the parts of an item's sums, in their order.
Result<void> Matrix::joining_main() {
  use_items_of(results_);
  const std::int64_t items_n = count(tile_.n) / tile_.elements;
  const int per_four = 4 / tile_.elements;
  main_.open("void main() {{");
  locate_workgroup();
  main_.line("uint unit = workgroup * {}u + lane;", schedule_.workgroup);
  main_.line("if (unit >= {}) return;", numbers_.size(results_in_items()));
  main_.line("uint item = {};", numbers_.remainder("unit", items_n, false));
  main_.line("uint row = {};", numbers_.quotient("unit", items_n, false));
  main_.line("uint m = {};", tile_.batch.empty() ? "row" : numbers_.remainder("row", count(tile_.m), false));
  if (!tile_.batch.empty()) main_.line("uint batch = {};", numbers_.quotient("row", count(tile_.m), false));
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string type = four(tile_.sums[s].fold);
    const std::string open = type[0] == 'v' ? "uintBitsToFloat(" : type + "(";
    main_.line("{} {} = {}{});", type, sums_[s], open, partial_at("0u", s, per_four));
    main_.line("[[unroll]] for (uint part = 1u; part < {}u; ++part) {} += {}{});", schedule_.parts, sums_[s], open,
               partial_at("part", s, per_four));
  }
  VKF_CHECK_OK(store_item(results_, [&](int e) {
    const auto sum_of = [&](std::size_t s, int element) {
      const std::string within = tile_.elements == 1
                                     ? fmt::format("[item % {}u]", per_four)
                                     : fmt::format("[item % {}u * {}u + {}u]", per_four, tile_.elements, element);
      return per_four == 1 ? fmt::format("{}.{}", sums_[s], "xyzw"[element]) : sums_[s] + within;
    };
    std::vector<std::string> all;
    for (ValueId id : results_known_) all.push_back(known_name(id, {}, e, sum_of));
    return all;
  }));
  main_.close();
  return {};
}

/// On a CPU, what is made of the sums is written once, and loops go over them in memory: beside what multiplies, sums
/// stay in registers. Drivers otherwise compile an exponential 64 times, which takes them half a second.
void Matrix::lay_out_sums() {
  std::vector<ValueId> made;
  for (ValueId id : schedule::cone_of_results(loops_)) made.push_back(id);
  const int elements = shape_.lane_m * shape_.lane_n;
  if (target_.type != DeviceType::cpu || schedule::cost_of(graph_, loops_, made) * elements <= kMostUnrolledOnCpu)
    return;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const std::string added_up = std::exchange(sums_[s], unique(value_names_[tile_.sums[s].fold] + "_added_up"));
    main_.line("{} {}[{}];", sums_four(s), sums_[s], elements / 4);
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}[i];", elements / 4, sums_[s], added_up);
  }
  over_results_ = "[[dont_unroll]]";
}

Result<void> Matrix::store_results() {
  use_items_of(results_);
  const int columns = shape_.lane_n / 4;
  const int lanes_n = shape_.n / shape_.lane_n;
  const int per_four = 4 / tile_.elements;
  if (!leaves_parts()) lay_out_sums();
  main_.open("{} for (uint i = 0u; i < {}u; ++i) {{", over_results_, shape_.lane_m);
  main_.line("uint m = tile_m * {}u + lane_m * {}u + i;", shape_.m, shape_.lane_m);
  if (leaves_parts()) {
    main_.open("[[unroll]] for (uint g = 0u; g < {}u; ++g) {{", columns);
    main_.line("uint item = tile_n * {}u + g * {}u + lane_n;", shape_.n / 4, lanes_n);
    VKF_CHECK_OK(leave_partial([&](std::size_t s) { return fmt::format("{}[i * {}u + g]", sums_[s], columns); }));
    main_.close();
    main_.close();
    return {};
  }
  main_.open("{} for (uint g = 0u; g < {}u; ++g) {{", over_results_, shape_.lane_n / tile_.elements);
  main_.line("uint item = {};", per_four == 1
                                    ? fmt::format("tile_n * {}u + g * {}u + lane_n", shape_.n / 4, lanes_n)
                                    : fmt::format("tile_n * {0}u + (g / {1}u * {2}u + lane_n) * {1}u + g % {1}u",
                                                  shape_.n / tile_.elements, per_four, lanes_n));
  const std::string place = fmt::format("{}{}", columns == 1 ? "i" : fmt::format("i * {}u", columns),
                                        columns == 1    ? ""
                                        : per_four == 1 ? " + g"
                                                        : fmt::format(" + g / {}u", per_four));
  const auto sum_of = [&](std::size_t s, int e) {
    const std::string within = tile_.elements == 1 ? fmt::format("[g % {}u]", per_four)
                                                   : fmt::format("[g % {}u * {}u + {}u]", per_four, tile_.elements, e);
    return fmt::format("{}[{}]{}", sums_[s], place, per_four == 1 ? fmt::format(".{}", "xyzw"[e]) : within);
  };
  VKF_CHECK_OK(store_one(
      [&](ValueId id, int e) { return known_name(id, fmt::format("lane_m * {}u + i", shape_.lane_m), e, sum_of); }));
  main_.close();
  main_.close();
  return {};
}

/// Which lane has which element of a fragment is the device's secret: rows of fragments go through shared memory, and
/// every lane takes items from there.
Result<void> Matrix::store_strips() {
  use_items_of(results_);
  const auto um = static_cast<int>(tile_.unit->m);
  const auto un = static_cast<int>(tile_.unit->n);
  const int per_strip = tile_.strip / un;  // fragments
  const int strips = shape_.lane_n / tile_.strip;
  const int elements = leaves_parts() ? 4 : tile_.elements;
  const int items = tile_.strip / elements;  // of a row
  const int all = um * items;
  main_.line("uint own = subgroup * {}u;", um * strip_fours());
  // One loop, whose counter alone numbers the fragments: what a compiler does not unroll lives in memory.
  const int rounds = unit_rows() * strips;
  // What results are computed from besides sums is on its way while fragments cross shared memory, a few items at a
  // time, of the next round before this one's are stored: a result may be written over what it is computed from, and
  // loads that wait for the stores before them leave memory idle.
  const int together = std::min(all / shape_.lanes, kMostItemsTogether);
  const auto waits = [&](ValueId id) {
    return !loops_.values[id].data.empty();
  };  // for another load, which says where it is
  const bool data = std::any_of(results_.vectors.begin(), results_.vectors.end(), waits);
  const bool ahead = !leaves_parts() && tails_.empty() && !results_.vectors.empty() && !data &&
                     all % shape_.lanes == 0 && together > 1 && all / shape_.lanes % together == 0;
  const auto locate = [&](bool stays_inside, const std::string& round = "i") {  // none: the first
    const std::string strip_row = strips > 1 ? fmt::format("{} / {}u", round, strips) : round;
    main_.line("uint row = g / {}u;", items);
    main_.line("uint column = g % {}u;", items);
    main_.line("uint in_tile = subgroup_m * {}u + {}row;", shape_.lane_m,
               unit_rows() > 1 && !round.empty() ? fmt::format("{} * {}u + ", strip_row, um) : "");
    const std::string m = fmt::format("tile_m * {}u + in_tile", shape_.m);
    const std::string item =
        fmt::format("tile_n * {}u + subgroup_n * {}u + {}column", shape_.n / elements, shape_.lane_n / elements,
                    strips > 1 && !round.empty() ? fmt::format("{} % {}u * {}u + ", round, strips, items) : "");
    main_.line("uint m = {};", stays_inside ? limited(m, extent(tile_.m), shape_.m) : m);
    main_.line("uint item = {};", stays_inside ? limited(item, extent(tile_.n) / elements, shape_.n / elements) : item);
  };
  const auto declare_ahead = [&](int slots) {
    for (ValueId id : results_.vectors) {
      for (const std::string& name : raw_names(id))
        main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), name, slots);
    }
  };
  const auto load_ahead = [&](const std::string& start, const std::string& slot, const std::string& round = "i") {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", together);
    main_.line("uint g = {} + u * {}u;", start, shape_.lanes);
    locate(true, round);
    Scope scope = part_scope(results_);
    for (ValueId id : results_.vectors) load_vectors(scope, id, slot);
    main_.close();
  };
  const bool at_once = together * shape_.lanes == all;
  const bool in_turns = ahead && at_once && rounds > 1;
  const std::string slot = in_turns ? fmt::format("[i % 2u * {}u + u]", together) : "[u]";
  if (ahead && at_once) {
    declare_ahead(in_turns ? 2 * together : together);
    load_ahead("gl_SubgroupInvocationID", "[u]", "");
  }
  if (rounds > 1) main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", rounds);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    for (int f = 0; f < per_strip; ++f) {
      std::string sums = fmt::format("{}[{}{}u]", sums_[s], rounds > 1 ? fmt::format("i * {}u + ", per_strip) : "", f);
      if (tile_.unit->c == DType::f16)
        sums = fmt::format("{}({})", fragment(DType::f32, tile_.unit->m, tile_.unit->n, "Accumulator"), sums);
      main_.line("coopMatStore({}, {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", sums, strips_[s],
                 f * un / 4, strip_fours());
    }
  }
  main_.line("{}", kSubgroupBarrier);
  if (!tails_.empty()) {
    VKF_CHECK_OK(store_tails_of_strip(locate, all / shape_.lanes));
    main_.line("{}", kSubgroupBarrier);
    if (rounds > 1) main_.close();
    return {};
  }
  if (ahead && !at_once) {
    main_.open("for (uint start = gl_SubgroupInvocationID; start < {}u; start += {}u) {{", all,
               together * shape_.lanes);
    declare_ahead(together);
    load_ahead("start", "[u]");
  }
  if (in_turns) {
    main_.open("if (i + 1u < {}u) {{", rounds);
    main_.line("uint next = i + 1u;");
    load_ahead("gl_SubgroupInvocationID", fmt::format("[next % 2u * {}u + u]", together), "next");
    main_.close();
  }
  if (ahead) {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", together);
    main_.line("uint g = {} + u * {}u;", at_once ? "gl_SubgroupInvocationID" : "start", shape_.lanes);
  } else {
    main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", all, shape_.lanes);
  }
  locate(false);
  const int per_four = 4 / elements;
  std::vector<std::string> fours;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    fours.push_back(unique(value_names_[tile_.sums[s].fold] + "_four"));
    main_.line("{} {} = {}[own + row * {}u + column{}];", sums_four(s), fours.back(), strips_[s], strip_fours(),
               per_four == 1 ? "" : fmt::format(" / {}u", per_four));
  }
  const auto sum_of = [&](std::size_t s, int e) {
    if (per_four == 1) return fmt::format("{}.{}", fours[s], "xyzw"[e]);
    return fmt::format("{}[column % {}u{}]", fours[s], per_four,
                       tile_.elements == 1 ? "" : fmt::format(" * {}u + {}u", tile_.elements, e));
  };
  const auto known = [&](ValueId id, int e) { return known_name(id, "in_tile", e, sum_of); };
  VKF_CHECK_OK(leaves_parts() ? leave_partial([&](std::size_t s) { return fours[s]; })
                              : store_one(known, ahead ? slot : ""));
  main_.close();
  if (ahead && !at_once) main_.close();
  main_.line("{}", kSubgroupBarrier);
  if (rounds > 1) main_.close();
  return {};
}

Result<std::vector<Draft>> emit_matrix(const ir::Graph& graph, const segment::Segment& segment,
                                       const segment::Loops& loops, const schedule::Schedule& schedule,
                                       const Target& target, const EmitOptions& options, const NodeNames& names) {
  std::vector<Draft> kernels;
  for (int dispatch = 0; dispatch < schedule.dispatches; ++dispatch) {
    VKF_TRY(kernel, Matrix(graph, segment, loops, schedule, target, options, names, dispatch).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::codegen

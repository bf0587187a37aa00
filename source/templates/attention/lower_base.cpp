// What attention by threads and by cooperative matrices share.
#include "templates/attention/lower_emitter.hpp"

#include <algorithm>
#include <set>

#include "base/mutations.hpp"
#include "schedule/operands.hpp"
#include "templates/attention/base_dependence.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::lowering {

AttentionBase::AttentionBase(const LoweringInput& in, int dispatch)
    : OperandEmitter(in), tile_(schedule_.as<schedule::AttentionParams>()), dispatch_(dispatch) {
  counted_ = {
      {kBatch, "batch", tile_.axes.batch}, {kM, "m", tile_.axes.m}, {kN, "n", tile_.axes.n}, {kK, "k", tile_.axes.k}};
  constexpr std::pair<CountingAxis, const char*> kDepths[] = {{kHeadDim, "d"}, {kOtherHeadDim, "depth"}};
  for (const schedule::ScoreProduct& product : tile_.products) {
    const auto& [depth, name] = kDepths[products_.size()];
    counted_.push_back({depth, name, product.d});
    const int k_extent = tile_.staged_d(loops_, product);
    products_.push_back({make_operand(product.query, kM, depth, tile_.tile_m(), k_extent),
                         make_operand(product.key, kK, depth, tile_.tile_k(), k_extent)});
  }
  for (const schedule::WeightedSum& sum : tile_.sums)
    sums_.push_back({make_operand(sum.value, kN, kK, tile_.extent_n(loops_), tile_.staged_k()), {}});
  if (has_softmax() && tile_.cooperative() && dialect_.native_exp && options_.numerics != Numerics::strict)
    softcap_ = find_softcap({graph_, loops_, tile_});
  if (softcap_) compute_at_once(*softcap_, loops_, forms_);
  for (const schedule::WeightedSum& sum : tile_.sums) {
    if (!has_softmax() && tile_.cooperative())
      leave_rounding_to_reader(form_input(), sum.weight, tile_.cooperative()->mma.a, forms_);
  }
  make_parts();
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i].name = unique(sums_.size() == 1 ? Code("sums") : code("sums_{}", i));
  keeps_nan_ = schedule::results_tell_whether_most_is_nan(graph_, loops_, tile_);
  most_ = unique("most");
  total_ = unique("total");
  bind_launch();
}

void AttentionBase::bind_launch() {
  if (is_split()) bind_partials("vec4", "tile");
  if (schedule_.counter_bytes > 0) bind_counts();
  numbers_.named(
      "chunks", static_cast<std::uint32_t>(workgroups()),
      is_split() && dispatch_ == 0 ? "parts of tiles of rows of all softmaxes" : "tiles of rows of all softmaxes");
  numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x(), 1)),
                 "workgroups in one row of the dispatch");
}

AttentionBase::TileOperand AttentionBase::make_operand(const schedule::AttentionOperand& planned, index::AxisId across,
                                                       index::AxisId depth, int extent, int k_extent) {
  TileOperand tile_operand = make_tile_operand({.value = planned.value,
                                                .backward_slice = schedule::backward_slice_of(loops_, planned.value),
                                                .along_k = planned.along_k,
                                                .elements = planned.elements,
                                                .across = across,
                                                .depth = depth,
                                                .extent = extent,
                                                .k_extent = k_extent});
  // Registers are what bounds attention: with ALiBi it took 2326 us with, and 2202 without.
  tile_operand.staging.positions_once = false;
  if (tile_.cooperative()) make_sub32(tile_operand, tile_.cooperative()->mma.a, false);
  return tile_operand;
}

void AttentionBase::make_parts() {
  make_score_parts();
  if (has_softmax()) {
    const ValueId from[] = {tile_.values.exponential};
    weight_ = make_part({.name = "weight",
                         .own = kK,
                         .along = segment::AxisSet{1} << tile_.axes.k.back(),
                         .values = schedule::backward_slice_of(loops_, tile_.sums[0].weight, from),
                         .requested = {tile_.sums[0].weight},
                         .known = {tile_.values.exponential}});
  }
  std::vector<ValueId> requested;
  for (const segment::Store& store : loops_.stores) requested.push_back(store.value);
  results_ = make_part({.name = "result",
                        .own = kN,
                        .along = segment::AxisSet{1} << tile_.axes.n.back(),
                        .elements = tile_.elements,
                        .values = schedule::backward_slice_of_results(loops_),
                        .requested = std::move(requested),
                        .known = tile_.reductions()});
}

ValueId AttentionBase::held_weight(const schedule::WeightedSum& sum) const {
  ValueId id = sum.weight;
  while (forms_[id].kind == ValueForm::Kind::copy) id = loops_.values[id].operands[0];
  return id;
}

/// What the caller passes is contractions, weights that were found before, and what is loaded beside the scores.
void AttentionBase::make_score_parts() {
  const std::vector<ValueId> scores = tile_.scores();
  std::vector<ValueId> found = tile_.contractions();
  std::set<ValueId> beside;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<ValueId> slice = schedule::backward_slice_of(loops_, scores[i], found);
    const auto is_read = [&](ValueId id) {
      return id == scores[i] || std::any_of(slice.begin(), slice.end(), [&](ValueId reader) {
               const std::vector<ValueId>& operands = loops_.values[reader].operands;
               return std::find(operands.begin(), operands.end(), id) != operands.end();
             });
    };
    std::vector<ValueId> known;
    std::copy_if(found.begin(), found.end(), std::back_inserter(known), is_read);
    for (const ValueId id : slice) {
      if (!tile_.cooperative() || !lies_beside(id)) continue;
      known.push_back(id);
      beside.insert(id);
    }
    score_parts_.push_back(make_part({.name = scores.size() == 1 ? Code("score") : code("weight_{}", i),
                                      .own = kK,
                                      .along = segment::AxisSet{1} << tile_.axes.k.back(),
                                      .values = slice,
                                      .requested = {scores[i]},
                                      .known = std::move(known)}));
    if (!has_softmax()) found.push_back(held_weight(tile_.sums[i]));
  }
  beside_.assign(beside.begin(), beside.end());
}

/// Its elements are told apart by the position of k, wait for no other load, and are numbers that f32 holds.
bool AttentionBase::lies_beside(ValueId id) const {
  const Value& value = loops_.values[id];
  if (value.kind != Value::Kind::load || !value.data.empty()) return false;
  if (forms_[id].decodes != nullptr) return false;  // the bits of an f32
  const DType type = dtype_of(value);
  const auto along_k = [&](int axis) { return ((value.axes >> axis) & 1u) != 0; };
  return (type == DType::f32 || type == DType::boolean || size_of(type) <= 2) &&
         std::any_of(tile_.axes.k.begin(), tile_.axes.k.end(), along_k);
}

std::int64_t AttentionBase::workgroups() const {
  return dispatch_ == 0 ? schedule_.launch.workgroups : schedule_.launch.workgroups / schedule_.splits;
}

std::int64_t AttentionBase::workgroups_x() const {
  return std::min<std::int64_t>(workgroups(), target_.caps.workgroup.max_groups_per_axis);
}

Result<RelocatableKernel> AttentionBase::finish_dispatch(const Code& summary) {
  if (!is_split()) return finish(summary, workgroups(), workgroups_x());
  const Code which = schedule_.dispatches == 1 ? Code() : code(", dispatch {} of 2", dispatch_ + 1);
  if (dispatch_ == 1)
    return finish(code("joins {} parts of every tile{}", schedule_.splits, which), workgroups(), workgroups_x());
  return finish(code("{}; {} workgroups share a tile{}", summary, schedule_.splits, which), workgroups(),
                workgroups_x());
}

Result<void> AttentionBase::functions() {
  if (dispatch_ == 1) return result_function(results_);
  find_products();
  for (Product& product : products_) {
    VKF_CHECK_OK(tile_operand_function(product.first));
    VKF_CHECK_OK(tile_operand_function(product.second));
  }
  for (Sum& sum : sums_) VKF_CHECK_OK(tile_operand_function(sum.third));
  const std::vector<ValueId> scores = tile_.scores();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    functions_.line("// The {} at one position.", has_softmax() ? "score" : "weight");
    VKF_CHECK_OK(scalar_function(score_parts_[i], scores[i], "score"));
  }
  if (changes_weight()) {
    functions_.line("// What the exponential of a score becomes before it weights.");
    VKF_CHECK_OK(scalar_function(weight_, tile_.sums[0].weight, "weight"));
  }
  return computes_results() ? result_function(results_) : Result<void>();
}

Result<void> AttentionBase::scalar_function(Part& part, ValueId value, const char* result) {
  return element_function(part, [&](Scope& scope) { scope.out->line("{}_result = {};", result, use(scope, value)); },
                          {code("out float {}_result", result)});
}

const char* AttentionBase::score_beyond() const {
  return has_softmax() ? "uintBitsToFloat(0xff800000u)"
                       : VKF_PLANT(weights_beyond_keys, "0.0", "uintBitsToFloat(0x7f800000u)");
}

void AttentionBase::locate_tile() {
  locate_workgroup();
  const std::int64_t tiles_m = schedule::ceil_div(count(tile_.axes.m), tile_.tile_m());
  Code at = "workgroup";
  if (is_split()) {
    if (dispatch_ == 0) main_.line("uint part = workgroup % {}u;", schedule_.splits);
    main_.line("uint tile = {};", dispatch_ == 0 ? code("workgroup / {}u", schedule_.splits) : at);
    at = "tile";
  }
  if (!tile_.axes.batch.empty()) main_.line("uint batch = {};", numbers_.quotient(at, tiles_m, false));
  const Code tile = tile_.axes.batch.empty() ? at : numbers_.remainder(at, tiles_m, false);
  if (!later_rows_see_more()) return main_.line("uint tile_m = {};", tile);
  main_.line("// Tiles that visit the most blocks begin first, so that none of them is left to the end.");
  main_.line("uint tile_m = {} - 1u - {};", numbers_.size(tiles_m), tile);
}

bool AttentionBase::later_rows_see_more() const {
  const auto grows = [](const schedule::MaskLine& line) { return line.slope > 0; };
  return tile_.mask.lower.empty() && std::ranges::any_of(tile_.mask.upper, [&](const schedule::MaskBound& bound) {
           return std::ranges::all_of(bound, grows);
         });
}

/// The furthest position of k that a line leaves some row of the tile.
Code AttentionBase::line_of(const schedule::MaskLine& line, bool upper) const {
  if (line.data) {
    schedule::MaskLine known = line;
    known.data.reset();
    const Code& data = data_bounds_[static_cast<std::size_t>(std::find(data_lines_.begin(), data_lines_.end(), line) -
                                                             data_lines_.begin())];
    return code("{} + {}", data, line_of(known, upper));
  }
  const char* row = (line.slope > 0) == upper ? "highest" : "lowest";
  if (line.slope == 0) return code("{}", line.constant);
  const Code scaled = line.slope == 1 ? row : code("{} * {}", row, line.slope);
  return line.constant == 0 ? scaled : code("{} {} {}", scaled, line.constant > 0 ? "+" : "-", std::abs(line.constant));
}

Code AttentionBase::bound_of(const schedule::MaskBound& bound, bool upper) const {
  Code furthest = line_of(bound.front(), upper);
  for (std::size_t i = 1; i < bound.size(); ++i)
    furthest = code("{}({}, {})", upper ? "max" : "min", furthest, line_of(bound[i], upper));
  return furthest;
}

/// What lines take from data, each found once for the workgroup: in a block, so that other parts may find it again.
Result<void> AttentionBase::find_data_bounds() {
  for (const std::vector<schedule::MaskBound>* bounds : {&tile_.mask.upper, &tile_.mask.lower}) {
    for (const schedule::MaskBound& bound : *bounds) {
      for (const schedule::MaskLine& line : bound) {
        if (line.data && std::find(data_lines_.begin(), data_lines_.end(), line) == data_lines_.end())
          VKF_CHECK_OK(find_data_bound(line));
      }
    }
  }
  return {};
}

Result<void> AttentionBase::find_data_bound(const schedule::MaskLine& line) {
  const Code name = unique("reach");
  main_.line("int {};", name);
  main_.open("{{");
  Scope scope = part_scope(results_);
  VKF_CHECK_OK(emit_values(scope, schedule::backward_slice_of(loops_, *line.data)));
  const std::int64_t most = schedule::kFarthestBound;
  const Code rest = line.rest.is_constant() ? Code("0") : code("int({})", position(scope, line.rest));
  main_.line("{} = clamp({}, -{}, {}) + {};", name, use(scope, *line.data), most, most, rest);
  main_.close();
  data_lines_.push_back(line);
  data_bounds_.push_back(name);
  return {};
}

/// The positions along the innermost axis of m that the tile has, from `lowest` to `highest`: all of them where it
/// crosses into another run. Neither is declared where no bound depends on them.
void AttentionBase::find_rows_of_tile() {
  const auto has_slope = [](const schedule::MaskBound& bound) {
    return std::ranges::any_of(bound, [](const schedule::MaskLine& line) { return line.slope != 0; });
  };
  if (!std::ranges::any_of(tile_.mask.upper, has_slope) && !std::ranges::any_of(tile_.mask.lower, has_slope)) return;
  const std::vector<int> innermost(tile_.axes.m.end() - 1, tile_.axes.m.end());
  const Code rows = numbers_.size(count(innermost));
  const Code at = code("tile_m * {}u", tile_.tile_m());
  main_.line("int lowest = int({});", tile_.axes.m.size() == 1 ? at : code("({}) % {}", at, rows));
  main_.line("int highest = min(lowest + {}, int({}) - 1);", tile_.tile_m() - 1, rows);
  if (tile_.axes.m.size() == 1 || divides(tile_.tile_m(), extent(innermost))) return;
  main_.line("// A tile that crosses into the next run counts as having every position of a run.");
  main_.line("if (lowest + {} > highest) lowest = 0;", tile_.tile_m() - 1);
}

/// Emits `visited_from`, and returns its name.
Code AttentionBase::emit_visited_from() {
  const Code name = unique("visited_from");
  const Code keys = numbers_.size(schedule::keys_per_run(loops_, tile_));
  functions_.line(
      "// The first block, from this one on, that has some of the positions from first to last of a run of {}.", keys);
  functions_.open("uint {}(uint block, int first, int last) {{", name);
  functions_.line("uint run = block * {}u / {};", tile_.tile_k(), keys);
  functions_.line("int begin = int(block * {}u - run * {});", tile_.tile_k(), keys);
  functions_.open("if (begin > {}) {{", VKF_PLANT(end_of_run_lost, Code("last"), code("last - {}", tile_.tile_k())));
  functions_.line("++run;");
  functions_.line("begin -= int({});", keys);
  functions_.close();
  functions_.line("return begin + {0} > first ? block : (run * {1} + uint(first)) / {0}u;", tile_.tile_k(), keys);
  functions_.close();
  functions_.blank();
  return name;
}

Result<AttentionBase::Walk> AttentionBase::find_blocks() {
  Walk walk;
  walk.begin = Code::zero();
  walk.all = walk.end = numbers_.size(schedule::ceil_div(count(tile_.axes.k), tile_.tile_k()));
  const bool finite = tile_.mask.negligible_below.has_value();
  if (tile_.mask.empty() || (options_.numerics == Numerics::strict && (finite || tile_.mask.added))) return walk;
  VKF_CHECK_OK(find_data_bounds());
  main_.line("// Blocks in which the mask leaves some row something.");
  find_rows_of_tile();
  main_.line("int last = int({}) - {};", numbers_.size(schedule::keys_per_run(loops_, tile_)),
             VKF_PLANT(mask_bound_too_far, 1, 1 + tile_.tile_k()));
  for (const auto& bound : tile_.mask.upper) main_.line("last = min(last, {});", bound_of(bound, true));
  if (!tile_.mask.lower.empty() || tile_.mask.in_runs) main_.line("int first = 0;");
  for (const auto& bound : tile_.mask.lower) main_.line("first = max(first, {});", bound_of(bound, false));
  if (tile_.mask.in_runs) {
    visited_from_ = emit_visited_from();
    walk.in_runs = true;
    main_.line("uint begin = first > last ? {} : {}(0u, first, last);", walk.all, visited_from_);
    walk.begin = "begin";
    return walk;
  }
  main_.line("uint end = uint(max(last, -1) + {0}) / {0}u;", tile_.tile_k());
  walk.end = "end";
  if (!tile_.mask.lower.empty()) {
    main_.line("uint begin = uint(first) / {}u;", tile_.tile_k());
    walk.begin = "begin";
  }
  walk.goes_round = VKF_PLANT(masked_rows_forgotten, finite, false);
  return walk;
}

AttentionBase::Walk AttentionBase::share_of(const Walk& walk) {
  if (!is_split()) return walk;
  const bool begins = !walk.begin.is_zero();
  const Code blocks = begins ? code("max({}, {}) - {}", walk.begin, walk.end, walk.begin) : walk.end;
  main_.line("// The blocks of this part: those of all parts are about as many, however many the mask leaves.");
  main_.line("uint share = ({} + {}u) / {}u;", blocks, VKF_PLANT(blocks_between_parts_lost, schedule_.splits - 1, 0),
             schedule_.splits);
  main_.line("uint own_begin = {}part * share;", begins ? code("{} + ", walk.begin) : Code());
  main_.line("uint own_end = min(own_begin + share, {});", walk.end);
  Walk own = walk;
  own.begin = "own_begin";
  own.end = "own_end";
  return own;
}

Code AttentionBase::first_block(const Walk& walk) const {
  if (walk.begin.is_zero()) return walk.begin;
  return walk.goes_round ? code("{} % {}", walk.begin, walk.all) : code("min({}, {} - 1u)", walk.begin, walk.all);
}

Code AttentionBase::block_after(const Walk& walk, const Code& block, const Code& ahead, const Code& end) const {
  if (walk.goes_round) return code("({} + {}) % {}", block, ahead, walk.all);
  const Code next = code("{} + {}", block, ahead);
  return code("min({}, {} - 1u)", walk.in_runs ? code("{}({}, first, last)", visited_from_, next) : next, end);
}

void AttentionBase::open_blocks(const Walk& walk, const char* attribute, const Flags& flags) {
  if (!walk.goes_round) {
    const Code next = walk.in_runs ? code("block = {}(block + 1u, first, last)", visited_from_) : Code("++block");
    main_.open("{}for (uint block = {}; block < {}; {}) {{", attribute, walk.begin, walk.end, next);
    return;
  }
  const bool begins = !walk.begin.is_zero();
  if (begins) main_.line("uint visited = uint(max(int(end) - int(begin), 0));");
  main_.open("{0}for (uint turn = 0u; turn < {1}; ++turn) {{", attribute, walk.all);
  main_.open("if (turn == {}) {{", begins ? "visited" : "end");
  leave_where_negligible(flags);
  main_.close();
  main_.line("uint block = {};", begins ? code("(begin + turn) % {}", walk.all) : Code("turn"));
}

/// The threads of a workgroup leave together, or all go on.
void AttentionBase::leave_where_negligible(const Flags& flags) {
  const float number = static_cast<float>(*tile_.mask.negligible_below);
  main_.line("// Masked scores count in a row that has none above this: the blocks left out are visited, too.");
  find_low_rows(literal(DType::f32, reinterpret_cast<const std::byte*>(&number), dialect_));
  main_.line("{}[thread].x = low ? {} : {};", flags.vectors, flags.yes, flags.no);
  main_.line("barrier();");
  main_.line("low = false;");
  main_.line("for (uint g = 0u; g < {}u; ++g) low = low || {}[g].x != {};", schedule_.workgroup, flags.vectors,
             flags.no);
  main_.line("barrier();");
  main_.line("if (!low) break;");
}

}  // namespace vkfuse::lowering

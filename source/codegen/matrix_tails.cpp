// The matrix template beside its sums: what is known of rows beforehand, as the statistics of a norm that others have
// left in parts, and folds of results, as such parts for a norm that follows.
#include <algorithm>
#include <bit>
#include <set>

#include "codegen/matrix.hpp"

namespace vkfuse::codegen {

bool Matrix::is_of_block(std::size_t store) const {
  const auto& over = tile_.tails;
  return !over.empty() && (loops_.stores[store].axes & loops_.values[over.front()].over) == 0;
}

void Matrix::join_function(ValueId id, const std::string& type, const std::string& function) {
  const ir::Node& node = graph_.node(loops_.values[id].node);
  if (type == "vec2") {  // a mean's sum, in two parts
    functions_.open("vec2 {}(vec2 a, vec2 b) {{", function);
    functions_.line("f32_add_term(a.x, a.y, b.x);");
    functions_.line("precise float low = a.y + b.y;");
    functions_.line("return vec2(a.x, low);");
    functions_.close();
    functions_.blank();
    return;
  }
  const std::string operands[] = {"a", "b"};
  functions_.open("{0} {1}({0} a, {0} b) {{", type, function);
  functions_.line("{}{} both = {};", type == "float" ? "precise " : "", type,
                  ops::expression(ops::row(node.op->fold.join), node.type.dtype, dialect_.native(), operands));
  functions_.line("return both;");
  functions_.close();
  functions_.blank();
}

std::vector<ValueId> Matrix::needed(const std::vector<ValueId>& values, const std::vector<ValueId>& wanted,
                                    const std::vector<ValueId>& known) const {
  std::set<ValueId> asked(wanted.begin(), wanted.end());
  for (ValueId id : values) {
    asked.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    asked.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  std::vector<ValueId> all;
  for (ValueId id : known) {
    if (asked.count(id) != 0 && std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  }
  return all;
}

Matrix::Fold Matrix::make_fold(ValueId id) const {
  Fold fold;
  fold.id = id;
  fold.type = scalar_type(loops_.values[id].node);
  return fold;
}

void Matrix::make_tails(const std::vector<ValueId>& known) {
  std::vector<ValueId> before;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (!loops_.values[id].beforehand) continue;
    if (loops_.values[id].kind == Value::Kind::contract) {
      Fold fold = make_fold(id);
      fold.function = unique(value_names_[id] + "_join");
      const ValueId operand = loops_.values[id].operands[0];
      const std::vector<ValueId> cone = schedule::cone_of(loops_, operand);
      fold.known = needed(cone, {operand}, before);
      fold.operand =
          make_part(unique(value_names_[id] + "_part"), kDepth, loops_.inner(), 1, cone, {operand}, fold.known);
      beforehand_.push_back(std::move(fold));
    }
    before.push_back(id);
  }
  if (tile_.tails.empty()) return;
  const segment::AxisSet along = segment::AxisSet{1} << tile_.n.back();
  const std::vector<ValueId> cone = schedule::cone_of(loops_, tile_.kept);
  kept_known_ = needed(cone, {tile_.kept}, known);
  kept_ =
      make_part(unique(value_names_[tile_.kept] + "_kept"), kN, along, tile_.elements, cone, {tile_.kept}, kept_known_);
  kept_array_ = unique(value_names_[tile_.kept] + "_of_lane");
  const ValueId stops[] = {tile_.kept};
  std::vector<ValueId> later = known;
  later.push_back(tile_.kept);
  for (ValueId id : tile_.tails) {
    Fold fold = make_fold(id);
    fold.function = unique(value_names_[id] + "_join");
    fold.array = unique(value_names_[id] + "_of_lane");
    fold.slots = unique(value_names_[id] + "_fours");
    const ValueId operand = loops_.values[id].operands[0];
    const std::vector<ValueId> values = schedule::cone_of(loops_, operand, stops);
    fold.known = needed(values, {operand}, later);
    fold.operand =
        make_part(unique(value_names_[id] + "_folded"), kN, along, tile_.elements, values, {operand}, fold.known);
    tails_.push_back(std::move(fold));
    later.push_back(id);
  }
  std::set<ValueId> values;
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (!is_of_block(i)) continue;
    for (ValueId id : schedule::cone_of(loops_, loops_.stores[i].value, stops)) values.insert(id);
    wanted.push_back(loops_.stores[i].value);
  }
  const std::vector<ValueId> all(values.begin(), values.end());
  block_known_ = needed(all, wanted, later);
  block_ = make_part(unique("block"), kN, along, tile_.elements, all, wanted, block_known_);
}

Result<void> Matrix::fold_functions() {
  const auto add = [&](Fold& fold, const char* what) -> Result<void> {
    join_function(fold.id, fold.type, fold.function);
    functions_.line("// {}", what);
    return element_function(
        fold.operand,
        [&](Scope& scope) { scope.out->line("folded = {};", use(scope, loops_.values[fold.id].operands[0])); },
        {"out " + scalar_type(loops_.values[loops_.values[fold.id].operands[0]].node) + " folded"});
  };
  for (Fold& fold : beforehand_) VKF_CHECK_OK(add(fold, "One part of what is known of a row."));
  if (tails_.empty()) return {};
  functions_.line("// One element of what is folded and stored.");
  VKF_CHECK_OK(element_function(kept_, [&](Scope& scope) { scope.out->line("kept = {};", use(scope, tile_.kept)); },
                                {"out " + scalar_type(loops_.values[tile_.kept].node) + " kept"}));
  for (Fold& fold : tails_) VKF_CHECK_OK(add(fold, "One element of a fold over the results of a block."));
  return result_function(block_, [&](std::size_t store) { return is_of_block(store); });
}

void Matrix::compute(const Part& part, const std::vector<ValueId>& known, int element,
                     const std::function<std::string(ValueId)>& name_of, const std::string& result,
                     const std::map<ValueId, std::string>& groups) {
  Scope scope = part_scope(part);
  for (ValueId id : part.per_item) scope.names[id] = value_names_[id];
  std::vector<std::string> passed = arguments(scope, part, element, groups);
  for (ValueId id : known) passed.push_back(name_of(id));
  if (!result.empty()) passed.push_back(result);
  main_.line("{}_element({});", part.name, fmt::join(passed, ", "));
}

/// Each lane finds out about some rows of the tile.
Result<void> Matrix::find_row_values() {
  if (row_arrays_.empty()) return {};
  for (const auto& [id, array] : row_arrays_)
    shared_.line("shared {} {}[{}];", scalar_type(loops_.values[id].node), array, shape_.m);
  main_.open("for (uint row = lane; row < {}u; row += {}u) {{", shape_.m, schedule_.workgroup);
  main_.line("uint m = {};", limited(fmt::format("tile_m * {}u + row", shape_.m), extent(tile_.m), shape_.m));
  const auto name_of = [&](ValueId id) { return value_names_[id]; };
  std::set<ValueId> asked;
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    const Value& value = loops_.values[id];
    if (!value.beforehand && asked.count(id) == 0) continue;
    asked.insert(id);
    if (value.kind != Value::Kind::contract) asked.insert(value.operands.begin(), value.operands.end());
  }
  Part rows;
  rows.own = kDepth;
  Scope scope = part_scope(rows);
  for (ValueId id : asked) {
    const auto fold =
        std::find_if(beforehand_.begin(), beforehand_.end(), [&](const Fold& one) { return one.id == id; });
    if (fold == beforehand_.end()) {
      VKF_CHECK_OK(emit_value(scope, id));
      continue;
    }
    const ir::Node& node = graph_.node(loops_.values[id].node);
    const std::int64_t parts = schedule::count_along(loops_, schedule::axes_in(loops_, loops_.inner()));
    use_items_of(fold->operand);
    main_.line("{} {} = {};", fold->type, value_names_[id], fold_identity(graph_, node, dialect_));
    if (in_two_parts(id)) main_.line("float {}_low = 0.0;", value_names_[id]);
    main_.open("for (uint item = 0u; item < {}; ++item) {{", numbers_.size(parts));
    Scope inside = part_scope(fold->operand);
    for (ValueId known : fold->known) inside.names[known] = value_names_[known];
    VKF_TRY(groups, load_item(inside, fold->operand));
    main_.line("{} folded;", scalar_type(loops_.values[loops_.values[id].operands[0]].node));
    compute(fold->operand, fold->known, 0, name_of, "folded", groups);
    if (in_two_parts(id))
      main_.line("f32_add_term({0}, {0}_low, folded);", value_names_[id]);
    else
      main_.line("{0} = {1}({0}, folded);", value_names_[id], fold->function);
    main_.close();
    if (in_two_parts(id))
      main_.line("{0} = f32_mean({0}, {0}_low, {1});", value_names_[id], numbers_.size(parts));
    else if (is_mean(id))
      main_.line("{0} = {0} / {1}({2});", value_names_[id], fold->type, numbers_.size(parts));
    scope.names[id] = value_names_[id];
  }
  for (const auto& [id, array] : row_arrays_) main_.line("{}[row] = {};", array, use(scope, id));
  main_.close();
  main_.line("barrier();");
  return {};
}

std::string Matrix::joined_four(const Fold& fold, const std::string& four) const {
  return fmt::format("{0}({0}({1}.x, {1}.y), {0}({1}.z, {1}.w))", fold.function, four);
}

std::string Matrix::mean_of_block(const Fold& fold, const std::string& sum, const std::string& low) const {
  if (!is_mean(fold.id)) return sum;
  // Products with a power of two are exact.
  const bool power = std::has_single_bit(static_cast<unsigned>(tile_.block));
  if (!in_two_parts(fold.id)) return fmt::format("{} / {}({})", sum, fold.type, tile_.block);
  return power ? fmt::format("({} + {}) * {}", sum, low, 1.0 / tile_.block)
               : fmt::format("f32_mean({}, {}, {}u)", sum, low, tile_.block);
}

Result<void> Matrix::store_block(const std::function<std::string(ValueId)>& name_of) {
  Scope scope = part_scope(block_);
  VKF_TRY(groups, load_item(scope, block_));
  std::vector<std::string> passed = arguments(scope, block_, 0, groups);
  for (ValueId id : block_known_) passed.push_back(name_of(id));
  main_.line("{}_element({});", block_.name, fmt::join(passed, ", "));
  return {};
}

Result<void> Matrix::fold_tails(const TailItems& items) {
  use_items_of(results_);
  bool kept = false;  // may be a sum, which is asked for first
  // What main() passes for a known value of element e of an item.
  const auto name_of = [&](ValueId id, int e) -> std::string {
    if (id == tile_.kept && kept) return fmt::format("{}[{}].{}", kept_array_, items.slot, "xyzw"[e]);
    const auto tail = std::find_if(tails_.begin(), tails_.end(), [&](const Fold& one) { return one.id == id; });
    return tail != tails_.end() ? fmt::format("{}[{}]", tail->array, items.slot)
                                : known_name(id, items.row, e, items.sum_of);
  };
  const auto compute_four = [&](const Part& part, const std::vector<ValueId>& known,
                                const std::string& result) -> Result<void> {
    Scope scope = part_scope(part);
    VKF_TRY(groups, load_item(scope, part));
    for (int e = 0; e < part.elements; ++e) {
      compute(
          part, known, e, [&](ValueId id) { return name_of(id, e); }, element_of(result, e, group_), groups);
    }
    return {};
  };
  main_.line("{} {}[{}];", group_type_of(loops_.values[tile_.kept].node), kept_array_, items.count);
  items.open(true);
  VKF_CHECK_OK(compute_four(kept_, kept_known_, fmt::format("{}[{}]", kept_array_, items.slot)));
  items.close();
  kept = true;
  for (const Fold& tail : tails_) {
    main_.line("{} {}[{}];", tail.type, tail.array, items.count);
    items.open(true);
    main_.line("{} folded;", group_type_of(loops_.values[loops_.values[tail.id].operands[0]].node));
    VKF_CHECK_OK(compute_four(tail.operand, tail.known, "folded"));
    items.leave(tail, joined_four(tail, "folded"));
    items.close();
    items.join(tail);
  }
  items.open(false);
  VKF_CHECK_OK(store_one(name_of));
  const std::string inside = limits_of_results(tile_.elements);
  main_.open("if ({}{} % {}u == 0u) {{", inside.empty() ? "" : inside + " && ", items.column, tile_.block / 4);
  VKF_CHECK_OK(store_block([&](ValueId id) { return name_of(id, 0); }));
  main_.close();
  items.close();
  return {};
}

/// Every lane has rows of its own; the fours of a block's row are other lanes'.
Result<void> Matrix::store_tails() {
  const int columns = shape_.lane_n / 4;
  const int lanes_n = shape_.n / shape_.lane_n;
  const int fours = shape_.n / 4;
  lay_out_sums();
  TailItems items;
  items.count = shape_.lane_m * columns;
  items.slot = columns == 1 ? "i" : fmt::format("i * {}u + g", columns);
  items.row = "in_tile";
  items.column = "place";
  items.sum_of = [&](std::size_t s, int e) { return fmt::format("{}[{}].{}", sums_[s], items.slot, "xyzw"[e]); };
  const auto open = [&] {
    main_.open("{} for (uint i = 0u; i < {}u; ++i) {{", over_results_, shape_.lane_m);
    main_.line("uint in_tile = lane_m * {}u + i;", shape_.lane_m);
    if (columns > 1) main_.open("{} for (uint g = 0u; g < {}u; ++g) {{", over_results_, columns);
    main_.line("uint place = {}lane_n;", columns == 1 ? "" : fmt::format("g * {}u + ", lanes_n));
  };
  items.open = [&](bool stays_inside) {
    open();
    const std::string m = fmt::format("tile_m * {}u + in_tile", shape_.m);
    const std::string item = fmt::format("tile_n * {}u + place", fours);
    main_.line("uint m = {};", stays_inside ? limited(m, extent(tile_.m), shape_.m) : m);
    main_.line("uint item = {};", stays_inside ? limited(item, extent(tile_.n) / 4, fours) : item);
  };
  items.close = [&] {
    if (columns > 1) main_.close();
    main_.close();
  };
  items.leave = [&](const Fold& tail, const std::string& joined) {
    shared_.line("shared {} {}[{}];", tail.type, tail.slots, shape_.m * fours);
    main_.line("{}[in_tile * {}u + place] = {};", tail.slots, fours, joined);
  };
  items.join = [&](const Fold& tail) {
    main_.line("barrier();");
    open();
    main_.line("uint first = in_tile * {0}u + place / {1}u * {1}u;", fours, tile_.block / 4);
    main_.line("{} whole = {}[first];", tail.type, tail.slots);
    if (in_two_parts(tail.id)) {  // fours of equal elements are exact
      main_.line("float low = 0.0;");
      main_.line("for (uint i = 1u; i < {}u; ++i) f32_add_term(whole, low, {}[first + i]);", tile_.block / 4,
                 tail.slots);
    } else {
      main_.line("for (uint i = 1u; i < {}u; ++i) whole = {}(whole, {}[first + i]);", tile_.block / 4, tail.function,
                 tail.slots);
    }
    main_.line("{}[{}] = {};", tail.array, items.slot, mean_of_block(tail, "whole", "low"));
    items.close();
  };
  return fold_tails(items);
}

/// Lanes beside each other have the fours of a row of the strip.
Result<void> Matrix::store_tails_of_strip(const std::function<void(bool stays_inside)>& locate, int lane_items) {
  TailItems items;
  items.count = lane_items;
  items.slot = "u";
  items.row = "in_tile";
  items.column = "column";
  std::vector<std::string> fours;
  for (const schedule::MatrixTile::Sum& sum : tile_.sums) fours.push_back(unique(value_names_[sum.fold] + "_four"));
  items.sum_of = [&](std::size_t s, int e) { return fmt::format("{}.{}", fours[s], "xyzw"[e]); };
  items.open = [&](bool stays_inside) {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", lane_items);
    main_.line("uint g = gl_SubgroupInvocationID + u * {}u;", shape_.lanes);
    locate(stays_inside);
    for (std::size_t s = 0; s < fours.size(); ++s)
      main_.line("{} {} = {}[own + row * {}u + column];", sums_four(s), fours[s], strips_[s], strip_fours());
  };
  items.close = [&] { main_.close(); };
  items.leave = [&](const Fold& tail, const std::string& joined) {
    main_.line("{} whole = {};", tail.type, joined);
    for (int mask = 1; mask < tile_.block / 4; mask *= 2)
      main_.line("whole = {}(whole, subgroupShuffleXor(whole, {}u));", tail.function, mask);
    main_.line("{}[u] = {};", tail.array, mean_of_block(tail, "whole", "0.0"));
  };
  items.join = [](const Fold&) {};
  return fold_tails(items);
}

}  // namespace vkfuse::codegen

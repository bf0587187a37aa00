// The tiled template: a workgroup reads a box of positions as vectors along the axes of memory, and computes and
// stores it as vectors along the stores' axes. Between the two the elements lie in shared memory.
#include <algorithm>

#include "codegen/crossing.hpp"
#include "codegen/items.hpp"

namespace vkfuse::codegen {

using index::Expr;

namespace {

constexpr int kMostWordsInFlight = 32;  // of a lane's registers

class Tiled : public Items {
 public:
  /// `merged` are the loops with the axes that items run across as one; `loops` have each of them.
  Tiled(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
        const segment::Loops& merged, const schedule::Schedule& schedule, const Target& target,
        const EmitOptions& options, const NodeNames& names)
      : Items(graph, segment, merged, schedule, target, options, names), box_(schedule::box_of(loops, schedule.tile)) {
    for (const schedule::TransposedLoad& load : schedule.tile.loads) {
      const std::string& name = value_names_[load.value];
      Part part{Crossing(loops, schedule.tile, box_, load), unique(name + "_tile"), {}, 0, 0};
      for (int k = 0; k < load.packed; ++k) part.raw.push_back(unique(fmt::format("{}_r{}", name, k)));
      part.trips = schedule::ceil_div(part.crossing.units(), schedule.workgroup);
      const int words = load.packed * raw_bytes(load) / 4;
      part.batch = std::min<std::int64_t>(part.trips, std::max(1, kMostWordsInFlight / words));
      parts_.push_back(std::move(part));
    }
    items_ = box_.volume() / elements_;
  }

  Result<std::vector<Draft>> run() {
    keep_literals();
    tiles_ = numbers_.named("items", static_cast<std::uint32_t>(schedule_.workgroups), "tiles");
    groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.workgroups_x, 1)),
                               "workgroups in one row of the dispatch");
    find_products();
    sort_values();
    VKF_CHECK_OK(element_function());
    VKF_CHECK_OK(main_function());
    std::string extents;
    for (std::int64_t extent : box_.extents) {
      if (extent > 1) extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
    }
    return finish_one(fmt::format("tiles of {}, {} elements per item, {} item{} per invocation", extents, elements_,
                                  schedule_.items_in_flight, schedule_.items_in_flight == 1 ? "" : "s"));
  }

 private:
  /// One transposed load in the text.
  struct Part {
    Crossing crossing;
    std::string array;
    std::vector<std::string> raw;  ///< the vectors of a unit
    std::int64_t trips = 1;        ///< units of a lane
    std::int64_t batch = 1;        ///< of these, as many are in flight at a time
  };

  // --- positions -------------------------------------------------------------------------------------

  [[nodiscard]] AxisNames own_axes() const override { return {{kTile, "tile"}, {kItem, "item"}, {kElement, "j"}}; }
  [[nodiscard]] std::string argument(const std::string& name, int element) const override {
    return name == "j" ? fmt::format("{}u", element) : name;
  }

  /// Makes every number of an expression a literal.
  void keep_numbers(const Expr& expr) {
    numbers_.keep(std::abs(expr.constant()));
    for (const Expr::Term& term : expr.terms()) {
      numbers_.keep(std::abs(term.coefficient));
      if (term.atom->kind != index::Atom::Kind::div && term.atom->kind != index::Atom::Kind::mod) continue;
      numbers_.keep(term.atom->divisor);
      keep_numbers(term.atom->operand);
    }
  }

  /// Positions inside a tile do not depend on sizes, and lanes divide for them.
  void keep_literals() {
    const ItemPlace place = place_of_item();
    std::vector<Expr> local = index::delinearize(place.row, std::span(box_.extents).first(box_.extents.size() - 1));
    local.push_back(place.column);
    for (const Part& part : parts_) {
      local.push_back(part.crossing.array().entry(place.row, place.column));
      for (int e = 0; e < part.crossing.load().elements; ++e) {
        local.push_back(part.crossing.entry(unit_axis(part), e));
        for (const Expr& along : part.crossing.position(unit_axis(part), e, 0)) local.push_back(along);
      }
    }
    for (const Expr& expr : local) keep_numbers(expr);
    for (std::int64_t extent : box_.extents) numbers_.keep(extent);
  }

  /// Columns of the tile as items: some neighbours along a row, then down the rows, then the next neighbours.
  struct ItemPlace {
    Expr row;
    Expr column;
  };
  [[nodiscard]] ItemPlace place_of_item() const {
    const std::int64_t along = box_.columns / elements_;
    const std::int64_t near = schedule::lanes_along(along, elements_ / schedule_.tile.loads.front().packed);
    const Sizes digits{along / near, box_.rows, near};
    const std::vector<Expr> digit = index::delinearize(Expr::axis(kItem, items_), digits);
    return {digit[1], (digit[0] * near + digit[2]) * elements_};
  }

  /// The loop axes where `local` is the position in the tile.
  [[nodiscard]] std::map<index::AxisId, Expr> axes_at(std::span<const Expr> local) const {
    const std::vector<Expr> block =
        index::delinearize(Expr::axis(kTile, std::max<std::int64_t>(schedule_.workgroups, 2)), box_.blocks);
    std::map<index::AxisId, Expr> axes;
    for (std::size_t i = 0; i < local.size(); ++i)
      axes.emplace(static_cast<int>(i), block[i] * box_.extents[i] + local[i]);
    return axes;
  }

  void set_axes(Scope& scope, bool element) const override {
    const ItemPlace place = place_of_item();
    std::vector<Expr> local = index::delinearize(place.row, std::span(box_.extents).first(box_.extents.size() - 1));
    local.push_back(element && elements_ > 1 ? place.column + Expr::axis(kElement, elements_) : place.column);
    scope.axes = axes_at(local);
  }

  /// The condition that a position exists: tiles at the ends stand out. Empty where none does.
  std::string exists(Scope& scope) {
    segment::Guard guard;
    for (std::size_t i = 0; i < box_.sizes.size(); ++i) {
      if (box_.sizes[i] % box_.extents[i] != 0)
        guard.ranges.push_back({Expr::axis(static_cast<int>(i), box_.sizes[i]), box_.sizes[i]});
    }
    if (guard.ranges.empty()) return {};
    return condition(scope, std::span(&guard, 1));
  }

  [[nodiscard]] static std::string both(const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : a + " && " + b;
  }

  // --- from memory to shared memory ------------------------------------------------------------------

  [[nodiscard]] int raw_bytes(const schedule::TransposedLoad& load) const {
    return std::max(size_of(dtype_of(loops_.values[load.value])),
                    load.elements == 1 ? 4 : schedule_.loads[load.value].vector_bytes);
  }

  /// Whether every trip of every lane has a unit.
  [[nodiscard]] bool is_whole(const Part& part) const {
    return part.crossing.units() == schedule::ceil_div(part.trips, part.batch) * part.batch * schedule_.workgroup;
  }
  [[nodiscard]] std::string has_unit(const Part& part) const {
    return is_whole(part) ? std::string() : fmt::format("{} < {}u", unit_name(part), part.crossing.units());
  }
  [[nodiscard]] static std::string unit_name(const Part& part) { return part.trips == 1 ? "lane" : "unit"; }
  [[nodiscard]] static std::string slot(const Part& part) { return part.batch == 1 ? "" : "[u]"; }

  [[nodiscard]] Scope unit_scope(const Scope& scope, const Part& part) const {
    Scope made = scope;
    made.axis_names[kUnit] = unit_name(part);
    return made;
  }
  [[nodiscard]] static Expr unit_axis(const Part& part) { return Expr::axis(kUnit, part.crossing.units()); }

  /// The instructions that fetch a unit.
  void fetch(Scope& scope, const Part& part) {
    const schedule::TransposedLoad& load = part.crossing.load();
    const Value& value = loops_.values[load.value];
    const std::string& block = node_names_.at(value.node);
    const DType type = dtype(value.node);
    const int bytes = raw_bytes(load);
    for (int k = 0; k < load.packed; ++k) {
      scope.axes = axes_at(part.crossing.position(unit_axis(part), 0, k));
      scope.exists = both(has_unit(part), exists(scope));
      const std::string guard = guard_of(scope, value);
      const std::string at = scoped(scope, index::floor_div(in_scope(scope, value.offset), load.elements));
      std::string text = fmt::format("{}.w[{}]", block, at);
      if (load.elements == 1) text = load_bits(type, block, buffer_bytes(value.node), at);
      if (load.elements > 1 && bytes == 4) text = load_word(block, buffer_bytes(value.node), at);
      const std::string& name = part.raw[static_cast<std::size_t>(k)];
      const std::string raw_type(word_type(bytes));
      const std::string declared = slot(part).empty() ? raw_type + " " : "";
      if (guard.empty()) {
        main_.line("{}{}{} = {};", declared, name, slot(part), text);
        continue;
      }
      main_.line("{}{}{} = {}(0u);", declared, name, slot(part), raw_type);
      main_.line("if ({}) {}{} = {};", guard, name, slot(part), text);
    }
  }

  /// The instructions that hand its elements over.
  void hand_over(Scope& scope, const Part& part) {
    const schedule::TransposedLoad& load = part.crossing.load();
    std::vector<std::string> raw;
    for (const std::string& name : part.raw) raw.push_back(name + slot(part));
    const Expr first = part.crossing.entry(unit_axis(part), 0);
    const std::string to = unique(value_names_[load.value] + "_to");
    const std::string guard = has_unit(part);
    if (!guard.empty()) main_.open("if ({}) {{", guard);
    main_.line("uint {} = {};", to, scoped(scope, first));
    for (int e = 0; e < load.elements; ++e) {
      const Expr entry = part.crossing.entry(unit_axis(part), e);
      const Expr further = entry - first;
      std::string at = e == 0                  ? to
                       : further.is_constant() ? fmt::format("{} + {}u", to, further.constant())
                                               : scoped(scope, entry);
      main_.line("{}[{}] = {};", part.array, at,
                 entry_bits(dtype_of(loops_.values[load.value]), raw, load.elements, e));
    }
    if (!guard.empty()) main_.close();
  }

  void declare_raw(const Part& part) {
    if (slot(part).empty()) return;
    for (const std::string& name : part.raw)
      main_.line("{} {}[{}];", word_type(raw_bytes(part.crossing.load())), name, part.batch);
  }

  /// A block for each unit of a batch that begins at unit number `begin` of the lane.
  template <typename Body>
  void each_unit(const Scope& scope, const Part& part, const std::string& begin, const Body& body) {
    const std::string number = begin.empty() ? "u" : part.batch == 1 ? begin : fmt::format("({} + u)", begin);
    if (part.batch > 1) main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", part.batch);
    main_.line("uint unit = {} * gl_WorkGroupSize.x + lane;", number);
    Scope inner = unit_scope(scope, part);
    body(inner);
    if (part.batch > 1) main_.close();
  }

  /// Loads that fit a lane's registers are all issued before the first is waited for.
  [[nodiscard]] static bool at_once(const Part& part) { return part.trips == part.batch; }

  void fill_in_batches(const Scope& scope, const Part& part) {
    main_.open("for (uint t = 0u; t < {}u; t += {}u) {{", part.trips, part.batch);
    declare_raw(part);
    if (part.batch == 1) {
      each_unit(scope, part, "t", [&](Scope& inner) {
        fetch(inner, part);
        hand_over(inner, part);
      });
    } else {
      each_unit(scope, part, "t", [&](Scope& inner) { fetch(inner, part); });
      each_unit(scope, part, "t", [&](Scope& inner) { hand_over(inner, part); });
    }
    main_.close();
  }

  // --- items -----------------------------------------------------------------------------------------

  [[nodiscard]] bool items_are_whole() const {
    return items_ == static_cast<std::int64_t>(schedule_.items_in_flight) * schedule_.workgroup;
  }
  [[nodiscard]] std::string has_item() const {
    return items_are_whole() ? std::string() : fmt::format("item < {}u", items_);
  }

  void open_items() {
    if (schedule_.items_in_flight > 1) {
      // Only registers have to be told apart by number.
      main_.open("{}for (uint u = 0u; u < {}u; ++u) {{", item_slot().empty() ? "" : "[[unroll]] ",
                 schedule_.items_in_flight);
      main_.line("uint item = u * gl_WorkGroupSize.x + lane;");
    }
  }
  void close_items() {
    if (schedule_.items_in_flight > 1) main_.close();
  }

  /// Whether the vectors of all items are loaded before the barrier, beside those that cross.
  [[nodiscard]] bool loads_ahead() const {
    int words = 0;
    for (ValueId id : vectors_) {
      if (!loops_.values[id].data.empty()) return false;
      words += schedule_.items_in_flight * vectors_of(id) * schedule_.loads[id].vector_bytes / 4;
    }
    return !vectors_.empty() && words <= kMostWordsInFlight;
  }
  [[nodiscard]] std::string item_slot() const { return loads_ahead() && schedule_.items_in_flight > 1 ? "[u]" : ""; }

  void load_ahead(const Scope& scope) {
    if (!item_slot().empty()) {
      for (ValueId id : vectors_) {
        for (int v = 0; v < vectors_of(id); ++v) {
          main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v),
                     schedule_.items_in_flight);
        }
      }
    }
    open_items();
    Scope inner = scope;
    inner.exists = both(has_item(), exists(inner));
    for (ValueId id : vectors_) load_vectors(inner, id, item_slot());
    close_items();
  }

  [[nodiscard]] std::string loaded_group(ValueId id, int group, const std::string& slot) override {
    const auto part =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& one) { return one.crossing.load().value == id; });
    if (part == parts_.end()) return unpacked(id, group, slot);
    const DType type = dtype_of(loops_.values[id]);
    const int packed = part->crossing.load().packed;
    std::vector<std::string> entries;
    for (int i = 0; i < group_ / packed; ++i) {
      const int entry = group * group_ / packed + i;
      entries.push_back(entry == 0 ? fmt::format("{}[{}]", part->array, from_.at(id))
                                   : fmt::format("{}[{} + {}u]", part->array, from_.at(id), entry));
    }
    if (packed > 1 || (size_of(type) == 4 && group_ > 1)) return unpack(type, group_, entries, dialect_, false);
    std::string all;
    for (const std::string& entry : entries) all += (all.empty() ? "" : ", ") + lowest_element(type, entry, dialect_);
    return group_ == 1 ? all : fmt::format("{}({})", group_type_of(loops_.values[id].node), all);
  }

  Result<void> items(const Scope& scope) {
    open_items();
    Scope inner = scope;
    const std::string guard = both(has_item(), exists(inner));
    if (!guard.empty()) main_.open("if ({}) {{", guard);
    const ItemPlace place = place_of_item();
    for (const Part& part : parts_) {
      const std::string from = unique(value_names_[part.crossing.load().value] + "_from");
      main_.line("uint {} = {};", from, scoped(inner, part.crossing.array().entry(place.row, place.column)));
      from_[part.crossing.load().value] = from;
    }
    VKF_CHECK_OK(emit_values(inner, per_item_));
    if (!loads_ahead()) {
      for (ValueId id : vectors_) load_vectors(inner, id, "");
    }
    compute(inner, item_slot());
    store(inner, "", "");
    if (!guard.empty()) main_.close();
    close_items();
    return {};
  }

  Result<void> main_function() {
    for (const Part& part : parts_) {
      const bool pairs = size_of(dtype_of(loops_.values[part.crossing.load().value])) == 8;
      shared_.line("shared {} {}[{}];", pairs ? "uvec2" : "uint", part.array, part.crossing.array().entries);
    }
    main_.open("void main() {{");
    main_.line("uint tile = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
    main_.line("if (tile >= {}) return;", tiles_);
    main_.line("uint lane = gl_LocalInvocationID.x;");
    if (schedule_.items_in_flight == 1) main_.line("uint item = lane;");
    Scope scope = item_scope();
    // What depends on the tile alone has one name for all that follows.
    for (const Expr& block :
         index::delinearize(Expr::axis(kTile, std::max<std::int64_t>(schedule_.workgroups, 2)), box_.blocks))
      scoped(scope, block);

    std::vector<Scope> single;  // of parts without a loop: what they have named stays known
    for (const Part& part : parts_) single.push_back(unit_scope(scope, part));
    main_.line("// Vectors along the axes of memory.");
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      if (!at_once(part)) continue;
      declare_raw(part);
      if (part.trips == 1) {
        fetch(single[i], part);
      } else {
        each_unit(scope, part, "", [&](Scope& inner) { fetch(inner, part); });
      }
    }
    if (loads_ahead()) load_ahead(scope);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      if (!at_once(part)) {
        fill_in_batches(scope, part);
      } else if (part.trips == 1) {
        hand_over(single[i], part);
      } else {
        each_unit(scope, part, "", [&](Scope& inner) { hand_over(inner, part); });
      }
    }
    main_.line("barrier();");
    main_.line("// Items along the axes of the stores.");
    VKF_CHECK_OK(items(scope));
    main_.close();
    return {};
  }

  schedule::Box box_;
  std::vector<Part> parts_;
  std::int64_t items_ = 1;  ///< of a tile
  std::map<ValueId, std::string> from_;
  std::string tiles_, groups_x_;
};

}  // namespace

Result<std::vector<Draft>> emit_tiled(const ir::Graph& graph, const segment::Segment& segment,
                                      const segment::Loops& loops, const schedule::Schedule& schedule,
                                      const Target& target, const EmitOptions& options, const NodeNames& names) {
  const segment::Loops merged = schedule::merge_inner(loops, schedule.tile.merged);
  return Tiled(graph, segment, loops, merged, schedule, target, options, names).run();
}

}  // namespace vkfuse::codegen

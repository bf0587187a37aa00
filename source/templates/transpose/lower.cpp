// The tiled template: a workgroup reads a box of positions as vectors along the axes of memory, and computes and
// stores it as vectors along the stores' axes. Between the two the elements lie in shared memory.
#include "templates/transpose/lower.hpp"

#include <algorithm>

#include "lowering/chunks.hpp"
#include "templates/transpose/lower_staged_load.hpp"

namespace vkfuse::lowering {

using index::Expr;

namespace {

constexpr int kMostWordsInFlight = 32;     // of a thread's registers
constexpr index::AxisId kBlock = 1 << 26;  // and the axis: the number of the tile along it

class Transpose : public ChunkEmitter {
 public:
  /// `merged` has loops with the axes that chunks run across as one; `loops` have each of them, as has what decides.
  Transpose(const LoweringInput& merged, const segment::Loops& loops, const segment::Loops& reference)
      : ChunkEmitter(merged),
        params_(schedule_.as<schedule::TransposeParams>()),
        box_(schedule::box_of(loops, params_)),
        decided_(schedule::box_of(reference, params_)) {
    for (const schedule::TransposedLoad& load : params_.loads) {
      const Code& name = names_.values[load.value];
      Part part{StagedLoad(loops, params_, box_, load), unique(name + "_tile"), {}, 0, 0};
      for (int k = 0; k < load.packed; ++k) part.raw.push_back(unique(code("{}_r{}", name, k)));
      part.iterations = schedule::ceil_div(part.staged_load.units(), schedule_.workgroup);
      const int words = load.packed * raw_bytes(load) / 4;
      part.batch = std::min<std::int64_t>(part.iterations, std::max(1, kMostWordsInFlight / words));
      parts_.push_back(std::move(part));
    }
    chunks_ = box_.volume() / chunk_.elements;
    for (std::size_t axis = 0; axis < box_.blocks.size(); ++axis) {
      if (decided_.blocks[axis] > 1) cut_axes_.push_back(axis);
      differs_ = differs_ || (decided_.blocks[axis] == 1 && box_.blocks[axis] != 1);
    }
  }

  Result<std::vector<RelocatableKernel>> run() {
    keep_literals();
    tiles_ = numbers_.named("chunks", static_cast<std::uint32_t>(schedule_.launch.workgroups), "tiles");
    groups_x_ =
        numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.launch.workgroups_x, 1)),
                       "workgroups in one row of the dispatch");
    find_products();
    sort_values();
    VKF_CHECK_OK(element_function());
    VKF_CHECK_OK(main_function());
    Code extents;
    for (std::int64_t extent : box_.extents) {
      if (extent > 1) extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
    }
    return finish_one(code("tiles of {}, {} elements per chunk, {} chunk{} per invocation", extents, chunk_.elements,
                           schedule_.unroll_factor, schedule_.unroll_factor == 1 ? "" : "s"));
  }

 private:
  /// One transposed load in the text.
  struct Part {
    StagedLoad staged_load;
    Code array;
    std::vector<Code> raw;        ///< the vectors of a unit
    std::int64_t iterations = 1;  ///< units of a thread
    std::int64_t batch = 1;       ///< of these, as many are in flight at a time
  };

  // --- positions -------------------------------------------------------------------------------------

  [[nodiscard]] AxisNames own_axes() const override {
    AxisNames names{{kChunk, "chunk"}, {kElement, "j"}};
    for (const std::size_t axis : cut_axes_) names.emplace_back(kBlock + static_cast<int>(axis), block_name(axis));
    return names;
  }
  [[nodiscard]] Code argument(const std::string& name, int element) const override {
    return name == "j" ? code("{}u", element) : Code(name);
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

  /// Positions inside a tile do not depend on sizes, and threads divide for them.
  void keep_literals() {
    const ChunkPosition place = position_of_chunk();
    std::vector<Expr> local = index::delinearize(place.row, std::span(box_.extents).first(box_.extents.size() - 1));
    local.push_back(place.column);
    for (const Part& part : parts_) {
      local.push_back(part.staged_load.array().entry(place.row, place.column));
      for (int e = 0; e < part.staged_load.load().elements; ++e) {
        local.push_back(part.staged_load.entry(unit_axis(part), e));
        for (const Expr& along : part.staged_load.position(unit_axis(part), e, 0)) local.push_back(along);
      }
    }
    for (const Expr& expr : local) keep_numbers(expr);
    for (std::int64_t extent : box_.extents) numbers_.keep(extent);
  }

  /// Columns of the tile as chunks: some neighbours along a row, then down the rows, then the next neighbours.
  struct ChunkPosition {
    Expr row;
    Expr column;
  };
  [[nodiscard]] ChunkPosition position_of_chunk() const {
    const std::int64_t along = box_.columns / chunk_.elements;
    const std::int64_t near = schedule::threads_along(
        along, chunk_.elements / schedule_.as<schedule::TransposeParams>().loads.front().packed);
    const Sizes digits{along / near, box_.rows, near};
    const std::vector<Expr> digit = index::delinearize(Expr::axis(kChunk, chunks_), digits);
    return {digit[1], (digit[0] * near + digit[2]) * chunk_.elements};
  }

  [[nodiscard]] std::string block_name(std::size_t axis) const {
    return cut_axes_.size() == 1 ? "tile" : fmt::format("block{}", axis);
  }
  [[nodiscard]] bool ends_inside(std::size_t axis) const { return decided_.sizes[axis] % decided_.extents[axis] != 0; }
  /// The number of the tile along an axis. What ends inside a tile may be one longer than it is, so that the text is
  /// the same where no tile is cut.
  [[nodiscard]] Expr block(std::size_t axis) const {
    if (decided_.blocks[axis] == 1) return 0;
    const std::int64_t count = box_.blocks[axis] + (ends_inside(axis) ? 1 : 0);
    return Expr::axis(kBlock + static_cast<int>(axis), std::max<std::int64_t>(count, 2));
  }
  /// Names the numbers of the tile along the axes that tiles cut.
  void locate_tile() {
    const std::vector<std::size_t>& axes = cut_axes_;
    Code rest = "tile";
    for (std::size_t i = axes.size(); i-- > 1;) {
      const std::int64_t along = box_.blocks[axes[i]];
      main_.line("uint {} = {};", block_name(axes[i]), numbers_.remainder(rest, along, false));
      const Code outer = i == 1 ? Code(block_name(axes[0])) : unique("outer");
      main_.line("uint {} = {};", outer, numbers_.quotient(rest, along, false));
      rest = outer;
    }
  }

  /// The loop axes where `local` is the position in the tile.
  [[nodiscard]] std::map<index::AxisId, Expr> axes_at(std::span<const Expr> local) const {
    std::map<index::AxisId, Expr> axes;
    for (std::size_t i = 0; i < local.size(); ++i)
      axes.emplace(static_cast<int>(i), block(i) * box_.extents[i] + local[i]);
    return axes;
  }

  void set_axes(Scope& scope, bool element) const override {
    const ChunkPosition place = position_of_chunk();
    std::vector<Expr> local = index::delinearize(place.row, std::span(box_.extents).first(box_.extents.size() - 1));
    local.push_back(element && chunk_.elements > 1 ? place.column + Expr::axis(kElement, chunk_.elements)
                                                   : place.column);
    scope.axes = axes_at(local);
  }

  /// The condition that a position exists: tiles at the ends stand out. Empty where none does.
  Code exists(Scope& scope) {
    segment::Predicate predicate;
    for (std::size_t i = 0; i < box_.sizes.size(); ++i) {
      if (!divides(box_.extents[i], {box_.sizes[i], decided_.sizes[i]}))
        predicate.ranges.push_back({Expr::axis(static_cast<int>(i), box_.sizes[i]), box_.sizes[i]});
    }
    if (predicate.ranges.empty()) return {};
    return condition(scope, std::span(&predicate, 1));
  }

  [[nodiscard]] static Code both(const Code& a, const Code& b) {
    return a.empty() ? b : b.empty() ? a : a + " && " + b;
  }

  // --- from memory to shared memory ------------------------------------------------------------------

  [[nodiscard]] int raw_bytes(const schedule::TransposedLoad& load) const {
    return std::max(size_of(dtype_of(loops_.values[load.value])),
                    load.elements == 1 ? 4 : schedule_.loads[load.value].vector_bytes);
  }

  /// Whether every trip of every thread has a unit.
  [[nodiscard]] bool is_whole(const Part& part) const {
    return part.staged_load.units() ==
           schedule::ceil_div(part.iterations, part.batch) * part.batch * schedule_.workgroup;
  }
  [[nodiscard]] Code has_unit(const Part& part) const {
    return is_whole(part) ? Code() : code("{} < {}u", unit_name(part), part.staged_load.units());
  }
  [[nodiscard]] static Code unit_name(const Part& part) { return part.iterations == 1 ? "thread" : "unit"; }
  [[nodiscard]] static Code register_index(const Part& part) { return part.batch == 1 ? "" : "[u]"; }

  [[nodiscard]] Scope unit_scope(const Scope& scope, const Part& part) const {
    Scope made = scope;
    made.axis_names[kUnit] = unit_name(part);
    return made;
  }
  [[nodiscard]] static Expr unit_axis(const Part& part) { return Expr::axis(kUnit, part.staged_load.units()); }

  /// The instructions that fetch a unit.
  void fetch(Scope& scope, const Part& part) {
    const schedule::TransposedLoad& load = part.staged_load.load();
    const Value& value = loops_.values[load.value];
    const Code& block = names_.nodes.at(value.node);
    const DType type = dtype(value.node);
    const int bytes = raw_bytes(load);
    for (int k = 0; k < load.packed; ++k) {
      scope.axes = axes_at(part.staged_load.position(unit_axis(part), 0, k));
      scope.exists = both(has_unit(part), exists(scope));
      const Code predicate = predicate_of(scope, value);
      const Code at = scoped(scope, index::floor_div(in_scope(scope, value.offset), load.elements));
      Code text = code("{}.w[{}]", block, at);
      if (load.elements == 1) text = load_bits(type, block, buffer_bytes(value.node), at);
      if (load.elements > 1 && bytes == 4) text = load_word(block, buffer_bytes(value.node), at);
      const Code& name = part.raw[static_cast<std::size_t>(k)];
      const Code raw_type(word_type(bytes));
      const Code declared = register_index(part).empty() ? raw_type + " " : "";
      if (predicate.empty()) {
        main_.line("{}{}{} = {};", declared, name, register_index(part), text);
        continue;
      }
      main_.line("{}{}{} = {}(0u);", declared, name, register_index(part), raw_type);
      main_.line("if ({}) {}{} = {};", predicate, name, register_index(part), text);
    }
  }

  /// The instructions that hand its elements over.
  void hand_over(Scope& scope, const Part& part) {
    const schedule::TransposedLoad& load = part.staged_load.load();
    std::vector<Code> raw;
    for (const Code& name : part.raw) raw.push_back(name + register_index(part));
    const Expr first = part.staged_load.entry(unit_axis(part), 0);
    const Code to = unique(names_.values[load.value] + "_to");
    const Code predicate = has_unit(part);
    if (!predicate.empty()) main_.open("if ({}) {{", predicate);
    main_.line("uint {} = {};", to, scoped(scope, first));
    for (int e = 0; e < load.elements; ++e) {
      const Expr entry = part.staged_load.entry(unit_axis(part), e);
      const Expr further = entry - first;
      Code at = e == 0 ? to : further.is_constant() ? code("{} + {}u", to, further.constant()) : scoped(scope, entry);
      main_.line("{}[{}] = {};", part.array, at,
                 entry_bits(dtype_of(loops_.values[load.value]), raw, load.elements, e));
    }
    if (!predicate.empty()) main_.close();
  }

  void declare_raw(const Part& part) {
    if (register_index(part).empty()) return;
    for (const Code& name : part.raw)
      main_.line("{} {}[{}];", word_type(raw_bytes(part.staged_load.load())), name, part.batch);
  }

  /// A block for each unit of a batch that begins at unit number `begin` of the thread.
  template <typename Body>
  void each_unit(const Scope& scope, const Part& part, const Code& begin, const Body& body) {
    const Code number = begin.empty() ? "u" : part.batch == 1 ? begin : code("({} + u)", begin);
    if (part.batch > 1) main_.open_unrolled("u", part.batch);
    main_.line("uint unit = {} * gl_WorkGroupSize.x + thread;", number);
    Scope inner = unit_scope(scope, part);
    body(inner);
    if (part.batch > 1) main_.close();
  }

  /// Loads that fit a thread's registers are all issued before the first is waited for.
  [[nodiscard]] static bool at_once(const Part& part) { return part.iterations == part.batch; }

  void fill_in_batches(const Scope& scope, const Part& part) {
    main_.open("for (uint t = 0u; t < {}u; t += {}u) {{", part.iterations, part.batch);
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

  // --- chunks -----------------------------------------------------------------------------------------

  [[nodiscard]] bool chunks_are_full() const {
    return chunks_ == static_cast<std::int64_t>(schedule_.unroll_factor) * schedule_.workgroup;
  }
  [[nodiscard]] Code has_chunk() const { return chunks_are_full() ? Code() : code("chunk < {}u", chunks_); }

  void open_chunks() {
    if (schedule_.unroll_factor > 1) {
      // Only registers have to be told apart by number.
      if (chunk_register_index().empty())
        main_.open("for (uint u = 0u; u < {}u; ++u) {{", schedule_.unroll_factor);
      else
        main_.open_unrolled("u", schedule_.unroll_factor);
      main_.line("uint chunk = u * gl_WorkGroupSize.x + thread;");
    }
  }
  void close_chunks() {
    if (schedule_.unroll_factor > 1) main_.close();
  }

  /// Whether the vectors of all chunks are loaded before the barrier, beside those that cross.
  [[nodiscard]] bool prefetches() const {
    int words = 0;
    for (ValueId id : vectors_) {
      if (!loops_.values[id].data.empty()) return false;
      words += schedule_.unroll_factor * vectors_of(id) * schedule_.loads[id].vector_bytes / 4;
    }
    return !vectors_.empty() && words <= kMostWordsInFlight;
  }
  [[nodiscard]] Code chunk_register_index() const { return prefetches() && schedule_.unroll_factor > 1 ? "[u]" : ""; }

  void prefetch(const Scope& scope) {
    if (!chunk_register_index().empty()) {
      for (ValueId id : vectors_) {
        for (int v = 0; v < vectors_of(id); ++v) {
          main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v),
                     schedule_.unroll_factor);
        }
      }
    }
    open_chunks();
    Scope inner = scope;
    inner.exists = both(has_chunk(), exists(inner));
    for (ValueId id : vectors_) load_vectors(inner, id, chunk_register_index());
    close_chunks();
  }

  [[nodiscard]] Code loaded_group(ValueId id, int group, const Code& register_index) override {
    const auto part =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& one) { return one.staged_load.load().value == id; });
    if (part == parts_.end()) return unpacked(id, group, register_index);
    const DType type = dtype_of(loops_.values[id]);
    const int packed = part->staged_load.load().packed;
    std::vector<Code> entries;
    for (int i = 0; i < chunk_.group / packed; ++i) {
      const int entry = group * chunk_.group / packed + i;
      entries.push_back(entry == 0 ? code("{}[{}]", part->array, from_.at(id))
                                   : code("{}[{} + {}u]", part->array, from_.at(id), entry));
    }
    if (packed > 1 || (size_of(type) == 4 && chunk_.group > 1))
      return unpack(type, chunk_.group, entries, dialect_, false);
    Code all;
    for (const Code& entry : entries) all += (all.empty() ? "" : ", ") + lowest_element(type, entry, dialect_);
    return chunk_.group == 1 ? all : code("{}({})", group_type_of(loops_.values[id].node), all);
  }

  Result<void> chunks(const Scope& scope) {
    open_chunks();
    Scope inner = scope;
    const Code predicate = both(has_chunk(), exists(inner));
    if (!predicate.empty()) main_.open("if ({}) {{", predicate);
    const ChunkPosition place = position_of_chunk();
    for (const Part& part : parts_) {
      const Code from = unique(names_.values[part.staged_load.load().value] + "_from");
      main_.line("uint {} = {};", from, scoped(inner, part.staged_load.array().entry(place.row, place.column)));
      from_[part.staged_load.load().value] = from;
    }
    VKF_CHECK_OK(emit_values(inner, per_chunk_));
    if (!prefetches()) {
      for (ValueId id : vectors_) load_vectors(inner, id, "");
    }
    compute(inner, chunk_register_index());
    store(inner, "", "");
    if (!predicate.empty()) main_.close();
    close_chunks();
    return {};
  }

  void declare_arrays() {
    for (const Part& part : parts_) {
      const bool pairs = size_of(dtype_of(loops_.values[part.staged_load.load().value])) == 8;
      shared_.line("shared {} {}[{}];", pairs ? "uvec2" : "uint", part.array, part.staged_load.array().entries);
    }
  }

  /// Fills the shared arrays. Loads that fit registers, and those of chunks, are in flight before the first is needed.
  void fill_arrays(const Scope& scope) {
    std::vector<Scope> single;  // of parts without a loop: what they have named stays known
    for (const Part& part : parts_) single.push_back(unit_scope(scope, part));
    main_.line("// Vectors along the axes of memory.");
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      if (!at_once(part)) continue;
      declare_raw(part);
      if (part.iterations == 1) {
        fetch(single[i], part);
      } else {
        each_unit(scope, part, "", [&](Scope& inner) { fetch(inner, part); });
      }
    }
    if (prefetches()) prefetch(scope);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      if (!at_once(part)) {
        fill_in_batches(scope, part);
      } else if (part.iterations == 1) {
        hand_over(single[i], part);
      } else {
        each_unit(scope, part, "", [&](Scope& inner) { hand_over(inner, part); });
      }
    }
  }

  Result<void> main_function() {
    declare_arrays();
    main_.open("void main() {{");
    main_.line("uint tile = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
    main_.line("if (tile >= {}) return;", tiles_);
    main_.line("uint thread = gl_LocalInvocationID.x;");
    if (schedule_.unroll_factor == 1) main_.line("uint chunk = thread;");
    locate_tile();
    Scope scope = chunk_scope();
    fill_arrays(scope);
    main_.line("barrier();");
    main_.line("// Items along the axes of the stores.");
    VKF_CHECK_OK(chunks(scope));
    main_.close();
    return {};
  }

  const schedule::TransposeParams& params_;
  schedule::Box box_;
  schedule::Box decided_;              ///< of the sizes that decide what the text is
  std::vector<std::size_t> cut_axes_;  ///< that tiles cut, outermost first
  std::vector<Part> parts_;
  std::int64_t chunks_ = 1;  ///< of a tile
  std::map<ValueId, Code> from_;
  Code tiles_, groups_x_;
};

}  // namespace

Result<std::vector<RelocatableKernel>> lower_transpose(const LoweringInput& in) {
  const segment::Loops merged = schedule::merge_inner(in.loops, in.schedule.as<schedule::TransposeParams>().merged);
  const segment::Loops* reference = in.options.reference_sizes.loops;
  return Transpose(in.with(merged), in.loops, reference != nullptr ? *reference : in.loops).run();
}

}  // namespace vkfuse::lowering

// Attention of few rows: every subgroup walks along k by itself. Lanes share a position of k, from memory straight to
// registers: each multiplies its chunks of d, all add up the scores by shuffles, and each weights its chunks of n. What
// lanes and subgroups have added up is joined at the end.
#include "templates/attention/lower_emitter.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::lowering {

namespace {

class AttentionBySubgroups : public AttentionBase {
 public:
  AttentionBySubgroups(const LoweringInput& in, int dispatch);

  Result<RelocatableKernel> run();

 private:
  Result<void> find_sums();
  Result<void> end();
  void locate_thread();
  void declare();
  Result<void> load_query();
  // --- a block ---
  Result<void> fetch_block(const TileOperand& tile_operand, const Code& block);
  void locate_key(const TileOperand& tile_operand, const Code& block);
  Result<std::vector<Code>> open_chunks(const TileOperand& tile_operand, bool zeros_beyond);
  Result<void> multiply_scores();
  void add_across_lanes();
  Result<void> finish_scores();
  Result<void> weigh();
  Result<void> add_up();
  void find_scale(const Code& most);
  void rescale_sums(const char* scale);
  // --- the end ---
  void join_positions();
  void leave_sums();
  void join(const Code& row, int count);
  void join_subgroups();
  void leave_part();
  void join_parts();
  void open_units();
  Result<void> store_results();
  void find_low_rows(const Code& number) override;

  TileOperand& first() { return products_[0].first; }
  TileOperand& second() { return products_[0].second; }

  /// Elements of an operand that a lane has of one position, as vec4s.
  [[nodiscard]] int vec4s_of(const TileOperand& tile_operand) const {
    return chunks_of(tile_operand) * groups_of(tile_operand);
  }
  [[nodiscard]] static int groups_of(const TileOperand& tile_operand) { return tile_operand.part.elements / 4; }
  [[nodiscard]] int chunks_of(const TileOperand& tile_operand) const {
    const int all = tile_operand.across == kN ? tile_operand.extent : tile_operand.k_extent;
    return all / tile_operand.part.elements / mapping_.lanes;
  }
  /// Vectors that a row has of what is left: its largest score and its total, and its sums.
  [[nodiscard]] int row_words() const { return tile_.extent_n(loops_) / 4 + 1; }
  /// The score of row `i` at a thread's position `g`.
  [[nodiscard]] Code score() const { return code("{}[i * {}u + g]", scores_, mapping_.keys); }
  /// Counts what is in registers, which the compiler of a GPU then tells apart. Those of CPU drivers take minutes for
  /// so much text.
  void open_each(const char* counter, int count) {
    if (target_.type != DeviceType::cpu) return main_.open_unrolled(counter, count);
    main_.open("for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", counter, count);
  }
  void each(const char* counter, int count, const Code& statement) {
    if (target_.type != DeviceType::cpu) return main_.unrolled(counter, count, statement);
    main_.line("for (uint {0} = 0u; {0} < {1}u; ++{0}) {2}", counter, count, statement);
  }
  /// Which of a thread's positions chunk `u` of an operand is of.
  [[nodiscard]] Code key_of(const TileOperand& tile_operand) const {
    return chunks_of(tile_operand) == 1 ? Code("u") : code("u / {}u", chunks_of(tile_operand));
  }
  /// Position `key` of a thread in a block.
  [[nodiscard]] Code position_of(const Code& key, const Code& block = "block") const {
    return code("{} * {}u + {} * {}u + position", block, tile_.tile_k(), key, mapping_.subgroups * mapping_.sharing);
  }
  /// Whether that is one of the softmax; empty where all are.
  [[nodiscard]] Code inside(const Code& key) {
    const Extent positions = extent(tile_.axes.k);
    if (divides(tile_.tile_k(), positions)) return "";
    return code("{} < {}", position_of(key), numbers_.size(positions.count));
  }
  [[nodiscard]] Code whole_rows(const Code& m) { return limited(m, extent(tile_.axes.m), tile_.tile_m()); }

  const schedule::SubgroupAttention& mapping_;
  Code scores_, query_, joined_;
};

AttentionBySubgroups::AttentionBySubgroups(const LoweringInput& in, int dispatch)
    : AttentionBase(in, dispatch), mapping_(*tile_.by_subgroups()) {
  first().staging.prefetched = first().staging.unrolled = false;
  first().staging.iterations = 1;
  scores_ = unique("scores");
  query_ = unique("query");
  joined_ = unique("joined");
}

Result<RelocatableKernel> AttentionBySubgroups::run() {
  VKF_CHECK_OK(functions());
  main_.open("void main() {{");
  locate_tile();
  if (dispatch_ == 0) VKF_CHECK_OK(find_sums());
  VKF_CHECK_OK(end());
  main_.close();
  return finish_dispatch(code("{} rows per workgroup, {} positions of the softmax at a time; {} lanes for each of them",
                              tile_.tile_m(), tile_.tile_k(), mapping_.lanes));
}

/// Results of what subgroups have left, or of what workgroups have.
Result<void> AttentionBySubgroups::end() {
  if (!is_split()) return store_results();
  if (dispatch_ == 0) leave_part();
  if (!computes_results()) return {};
  if (dispatch_ == 0) go_on_in_last("tile");
  return store_results();
}

void AttentionBySubgroups::locate_thread() {
  main_.line("uint lane = gl_SubgroupInvocationID % {}u;", mapping_.lanes);
  main_.line("uint position = gl_SubgroupID * {}u + gl_SubgroupInvocationID / {}u;  // of those of the softmax",
             mapping_.sharing, mapping_.lanes);
}

void AttentionBySubgroups::declare() {
  shared_.line("shared vec4 {}[{}];  // of each subgroup and row: its largest score, its total, its sums", joined_,
               (schedule_.shared_bytes - (schedule_.counter_bytes > 0 ? schedule::Schedule::kBytesOfCount : 0)) / 16);
  main_.line("float {}[{}];", most_, mapping_.rows);
  main_.line("float {}[{}];", total_, mapping_.rows);
  main_.line("float {}[{}];", scores_, mapping_.rows * mapping_.keys);
  main_.line("vec4 {}[{}];", query_, mapping_.rows * vec4s_of(first()));
  main_.line("vec4 {}[{}];", sums(), mapping_.rows * vec4s_of(third()));
  open_each("i", mapping_.rows);
  main_.line("{}[i] = uintBitsToFloat(0xff800000u);", most_);
  main_.line("{}[i] = 0.0;", total_);
  each("c", vec4s_of(third()), code("{}[i * {}u + c] = vec4(0.0);", sums(), vec4s_of(third())));
  main_.close();
}

/// What the subgroups have of all blocks of the workgroup, in shared memory.
Result<void> AttentionBySubgroups::find_sums() {
  locate_thread();
  declare();
  VKF_CHECK_OK(load_query());
  VKF_TRY(all_blocks, find_blocks());
  const Walk walk = share_of(all_blocks);
  for (const TileOperand* tile_operand : {&second(), &third()}) {
    if (tile_operand->staging.prefetched) declare_prefetch(*tile_operand);
  }
  if (second().staging.prefetched) {
    main_.line("uint first_block = {};", walk.begin.is_zero() ? Code("0u") : first_block(walk));
    VKF_CHECK_OK(fetch_block(second(), "first_block"));
  }
  open_blocks(walk, "[[dont_unroll]] ", {joined_, "1.0", "0.0"});
  if (third().staging.prefetched) VKF_CHECK_OK(fetch_block(third(), "block"));
  VKF_CHECK_OK(multiply_scores());
  if (second().staging.prefetched) {
    main_.line("// The next keys are in flight while scores become weights.");
    main_.line("uint next_block = {};", block_after(walk, "block", "1u", walk.end));
    VKF_CHECK_OK(fetch_block(second(), "next_block"));
  }
  add_across_lanes();
  VKF_CHECK_OK(finish_scores());
  VKF_CHECK_OK(weigh());
  VKF_CHECK_OK(add_up());
  main_.close();
  join_positions();
  leave_sums();
  return {};
}

/// The lane's chunks of all rows.
Result<void> AttentionBySubgroups::load_query() {
  use_chunks_of(first().part);
  open_each("i", mapping_.rows);
  main_.line("uint m = {};", whole_rows(code("tile_m * {}u + i", mapping_.rows)));
  open_each("c", chunks_of(first()));
  main_.line("uint chunk = c * {}u + lane;", mapping_.lanes);
  Scope scope = part_scope(first().part);
  VKF_CHECK_OK(load_staged_chunk(first(), scope));
  for (int g = 0; g < groups_of(first()); ++g) {
    const Code value = tile_operand_group(first(), scope, g);
    main_.line("{}[i * {}u + c * {}u + {}u] = {};", query_, vec4s_of(first()), groups_of(first()), g, value);
  }
  main_.close();
  main_.close();
  return {};
}

/// Names `k` and `chunk` of chunk `u` of those that a lane has of a block.
void AttentionBySubgroups::locate_key(const TileOperand& tile_operand, const Code& block) {
  const int chunks = chunks_of(tile_operand);
  main_.line("uint k = {};", limited(position_of(key_of(tile_operand), block), extent(tile_.axes.k), tile_.tile_k()));
  main_.line("uint chunk = {};", chunks == 1 ? Code("lane") : code("u % {}u * {}u + lane", chunks, mapping_.lanes));
}

Result<void> AttentionBySubgroups::fetch_block(const TileOperand& tile_operand, const Code& block) {
  use_chunks_of(tile_operand.part);
  open_each("u", mapping_.keys * chunks_of(tile_operand));
  locate_key(tile_operand, block);
  VKF_CHECK_OK(fetch_chunk(tile_operand));
  main_.close();
  return {};
}

/// Opens the loop over a lane's chunks in a block, computes a chunk's vec4s, whose names it gives, and opens the loop
/// over rows: `g` is the chunk's position, and `c` where its vec4s are among a row's.
Result<std::vector<Code>> AttentionBySubgroups::open_chunks(const TileOperand& tile_operand, bool zeros_beyond) {
  const int chunks = chunks_of(tile_operand), groups = groups_of(tile_operand);
  use_chunks_of(tile_operand.part);
  open_each("u", mapping_.keys * chunks);
  locate_key(tile_operand, "block");
  Scope scope = part_scope(tile_operand.part);
  VKF_CHECK_OK(load_staged_chunk(tile_operand, scope));
  std::vector<Code> values;
  const Code limit = zeros_beyond ? inside(key_of(tile_operand)) : Code();
  for (int g = 0; g < groups; ++g) {
    values.push_back(tile_operand_group(tile_operand, scope, g));
    if (!limit.empty()) main_.line("if (!({})) {} = vec4(0.0);", limit, values.back());
  }
  main_.line("uint g = {};", key_of(tile_operand));
  main_.line("uint c = {};", chunks == 1 ? Code("0u") : code("u % {}u * {}u", chunks, groups));
  open_each("i", mapping_.rows);
  return values;
}

/// What the lane has of the products that scores are computed from.
Result<void> AttentionBySubgroups::multiply_scores() {
  const int groups = groups_of(second());
  each("u", mapping_.rows * mapping_.keys, code("{}[u] = 0.0;", scores_));
  VKF_TRY(keys, open_chunks(second(), false));
  for (int g = 0; g < groups; ++g) {
    main_.line("vec4 row{} = {}[i * {}u + c + {}u];", groups == 1 ? Code() : code("_{}", g), query_, vec4s_of(first()),
               g);
  }
  for (int g = 0; g < groups; ++g) {
    for (int e = 0; e < 4; ++e)
      main_.line("{0} = fma(row{1}.{2}, {3}.{2}, {0});", score(), groups == 1 ? Code() : code("_{}", g), "xyzw"[e],
                 keys[static_cast<std::size_t>(g)]);
  }
  main_.close();
  main_.close();
  return {};
}

void AttentionBySubgroups::add_across_lanes() {
  if (mapping_.lanes == 1) return;
  main_.open("for (uint mask = {}u; mask > 0u; mask >>= 1) {{", mapping_.lanes / 2);
  each("u", mapping_.rows * mapping_.keys, code("{0}[u] += subgroupShuffleXor({0}[u], mask);", scores_));
  main_.close();
}

/// Scores from products, less the largest of each row.
Result<void> AttentionBySubgroups::finish_scores() {
  use_chunks_of(score_parts_[0]);
  open_each("i", mapping_.rows);
  main_.line("uint m = {};", whole_rows(code("tile_m * {}u + i", mapping_.rows)));
  main_.line("float top = {}[i];", most_);
  open_each("g", mapping_.keys);
  main_.line("uint chunk = {};", limited(position_of("g"), extent(tile_.axes.k), tile_.tile_k()));
  Scope scope = part_scope(score_parts_[0]);
  const auto groups = load_chunk(scope, score_parts_[0]);
  VKF_CHECK_OK(groups);
  main_.line("float score;");
  std::vector<Code> passed = arguments(scope, score_parts_[0], 0, *groups);
  passed.push_back(score());
  passed.emplace_back("score");
  main_.line("score_element({});", listed(passed));
  if (const Code limit = inside("g"); !limit.empty())
    main_.line("if (!({})) score = uintBitsToFloat(0xff800000u);", limit);
  main_.line("{} = score;", score());
  main_.line("top = {};", larger("top", "score"));
  main_.close();
  main_.line("// A row without a score above -infinity so far has nothing to rescale.");
  find_scale(most_ + "[i]");
  main_.line("{}[i] = top;", most_);
  rescale_sums("scale");
  each("g", mapping_.keys, code("{} -= base;", score()));
  main_.close();
  return {};
}

/// `scale`, of what was added up below a largest score, where `top` is the largest now.
void AttentionBySubgroups::find_scale(const Code& most) {
  main_.line("float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;");
  main_.line("precise float fallen = {} - base;", most);
  main_.line("float scale = {};", apply("exp", {"fallen"}));
}

/// Of row `i`.
void AttentionBySubgroups::rescale_sums(const char* scale) {
  main_.line("{}[i] *= {};", total_, scale);
  each("c", vec4s_of(third()), code("{}[i * {}u + c] *= {};", sums(), vec4s_of(third()), scale));
}

/// Scores become weights.
Result<void> AttentionBySubgroups::weigh() {
  use_chunks_of(weight_);
  open_each("i", mapping_.rows);
  if (changes_weight()) main_.line("uint m = {};", whole_rows(code("tile_m * {}u + i", mapping_.rows)));
  open_each("g", mapping_.keys);
  main_.line("float power = {};", apply("exp", {score()}));
  main_.line("{}[i] += power;", total_);
  if (changes_weight()) {
    main_.line("uint chunk = {};", limited(position_of("g"), extent(tile_.axes.k), tile_.tile_k()));
    Scope scope = part_scope(weight_);
    const auto groups = load_chunk(scope, weight_);
    VKF_CHECK_OK(groups);
    std::vector<Code> passed = arguments(scope, weight_, 0, *groups);
    passed.emplace_back("power");
    passed.emplace_back("power");
    main_.line("weight_element({});", listed(passed));
    if (const Code limit = inside("g"); !limit.empty()) main_.line("if (!({})) power = 0.0;", limit);
  }
  main_.line("{} = power;", score());
  main_.close();
  main_.close();
  return {};
}

/// Weights times the lane's chunks of the values.
Result<void> AttentionBySubgroups::add_up() {
  VKF_TRY(values, open_chunks(third(), true));  // 0 times an infinity is no 0
  for (int g = 0; g < groups_of(third()); ++g) {
    const Code sum = code("{}[i * {}u + c + {}u]", sums(), vec4s_of(third()), g);
    main_.line("{0} = fma(vec4({1}), {2}, {0});", sum, score(), values[static_cast<std::size_t>(g)]);
  }
  main_.close();
  main_.close();
  return {};
}

/// What the lanes of a subgroup's positions have, in each of them.
void AttentionBySubgroups::join_positions() {
  if (mapping_.sharing == 1) return;
  main_.line("// What was added up at neighbouring positions.");
  main_.open("for (uint mask = {}u; mask < {}u; mask <<= 1) {{", mapping_.lanes, mapping_.lanes * mapping_.sharing);
  open_each("i", mapping_.rows);
  main_.line("float top = {};", larger(code("{}[i]", most_), code("subgroupShuffleXor({}[i], mask)", most_)));
  find_scale(most_ + "[i]");
  main_.line("{}[i] = top;", most_);
  rescale_sums(VKF_PLANT(subgroups_joined_unscaled, "scale", "1.0"));
  main_.line("{0}[i] += subgroupShuffleXor({0}[i], mask);", total_);
  const Code sum = code("{}[i * {}u + c]", sums(), vec4s_of(third()));
  each("c", vec4s_of(third()), code("{0} += subgroupShuffleXor({0}, mask);", sum));
  main_.close();
  main_.close();
}

/// What subgroups have, to shared memory.
void AttentionBySubgroups::leave_sums() {
  const int groups = groups_of(third());
  if (tile_.mask.negligible_below) main_.line("barrier();");
  main_.open("if (gl_SubgroupInvocationID < {}u) {{", mapping_.lanes);
  open_each("i", mapping_.rows);
  main_.line("uint own = (gl_SubgroupID * {}u + i) * {}u;", mapping_.rows, row_words());
  main_.line("if (lane == 0u) {}[own] = vec4({}[i], {}[i], 0.0, 0.0);", joined_, most_, total_);
  open_each("c", chunks_of(third()));
  for (int g = 0; g < groups; ++g)
    main_.line("{}[own + 1u + (c * {}u + lane) * {}u + {}u] = {}[i * {}u + c * {}u + {}u];", joined_, mapping_.lanes,
               groups, g, sums(), vec4s_of(third()), groups, g);
  main_.close();
  main_.close();
  main_.close();
  main_.line("barrier();");
}

/// `top`, `whole` and `four` of row `i` and chunk `chunk`, from so many that each left: `row` and "]" is where the one
/// of number `g` left its largest score and its total, in front of its sums.
void AttentionBySubgroups::join(const Code& row, int count) {
  main_.line("float top = uintBitsToFloat(0xff800000u);");
  each("g", count, code("top = {};", larger("top", code("{}].x", row))));
  main_.line("float whole = 0.0;");
  main_.line("vec4 four = vec4(0.0);");
  open_each("g", count);
  main_.line("vec2 known = {}].xy;", row);
  find_scale("known.x");
  main_.line("whole += known.y * scale;");
  main_.line("four += {} + 1u + chunk] * scale;", row);
  main_.close();
}

void AttentionBySubgroups::join_subgroups() {
  join(code("{}[(g * {}u + i) * {}u", joined_, mapping_.rows, row_words()), mapping_.subgroups);
}

/// Of all workgroups of the tile.
void AttentionBySubgroups::join_parts() {
  join(code("partials.w[((tile * {}u + g) * {}u + i) * {}u", schedule_.splits, mapping_.rows, row_words()),
       schedule_.splits);
}

/// Opens the loop over what threads have of rows `i` and chunks `chunk` of n.
void AttentionBySubgroups::open_units() {
  const int chunks = row_words() - 1;
  main_.open("for (uint unit = thread; unit < {}u; unit += {}u) {{", mapping_.rows * chunks, schedule_.workgroup);
  main_.line("uint i = unit / {}u;", chunks);
  main_.line("uint chunk = unit % {}u;", chunks);
}

/// What the subgroups have together, where the last workgroup of the tile finds it.
void AttentionBySubgroups::leave_part() {
  open_units();
  join_subgroups();
  main_.line("uint own = (workgroup * {}u + i) * {}u;", mapping_.rows, row_words());
  main_.line("if (chunk == 0u) partials.w[own] = vec4(top, whole, 0.0, 0.0);");
  main_.line("partials.w[own + 1u + chunk] = four;");
  main_.close();
}

Result<void> AttentionBySubgroups::store_results() {
  use_chunks_of(results_);
  open_units();
  main_.line("uint m = tile_m * {}u + i;", mapping_.rows);
  const bool whole = divides(tile_.tile_m(), extent(tile_.axes.m));
  if (!whole) main_.open("if (m < {}) {{", numbers_.size(count(tile_.axes.m)));
  if (is_split())
    join_parts();
  else
    join_subgroups();
  main_.line("// An infinite or undefined maximum leaves no number.");
  main_.line("if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);");
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    return std::vector<Code>{"top", "whole", code("four.{}", "xyzw"[e])};
  }));
  if (!whole) main_.close();
  main_.close();
  return {};
}

void AttentionBySubgroups::find_low_rows(const Code& number) {
  main_.line("bool low = false;");
  each("i", mapping_.rows, code("low = low || !({}[i] > {});", most_, number));
}

}  // namespace

Result<std::vector<RelocatableKernel>> lower_attention_by_subgroups(const LoweringInput& in) {
  return lower_dispatches(in.schedule, [&](int dispatch) { return AttentionBySubgroups(in, dispatch).run(); });
}

}  // namespace vkfuse::lowering

// The attention template: the softmax of a row of scores is built up block by block of k beside the sum that it
// weights. A thread has some rows of m: of a block their scores at some positions of k, and of the result its share of
// n. Both products are those of a matmul: what a thread multiplies it loads from shared memory in vec4s along its rows,
// its positions or its share.
#include <algorithm>
#include <functional>

#include "templates/attention/lower.hpp"

#include "templates/attention/lower_emitter.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::lowering {

namespace {

class Attention : public AttentionBase {
 public:
  Attention(const LoweringInput& in, int dispatch);

  Result<RelocatableKernel> run();

 private:
  Result<void> find_sums();
  void locate_thread();
  void declare_tiles();
  void declare_shared();
  void declare();
  Result<void> fetch_first(const Walk& walk);
  // --- scores ---
  Result<void> find_scores(const Walk& walk);
  Result<void> find_products(std::size_t which, const Walk& walk);
  Result<void> fetch_next(std::size_t which, const Walk& walk);
  void multiply_scores(std::size_t which);
  Result<void> finish_scores();
  Result<void> finish_score();
  void rescale_row();
  void find_low_rows(const Code& number) override;
  // --- weights, sums, results ---
  Result<void> weigh();
  Result<void> weigh_score(const Code& weight);
  Result<void> add_up();
  void multiply_weights();
  Result<void> end();
  [[nodiscard]] Code partial(const Code& workgroup, const Code& number) const;
  void leave_part();
  void open_parts();
  void join_parts();
  void leave_totals();
  void find_total();
  Result<void> store_results();

  // --- loops ---
  /// Over what a thread has: unrolled where that keeps it in registers.
  void each(const char* counter, int count, const Code& statement) {
    if (target_.type == DeviceType::cpu)
      main_.line("for (uint {0} = 0u; {0} < {1}u; ++{0}) {2}", counter, count, statement);
    else
      main_.unrolled(counter, count, statement);
  }
  void open_loop(const char* counter, int count) {
    if (target_.type == DeviceType::cpu)
      main_.open("for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", counter, count);
    else
      main_.open_unrolled(counter, count);
  }
  /// The same, but for threads of few registers: unrolled, all turns would be computed side by side.
  void open_low_register_loop(const char* counter, int count) {
    if (!simt_.low_register) return open_loop(counter, count);
    main_.open("[[dont_unroll]] for (uint {} = 0u; {} < {}u; ++{}) {{", counter, counter, count, counter);
  }
  /// At the end of a low-register loop over rows, of which each has so many vec4s: every iteration finds its own in the
  /// same registers.
  void turn_rows(const Code& rows, int vec4s) {
    for (int g = 0; g < vec4s; ++g) {
      main_.open("{{");
      main_.line("vec4 turned = {}[{}];", rows, g);
      for (int i = 0; i < 3; ++i) main_.line("{0}[{1}] = {0}[{2}];", rows, i * vec4s + g, (i + 1) * vec4s + g);
      main_.line("{}[{}] = turned;", rows, 3 * vec4s + g);
      main_.close();
    }
  }
  /// Over what is much code already.
  void open_long_loop(const char* counter, const Code& begin, const Code& end) {
    main_.open("{}for (uint {} = {}; {} < {}; ++{}) {{", simt_.slice == 0 ? "" : "[[dont_unroll]] ", counter, begin,
               counter, end, counter);
  }
  void open_steps(const char* counter, int count);
  void close_steps();

  // --- what a thread has ---
  /// Of row `i` and position `g`: where they are in the tile, and the score, whose rows begin at `row`.
  [[nodiscard]] Code row_of_thread() const { return code("thread_m * {}u + i", simt_.rows); }
  [[nodiscard]] Code key_of_thread() const {
    return simt_.keys == 4 ? Code("thread_k * 4u + g")
                           : code("(g / 4u * {}u + thread_k) * 4u + g % 4u", simt_.threads_k);
  }
  [[nodiscard]] Code score_at(const char* row, std::size_t which = 0) const {
    return simt_.keys == 4 ? code("{}[{}][g]", scores_[which], row)
                           : code("{}[{} * {}u + g / 4u][g % 4u]", scores_[which], row, simt_.keys / 4);
  }
  [[nodiscard]] Code rows_at(int i) const;
  std::vector<Code> load_registers(const char* name, int count, const std::function<Code(int)>& from);
  void join_lanes(const char* name, const Code& joined);

  /// Steps of a sum that are unrolled: a compute unit does not keep the instructions of many more close to it.
  static constexpr int kStepsTogether = 4;

  const schedule::SimtAttention& simt_;
  int vec4s_ = 1;  ///< of n, per thread and row
  /// Of a product's d. What a workgroup has of queries is then staged again for each block.
  [[nodiscard]] int slices_of(std::size_t which) const {
    return tile_.extent_d(loops_, tile_.products[which]) / products_[which].first.k_extent;
  }
  [[nodiscard]] bool is_staged_once(std::size_t which) const {
    return simt_.slice == 0 || (slices_of(which) == 1 && products_.size() == 1);
  }

  int slices_k_ = 1;  ///< of a block's keys
  Code weights_, others_, shared_rows_;
  std::vector<Code> scores_;  ///< of each product; the first become scores
};

Attention::Attention(const LoweringInput& in, int dispatch) : AttentionBase(in, dispatch), simt_(*tile_.simt()) {
  vec4s_ = third().extent / 4 / simt_.threads_k;
  slices_k_ = tile_.tile_k() / third().k_extent;
  const auto wait = [](TileOperand& tile_operand) {
    tile_operand.staging.prefetched = tile_operand.staging.unrolled = false;
  };
  others_ = unique("others");
  third().tile = others_;
  if (simt_.slice == 0) wait(third());
  weights_ = unique("weights");
  scores_.push_back(unique("scores"));
  for (std::size_t which = 0; which < products_.size(); ++which) {
    auto& [first, second] = products_[which];
    if (which > 0) scores_.push_back(unique("products"));
    second.tile = others_;
    if (is_staged_once(which)) wait(first);
    if (simt_.slice == 0) wait(second);
    if (simt_.slice != 0) first.tile = products_[0].first.tile;
  }
  shared_rows_ = unique("rows");
}

Result<RelocatableKernel> Attention::run() {
  VKF_CHECK_OK(functions());
  main_.open("void main() {{");
  locate_tile();
  locate_thread();
  declare();
  if (dispatch_ == 0) VKF_CHECK_OK(find_sums());
  VKF_CHECK_OK(end());
  main_.close();
  const Code thread = simt_.rows * simt_.keys == 16 ? Code() : code("; {} x {} per thread", simt_.rows, simt_.keys);
  return finish_dispatch(code("{} rows per workgroup, {} positions of the {} at a time{}", tile_.tile_m(),
                              tile_.tile_k(), has_softmax() ? "softmax" : "sum", thread));
}

/// Results of what threads have, or of what those of all workgroups of the tile have.
Result<void> Attention::end() {
  if (is_split()) {
    if (dispatch_ == 0) leave_part();
    if (!computes_results()) return {};
    if (dispatch_ == 0) go_on_in_last("tile");
    join_parts();
  }
  if (has_softmax() && !simt_.shuffles) leave_totals();
  return store_results();
}

void Attention::locate_thread() {
  Code thread = "thread";
  if (simt_.shuffles) {
    main_.line("// Threads that share rows are neighbours in a subgroup.");
    main_.line("uint owner = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;");
    thread = "owner";
  }
  main_.line("uint thread_m = {} / {}u;", thread, simt_.threads_k);
  main_.line("uint thread_k = {} % {}u;", thread, simt_.threads_k);
}

/// What operands and weights cross.
void Attention::declare_tiles() {
  int others = third().k_extent * third().stride(), firsts = 0;
  for (const auto& [first, second] : products_) {
    others = std::max(others, second.k_extent * second.stride());
    const int words = first.k_extent * first.stride();
    if (simt_.slice == 0) shared_.line("shared {} {}[{}];", vec4(first.value), first.tile, words);
    firsts = std::max(firsts, words);
  }
  if (simt_.slice != 0 && !products_.empty()) {
    const TileOperand& first = products_[0].first;
    shared_.line("shared {} {}[{}];{}", vec4(first.value), first.tile, firsts,
                 products_.size() > 1 ? "  // of one product, then of the other" : "");
  }
  shared_.line("shared vec4 {}[{}];{}", others_, others,
               products_.empty() ? "" : "  // of one operand, then of the other");
  shared_.line("shared vec4 {}[{}];", weights_, schedule::weight_words(tile_));
}

void Attention::declare_shared() {
  if (dispatch_ == 0) declare_tiles();
  if (simt_.shuffles || !has_softmax()) return;
  shared_.line("shared float {}[{}];  // of each row, what each thread found", shared_rows_,
               simt_.threads_k * tile_.tile_m());
}

void Attention::declare() {
  declare_shared();
  for (Code* known : {&most_, &total_}) {
    if (!has_softmax()) break;
    if (simt_.low_register) {
      shared_.line("shared float {}[{}];  // of four rows, of each thread", *known, simt_.rows * schedule_.workgroup);
      *known += code("[i * {}u + thread]", schedule_.workgroup);
    } else {
      main_.line("float {}[{}];", *known, simt_.rows);
      *known += "[i]";
    }
  }
  if (dispatch_ == 0) {
    for (const Code& scores : scores_) main_.line("vec4 {}[{}];", scores, simt_.rows * simt_.keys / 4);
  }
  main_.line("vec4 {}[{}];", sums(), simt_.rows * vec4s_);
  open_loop("i", simt_.rows);
  if (has_softmax()) {
    main_.line("{} = uintBitsToFloat(0xff800000u);", most_);
    main_.line("{} = 0.0;", total_);
  }
  each("g", vec4s_, code("{}[i * {}u + g] = vec4(0.0);", sums(), vec4s_));
  main_.close();
}

/// What threads have of all blocks of the workgroup.
Result<void> Attention::find_sums() {
  for (std::size_t which = 0; which < products_.size(); ++which) {
    if (is_staged_once(which)) VKF_CHECK_OK(stage(products_[which].first, "tile_m", ""));
  }
  VKF_TRY(all_blocks, find_blocks());
  const Walk walk = share_of(all_blocks);
  VKF_CHECK_OK(fetch_first(walk));
  open_blocks(walk, simt_.slice == 0 ? "" : "[[dont_unroll]] ", {weights_, "1.0", "0.0"});
  VKF_CHECK_OK(find_scores(walk));
  if (third().staging.prefetched) {
    main_.line("// The first values are in flight while scores become weights.");
    VKF_CHECK_OK(fetch(third(), "", slices_k_ == 1 ? Code("block") : code("block * {}u", slices_k_)));
  }
  VKF_CHECK_OK(finish_scores());
  VKF_CHECK_OK(weigh());
  VKF_CHECK_OK(add_up());
  main_.close();
  return {};
}

/// What the first block asks for.
Result<void> Attention::fetch_first(const Walk& walk) {
  const auto is_prefetched = [](const Product& product) { return product.second.staging.prefetched; };
  for (auto& [first, second] : products_) {
    for (TileOperand* tile_operand : {&first, &second}) {
      if (tile_operand->staging.prefetched) declare_prefetch(*tile_operand);
    }
    if (first.staging.prefetched) VKF_CHECK_OK(fetch(first, "tile_m", ""));
  }
  if (third().staging.prefetched) declare_prefetch(third());
  if (std::none_of(products_.begin(), products_.end(), is_prefetched)) return {};
  Code block;
  if (!walk.begin.is_zero()) {
    block = "first_block";  // there may be none
    main_.line("uint first_block = {};", first_block(walk));
  }
  for (Product& product : products_) {
    if (is_prefetched(product)) VKF_CHECK_OK(fetch(product.second, block, ""));
  }
  return {};
}

/// The products that scores are computed from.
Result<void> Attention::find_scores(const Walk& walk) {
  for (std::size_t which = 0; which < products_.size(); ++which) VKF_CHECK_OK(find_products(which, walk));
  return {};
}

Result<void> Attention::find_products(std::size_t which, const Walk& walk) {
  auto& [first, second] = products_[which];
  each("i", simt_.rows * simt_.keys / 4, code("{}[i] = vec4(0.0);", scores_[which]));
  const int slices = slices_of(which);
  if (slices > 1) open_long_loop("slice", "0u", code("{}u", slices));
  if (slices == 1 && !is_staged_once(which)) main_.open("{{");
  if (!is_staged_once(which)) VKF_CHECK_OK(stage(first, "tile_m", slices > 1 ? "slice" : ""));
  VKF_CHECK_OK(stage(second, "block", slices > 1 ? "slice" : ""));
  main_.line("barrier();");
  VKF_CHECK_OK(fetch_next(which, walk));
  multiply_scores(which);
  // A softmax by shared memory waits anyway.
  if (slices > 1 || simt_.shuffles || !has_softmax()) main_.line("barrier();");
  if (!is_staged_once(which)) main_.close();
  return {};
}

/// What the next products of scores ask for, which may be those of the next block.
Result<void> Attention::fetch_next(std::size_t which, const Walk& walk) {
  auto& [first, second] = products_[which];
  if (!first.staging.prefetched && !second.staging.prefetched) return {};
  const int slices = slices_of(which);
  const char* slice = slices > 1 ? "next_slice" : "";
  main_.line("// The next {} is in flight while this one is multiplied.", slices > 1 ? "slice" : "block");
  if (slices > 1) main_.line("uint next_slice = (slice + 1u) % {}u;", slices);
  main_.line("uint next_block = {};",
             block_after(walk, "block", slices > 1 ? code("(slice + 1u) / {}u", slices) : Code("1u"), walk.end));
  if (first.staging.prefetched) VKF_CHECK_OK(fetch(first, "tile_m", slice));
  if (second.staging.prefetched) VKF_CHECK_OK(fetch(second, "next_block", slice));
  return {};
}

/// Opens the loop over the steps of a sum in shared memory.
void Attention::open_steps(const char* counter, int count) {
  if (simt_.slice == 0) {
    main_.open("for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", counter, count);
    return;
  }
  main_.open("[[dont_unroll]] for (uint start = 0u; start < {}u; start += {}u) {{", count, kStepsTogether);
  main_.open("[[unroll]] for (uint {0} = start; {0} < start + {1}u; ++{0}) {{", counter, kStepsTogether);
}

void Attention::close_steps() {
  main_.close();
  if (simt_.slice != 0) main_.close();
}

/// Loads vec4s from shared memory; their names.
std::vector<Code> Attention::load_registers(const char* name, int count, const std::function<Code(int)>& from) {
  std::vector<Code> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(count == 1 ? Code(name) : code("{}_{}", name, i));
    main_.line("vec4 {} = {};", all.back(), from(i));
  }
  return all;
}

/// The vec4s of a thread's rows: neighbours.
Code Attention::rows_at(int i) const {
  if (simt_.rows == 4) return "thread_m";
  return code("thread_m * {}u{}", simt_.rows / 4, i == 0 ? Code() : code(" + {}u", i));
}

void Attention::multiply_scores(std::size_t which) {
  const TileOperand& queries = products_[which].first;
  const TileOperand& keys = products_[which].second;
  open_steps("d", queries.k_extent);
  const std::vector<Code> first = load_registers("first", simt_.rows / 4, [&](int i) {
    return code("{}[d * {}u + {}]", queries.tile, queries.stride(), rows_at(i));
  });
  const std::vector<Code> second = load_registers("second", simt_.keys / 4, [&](int g) {
    return code("{}[d * {}u + {}thread_k]", keys.tile, keys.stride(),
                g == 0 ? Code() : code("{}u + ", g * simt_.threads_k));
  });
  const int vec4s = simt_.keys / 4;
  for (int i = 0; i < simt_.rows; ++i) {
    for (int g = 0; g < vec4s; ++g)
      main_.line("{0}[{1}] = fma(vec4({2}.{3}), {4}, {0}[{1}]);", scores_[which], i * vec4s + g,
                 first[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4], second[static_cast<std::size_t>(g)]);
  }
  close_steps();
}

/// Scores from products, and the largest of each row.
Result<void> Attention::finish_scores() {
  use_chunks_of(score_parts_[0]);
  open_low_register_loop("i", simt_.rows);
  if (has_softmax()) main_.line("float top = uintBitsToFloat(0xff800000u);");
  main_.line("uint m = {};",
             limited(code("tile_m * {}u + {}", tile_.tile_m(), row_of_thread()), extent(tile_.axes.m), tile_.tile_m()));
  open_low_register_loop("g", simt_.keys);
  VKF_CHECK_OK(finish_score());
  main_.close();
  if (!has_softmax()) {
    for (const Code& scores : scores_) {
      if (simt_.low_register) turn_rows(scores, 1);
    }
    main_.close();
    return {};
  }
  if (simt_.shuffles) {
    join_lanes("top", larger("top", "subgroupShuffleXor(top, mask)"));
    rescale_row();
    main_.close();
    return {};
  }
  main_.line("{}[thread_k * {}u + {}] = top;", shared_rows_, tile_.tile_m(), row_of_thread());
  if (simt_.low_register) turn_rows(scores_[0], 1);
  main_.close();
  main_.line("barrier();");
  open_loop("i", simt_.rows);
  main_.line("float top = uintBitsToFloat(0xff800000u);");
  const Code other = code("{}[g * {}u + {}]", shared_rows_, tile_.tile_m(), row_of_thread());
  main_.line("{}for (uint g = 0u; g < {}u; ++g) top = {};", simt_.low_register ? "[[dont_unroll]] " : "",
             simt_.threads_k, larger("top", other));
  rescale_row();
  main_.close();
  return {};
}

/// What the lanes that share a row have found, joined in each of them.
void Attention::join_lanes(const char* name, const Code& joined) {
  main_.line("[[unroll]] for (uint mask = {}u; mask > 0u; mask >>= 1) {} = {};", simt_.threads_k / 2, name, joined);
}

/// One score, `g` of a thread's positions.
Result<void> Attention::finish_score() {
  const Extent positions = extent(tile_.axes.k);
  const Code k = code("block * {}u + {}", tile_.tile_k(), key_of_thread());
  const bool whole = divides(tile_.tile_k(), positions);
  main_.line("uint chunk = {};", limited(k, positions, tile_.tile_k()));
  Scope scope = part_scope(score_parts_[0]);
  VKF_CHECK_OK(emit_values(scope, score_parts_[0].per_chunk));
  for (ValueId id : score_parts_[0].vectors) load_vectors(scope, id, "");
  const std::map<ValueId, Code> groups = unpack_group(score_parts_[0], 0, "");
  main_.line("float score;");
  const char* row = simt_.low_register ? "0" : "i";
  std::vector<Code> passed = arguments(scope, score_parts_[0], 0, groups);
  for (std::size_t which = 0; which < products_.size(); ++which) passed.push_back(score_at(row, which));
  passed.emplace_back("score");
  main_.line("score_element({});", listed(passed));
  if (!whole) main_.line("if ({} >= {}) score = {};", k, numbers_.size(positions.count), score_beyond());
  main_.line("{} = score;", score_at(row));
  if (has_softmax()) main_.line("top = {};", larger("top", "score"));
  return {};
}

/// A row without a score above -infinity so far has nothing to rescale. A NaN that `larger` may lose is one among the
/// weights, and so in the row's total.
void Attention::rescale_row() {
  main_.line("top = {};", larger("top", most_));
  main_.line("float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;");
  main_.line("precise float fallen = {} - base;", most_);
  main_.line("float scale = {};", apply("exp", {"fallen"}));
  main_.line("{} = top;", most_);
  main_.line("{} *= scale;", total_);
  each("g", vec4s_, code("{}[i * {}u + g] *= scale;", sums(), vec4s_));
  if (simt_.keys == 4) {
    main_.line("{}[i] -= base;", scores_[0]);
  } else {
    each("g", simt_.keys / 4, code("{}[i * {}u + g] -= base;", scores_[0], simt_.keys / 4));
  }
}

void Attention::find_low_rows(const Code& number) {
  main_.line("bool low = false;");
  each("i", simt_.rows, code("low = low || !({} > {});", most_, number));
}

/// Weights of a block, to shared memory.
Result<void> Attention::weigh() {
  use_chunks_of(weight_);
  open_low_register_loop("g", simt_.keys);
  main_.line("uint own = {};", key_of_thread());
  if (changes_weight()) {
    main_.line("uint chunk = {};",
               limited(code("block * {}u + own", tile_.tile_k()), extent(tile_.axes.k), tile_.tile_k()));
  }
  const bool several = simt_.rows > 4;
  if (several) open_loop("q", simt_.rows / 4);
  main_.line("vec4 weight;");
  open_loop(several ? "e" : "i", 4);
  if (several) main_.line("uint i = q * 4u + e;");
  VKF_CHECK_OK(weigh_score(several ? "weight[e]" : "weight[i]"));
  main_.close();
  main_.line("{}[own * {}u + own / {}u + {}] = weight;", weights_, tile_.tile_m() / 4, schedule::kKeysTogether,
             several ? code("thread_m * {}u + q", simt_.rows / 4) : Code("thread_m"));
  if (several) main_.close();
  main_.close();
  return {};
}

Result<void> Attention::weigh_score(const Code& weight) {
  if (!has_softmax()) {
    main_.line("{} = {};", weight, score_at("i"));
    return {};
  }
  main_.line("float power = {};", apply("exp", {score_at("i")}));
  main_.line("{} += power;", total_);
  if (!changes_weight()) {
    main_.line("{} = power;", weight);
    return {};
  }
  main_.line("uint m = {};",
             limited(code("tile_m * {}u + {}", tile_.tile_m(), row_of_thread()), extent(tile_.axes.m), tile_.tile_m()));
  Scope scope = part_scope(weight_);
  VKF_CHECK_OK(emit_values(scope, weight_.per_chunk));
  for (ValueId id : weight_.vectors) load_vectors(scope, id, "");
  const std::map<ValueId, Code> groups = unpack_group(weight_, 0, "");
  std::vector<Code> passed = arguments(scope, weight_, 0, groups);
  passed.emplace_back("power");
  passed.push_back(weight);
  main_.line("weight_element({});", listed(passed));
  return {};
}

/// Weights times values, added to the sums.
Result<void> Attention::add_up() {
  if (slices_k_ == 1) {
    VKF_CHECK_OK(stage(third(), "", "block"));
    main_.line("barrier();");
    multiply_weights();
    main_.line("barrier();");
    return {};
  }
  open_long_loop("slice", "0u", code("{}u", slices_k_));
  main_.line("uint values = block * {}u + slice;", slices_k_);
  VKF_CHECK_OK(stage(third(), "", "values"));
  main_.line("barrier();");
  if (third().staging.prefetched) {
    main_.line("// The next slice is in flight while this one is multiplied.");
    main_.line("uint next = block * {}u + min(slice + 1u, {}u);", slices_k_, slices_k_ - 1);
    VKF_CHECK_OK(fetch(third(), "", "next"));
  }
  multiply_weights();
  main_.line("barrier();");
  main_.close();
  return {};
}

void Attention::multiply_weights() {
  open_steps("k", third().k_extent);
  if (slices_k_ > 1) main_.line("uint own = slice * {}u + k;", third().k_extent);
  const char* own = slices_k_ > 1 ? "own" : "k";
  const std::vector<Code> weight = load_registers("weight", simt_.rows / 4, [&](int i) {
    return code("{0}[{1} * {2}u + {1} / {3}u + {4}]", weights_, own, tile_.tile_m() / 4, schedule::kKeysTogether,
                rows_at(i));
  });
  open_loop("g", vec4s_);
  main_.line("vec4 third = {}[k * {}u + g * {}u + thread_k];", third().tile, third().stride(), simt_.threads_k);
  for (int i = 0; i < simt_.rows; ++i)
    main_.line("{0}[{1}u + g] = fma(vec4({2}.{3}), third, {0}[{1}u + g]);", sums(), i * vec4s_,
               weight[static_cast<std::size_t>(i / 4)], "xyzw"[i % 4]);
  main_.close();
  close_steps();
}

/// Where a thread of a workgroup of the tile leaves vector `number` of its row `i`.
Code Attention::partial(const Code& workgroup, const Code& number) const {
  return code("partials.w[(({} * {}u + i) * {}u + {}) * {}u + thread]", workgroup, simt_.rows, vec4s_ + 1, number,
              schedule_.workgroup);
}

/// What the thread has of its rows, where the same thread of the last workgroup of the tile finds it.
void Attention::leave_part() {
  open_loop("i", simt_.rows);
  main_.line("{} = vec4({}, {}, 0.0, 0.0);", partial("workgroup", "0u"), most_, total_);
  each("g", vec4s_, code("{} = {}[i * {}u + g];", partial("workgroup", "(1u + g)"), sums(), vec4s_));
  main_.close();
}

/// Opens loops over the workgroups of the tile, `u`, of which several are read at a time.
void Attention::open_parts() {
  constexpr int kAtATime = 8;
  int together = std::min(kAtATime, schedule_.splits);
  while (schedule_.splits % together != 0) --together;
  main_.open("for (uint start = 0u; start < {}u; start += {}u) {{", schedule_.splits, together);
  open_loop("e", together);
  main_.line("uint u = start + e;");
}

/// What this thread of each workgroup has left.
void Attention::join_parts() {
  const Code workgroup = code("(tile * {}u + u)", schedule_.splits);
  open_loop("i", simt_.rows);
  main_.line("float top = uintBitsToFloat(0xff800000u);");
  open_parts();
  main_.line("top = {};", larger("top", partial(workgroup, "0u") + ".x"));
  main_.close();
  main_.close();
  main_.line("float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;");
  main_.line("{} = top;", most_);
  main_.line("{} = 0.0;", total_);
  each("g", vec4s_, code("{}[i * {}u + g] = vec4(0.0);", sums(), vec4s_));
  open_parts();
  main_.line("vec2 known = {}.xy;", partial(workgroup, "0u"));
  main_.line("precise float fallen = known.x - base;");
  main_.line("float scale = {};", apply("exp", {"fallen"}));
  main_.line("{} += known.y * scale;", total_);
  each("g", vec4s_, code("{}[i * {}u + g] += {} * scale;", sums(), vec4s_, partial(workgroup, "(1u + g)")));
  main_.close();
  main_.close();
  main_.close();
}

void Attention::leave_totals() {
  each("i", simt_.rows, code("{}[thread_k * {}u + {}] = {};", shared_rows_, tile_.tile_m(), row_of_thread(), total_));
  main_.line("barrier();");
}

/// `whole`, the total of row `i`.
void Attention::find_total() {
  if (simt_.shuffles) {
    main_.line("float whole = {};", total_);
    join_lanes("whole", "whole + subgroupShuffleXor(whole, mask)");
  } else {
    main_.line("float whole = {}[{}];", shared_rows_, row_of_thread());
    main_.line("for (uint g = 1u; g < {}u; ++g) whole += {}[g * {}u + {}];", simt_.threads_k, shared_rows_,
               tile_.tile_m(), row_of_thread());
  }
  main_.line("// An infinite or undefined maximum leaves no number.");
  main_.line("if (f32_magnitude_bits({}) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);", most_);
}

Result<void> Attention::store_results() {
  use_chunks_of(results_);
  const int per_vec4 = 4 / tile_.elements;
  const std::int64_t chunks_n = count(tile_.axes.n) / tile_.elements;
  open_low_register_loop("i", simt_.rows);
  main_.line("uint m = tile_m * {}u + {};", tile_.tile_m(), row_of_thread());
  if (has_softmax()) find_total();
  open_loop("g", vec4s_ * per_vec4);
  main_.line("uint chunk = {};",
             per_vec4 == 1 ? code("g * {}u + thread_k", simt_.threads_k)
                           : code("(g / {0}u * {1}u + thread_k) * {0}u + g % {0}u", per_vec4, simt_.threads_k));
  Code inside;
  if (!divides(tile_.tile_m(), extent(tile_.axes.m))) inside = code("m < {}", numbers_.size(count(tile_.axes.m)));
  if (chunks_n != std::int64_t{vec4s_} * per_vec4 * simt_.threads_k)
    inside += code("{}chunk < {}", inside.empty() ? "" : " && ", numbers_.size(chunks_n));
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    const Code row = simt_.low_register ? "" : code("i * {}u + ", vec4s_);
    const Code at = code("{}[{}{}]", sums(), row, per_vec4 == 1 ? "g" : code("g / {}u", per_vec4));
    const Code within =
        tile_.elements == 1 ? code("[g % {}u]", per_vec4) : code("[g % {}u * {}u + {}u]", per_vec4, tile_.elements, e);
    const Code sum = at + (per_vec4 == 1 ? code(".{}", "xyzw"[e]) : within);
    return has_softmax() ? std::vector<Code>{most_, "whole", sum} : std::vector<Code>{sum};
  }));
  if (!inside.empty()) main_.close();
  main_.close();
  if (simt_.low_register) turn_rows(sums(), vec4s_);
  main_.close();
  return {};
}

}  // namespace

Result<std::vector<RelocatableKernel>> lower_attention(const LoweringInput& in) {
  const auto& tile = in.schedule.as<schedule::AttentionParams>();
  if (tile.cooperative() != nullptr) return lower_cooperative_attention(in);
  if (tile.by_subgroups() != nullptr) return lower_attention_by_subgroups(in);
  return lower_dispatches(in.schedule, [&](int dispatch) { return Attention(in, dispatch).run(); });
}

}  // namespace vkfuse::lowering

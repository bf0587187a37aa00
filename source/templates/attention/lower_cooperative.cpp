// Attention with cooperative matrices whose elements can be computed where they are (cooperative_matrix2): scores and
// weights never leave the registers of a subgroup, which has a fragment's rows of m and all of n. One array in shared
// memory holds the first operand, whose fragments stay in registers, then both others, block by block, then the
// results.
#include <algorithm>

#include "templates/attention/lower_emitter.hpp"

namespace vkfuse::lowering {

namespace {

class CooperativeAttention : public AttentionBase {
 public:
  explicit CooperativeAttention(const LoweringInput& in)
      : AttentionBase(in), mapping_(*tile_.cooperative()), fragment_(mapping_.mma) {
    tiles_ = unique("tiles");
    scores_ = unique("scores");
    prefetched_words_ = unique("coming_scores");
    weights_ = unique("weights");
    third_.tile = tiles_;
    if (first_) {
      first_->staging.prefetched = first_->staging.unrolled = false;
      first_->tile = second_->tile = tiles_;
      third_.begin = second_->rows() * second_->row_words();
    }
    k_fragments_ = first_ ? first_->k_extent / static_cast<int>(fragment_.k) : 0;
    wide_ = third_.extent / static_cast<int>(fragment_.n);
    for (ValueId id : beside_) loads_beside_.push_back(make_beside(id));
  }

  Result<std::vector<RelocatableKernel>> run();

 private:
  [[nodiscard]] std::string sum_type() const { return fragment(fragment_.c, fragment_.m, fragment_.n, "Accumulator"); }
  Result<void> element_functions();
  Result<void> reduction_functions();
  Result<void> softmax_functions();
  Result<void> rounding_function();
  void locate_element();
  Result<void> score_function(const std::string& where);
  /// A load beside the scores: matrices, one for each fragment of k, which hold what it reads as f16 or f32.
  struct Beside {
    ValueId id = 0;
    std::string matrices;
    Part part;
    std::int64_t stride =
        0;  ///< between rows in memory, in elements, where fragments are loaded as they lie there; else 0
    bool halves = false;
  };
  [[nodiscard]] Beside make_beside(ValueId id);
  [[nodiscard]] std::int64_t stride_of_fragments(ValueId id) const;
  Result<void> beside_function(Beside& beside, const std::string& where);
  [[nodiscard]] std::string beside_element(const Beside& beside) const;
  Result<void> load_beside();
  /// The score or the weight at (m, chunk), from what the function is passed.
  Result<void> call(const Part& part, const std::string& name, const std::vector<std::string>& known);
  Result<void> main_function();
  Result<void> load_first();
  /// The blocks of k that the workgroup walks along.
  struct BlockWalk {
    Walk blocks;
    std::string all;  ///< as many as there are, masked or not
  };
  Result<void> fetch_first_block(const BlockWalk& walk);
  Result<void> fetch_next_block(const BlockWalk& walk);
  Result<void> block(const BlockWalk& walk);
  void multiply(const std::string& scores);
  void find_scores();
  void weigh();
  void add_up();
  Result<void> store_results();
  void put_subtile(int iterations);
  [[nodiscard]] std::string limits_of_results();
  Result<void> store_subtile_chunk(int per_vec4);
  [[nodiscard]] bool keys_prefetched() const { return second_ && second_->staging.prefetched; }
  /// Of a position, as an argument.
  [[nodiscard]] std::string place() const { return tile_.axes.batch.empty() ? "" : "batch, "; }

  const schedule::CooperativeAttention& mapping_;
  const MatrixShape& fragment_;
  std::vector<Beside> loads_beside_;
  std::string tiles_, scores_, prefetched_words_, weights_;
  int k_fragments_ = 0;  ///< fragments along d
  int wide_ = 0;         ///< fragments along n
};

Result<std::vector<RelocatableKernel>> CooperativeAttention::run() {
  VKF_CHECK_OK(functions());
  VKF_CHECK_OK(element_functions());
  VKF_CHECK_OK(main_function());
  return finish_one(fmt::format(
      "{} rows per workgroup, {} of a subgroup of {}; {} positions of the softmax at a time, in products "
      "of {} x {} x {}",
      tile_.tile_m(), fragment_.m, schedule_.subgroup, tile_.tile_k(), fragment_.m, fragment_.n, fragment_.k));
}

Result<void> CooperativeAttention::call(const Part& part, const std::string& name,
                                        const std::vector<std::string>& known) {
  use_chunks_of(part);
  Scope scope = part_scope(part);
  VKF_CHECK_OK(emit_values(scope, part.per_chunk));
  for (ValueId id : part.vectors) load_vectors(scope, id, "");
  const std::map<ValueId, std::string> groups = unpack_group(part, 0, "");
  std::vector<std::string> passed = arguments(scope, part, 0, groups);
  passed.insert(passed.end(), known.begin(), known.end());
  main_.line("float {};", name);
  passed.push_back(name);
  main_.line("{}_element({});", part.name, fmt::join(passed, ", "));
  return {};
}

Result<void> CooperativeAttention::reduction_functions() {
  functions_.line("// What matrices are taken through: `row` and `column` are those of a fragment.");
  functions_.line("// A NaN may get lost here: its exponential is NaN, too, and so is the row's sum.");
  functions_.open("float larger(const in float a, const in float b) {{");
  functions_.line("return max(a, b);");
  functions_.close();
  functions_.blank();
  functions_.open("float added(const in float a, const in float b) {{");
  functions_.line("return a + b;");
  functions_.close();
  functions_.blank();
  return of_element("larger_of", "const in float a, const in float b", [&]() -> Result<void> {
    main_.line("return max(a, b);");
    return {};
  });
}

Result<void> CooperativeAttention::softmax_functions() {
  const bool finite =
      softcapped() && softcap_->softcapped == tile_.values.score && divides(tile_.tile_k(), extent(tile_.axes.k));
  if (!finite) functions_.line("// A row without a score above -infinity so far has nothing to be compared with.");
  VKF_CHECK_OK(of_element("base_of", "const in float top", [&]() -> Result<void> {
    main_.line("return {}top;", finite ? "" : "top == uintBitsToFloat(0xff800000u) ? 0.0 : ");
    return {};
  }));
  if (softcapped()) functions_.line("// Scores that are capped have the factor log2(e) already.");
  return of_element("power_of", "const in float score, const in float base", [&]() -> Result<void> {
    main_.line("precise float fallen = score - base;");
    main_.line("return {};", softcapped() ? "exp2(fallen)" : apply("exp", {"fallen"}));
    return {};
  });
}

Result<void> CooperativeAttention::rounding_function() {
  if (fragment_.a != DType::bf16) return {};
  functions_.line(
      "// Where matrices are converted to bf16, bits may be cut off (NVIDIA, 580): half a unit more rounds.");
  return of_element("rounded", "const in float weight", [&]() -> Result<void> {
    main_.line(
        "return uintBitsToFloat((floatBitsToUint(weight) + 0x8000u) & 0xffff0000u);  // NaN is in the total already");
    return {};
  });
}

/// Names the element of the scores that is `row` and `column` of a fragment.
void CooperativeAttention::locate_element() {
  main_.line("uint m = {};", limited("first_m + row", extent(tile_.axes.m), tile_.tile_m()));
  main_.line("uint chunk = {};", limited("first_k + column", extent(tile_.axes.k), tile_.tile_k()));
}

/// What the score's function is passed, of f32 that a matrix holds.
std::string CooperativeAttention::beside_element(const Beside& beside) const {
  const std::string& name = value_names_[beside.id];
  if (dtype_of(loops_.values[beside.id]) == DType::boolean) return name + " != 0.0";
  const std::string type_name = scalar_type(loops_.values[beside.id].node);
  return type_name == "float" ? name : fmt::format("{}({})", type_name, name);
}

Result<void> CooperativeAttention::score_function(const std::string& where) {
  std::string given = "const in float product, ";
  for (Beside& beside : loads_beside_) {
    VKF_CHECK_OK(beside_function(beside, where));
    given += fmt::format("const in float {}, ", value_names_[beside.id]);
  }
  return of_element("score_at", given + where, [&]() -> Result<void> {
    locate_element();
    std::vector<std::string> known;
    if (tile_.values.contract) known.emplace_back("product");
    for (const Beside& beside : loads_beside_) known.push_back(beside_element(beside));
    VKF_CHECK_OK(call(score_, "score", known));
    const Extent positions = extent(tile_.axes.k);
    main_.line("return {}score;", divides(tile_.tile_k(), positions)
                                      ? ""
                                      : fmt::format("first_k + column >= {} ? uintBitsToFloat(0xff800000u) : ",
                                                    numbers_.size(positions.count)));
    return {};
  });
}

Result<void> CooperativeAttention::element_functions() {
  VKF_CHECK_OK(reduction_functions());
  VKF_CHECK_OK(softmax_functions());
  VKF_CHECK_OK(rounding_function());
  const std::string where = std::string(tile_.axes.batch.empty() ? "" : "const in uint batch, ") +
                            "const in uint first_m, const in uint first_k";
  VKF_CHECK_OK(score_function(where));
  if (!changes_weight()) return {};
  return of_element("weight_at", "const in float power, " + where, [&]() -> Result<void> {
    locate_element();
    VKF_CHECK_OK(call(weight_, "weight", {"power"}));
    main_.line("return weight;");
    return {};
  });
}

CooperativeAttention::Beside CooperativeAttention::make_beside(ValueId id) {
  Beside beside;
  beside.id = id;
  beside.matrices = unique(value_names_[id] + "_beside");
  beside.part = make_part({.name = beside.matrices,
                           .own = kK,
                           .along = segment::AxisSet{1} << tile_.axes.k.back(),
                           .values = {id},
                           .requested = {id}});
  beside.stride = stride_of_fragments(id);
  beside.halves = beside.stride != 0 && dtype_of(loops_.values[id]) == DType::f16;
  return beside;
}

/// Of rows in memory whose fragments a matrix can be loaded from: they are whole, lie side by side along k and begin at
/// multiples of 16 bytes. 0 where that is not so.
std::int64_t CooperativeAttention::stride_of_fragments(ValueId id) const {
  const Value& load = loops_.values[id];
  const DType type = dtype_of(load);
  if (tile_.axes.m.empty() || options_.hoist_sizes) return 0;  // a text that serves several sizes knows no stride
  const int last_m = tile_.axes.m.back();
  const std::int64_t rows = loops_.axes[static_cast<std::size_t>(last_m)].size;
  const std::int64_t positions = count(tile_.axes.k);
  if ((type != DType::f16 && type != DType::f32) || !load.predicates.empty() || tile_.axes.k.size() != 1) return 0;
  if (positions % tile_.tile_k() != 0 || count(tile_.axes.m) % tile_.tile_m() != 0 || rows % fragment_.m != 0) return 0;
  const auto stride = index::stride_of(load.offset, last_m);
  if (!stride || *stride <= 0 || index::stride_of(load.offset, tile_.axes.k.back()) != 1) return 0;
  const std::int64_t aligned = 16 / size_of(type);
  const index::Expr corner = index::substitute(
      load.offset,
      {{last_m, index::Expr::axis(last_m, rows / fragment_.m) * fragment_.m},
       {tile_.axes.k.back(), index::Expr::axis(tile_.axes.k.back(), positions / fragment_.n) * fragment_.n}});
  return *stride % aligned == 0 && index::alignment_of(corner, aligned) >= aligned ? *stride : 0;
}

/// What is loaded element by element: a function that gives one.
Result<void> CooperativeAttention::beside_function(Beside& beside, const std::string& where) {
  if (beside.stride != 0) return {};
  return of_element(beside.matrices + "_at", "const in float before, " + where, [&]() -> Result<void> {
    locate_element();
    use_chunks_of(beside.part);
    Scope scope = part_scope(beside.part);
    VKF_CHECK_OK(emit_values(scope, beside.part.per_chunk));
    VKF_CHECK_OK(emit_values(scope, beside.part.per_element));
    for (ValueId id : beside.part.vectors) load_vectors(scope, id, "");
    const std::map<ValueId, std::string> groups = unpack_group(beside.part, 0, "");
    main_.line("return float({});",
               groups.empty() ? use(scope, beside.id) : element_of(groups.at(beside.id), 0, group_));
    return {};
  });
}

/// Of the block: in flight while operands are staged and multiplied.
Result<void> CooperativeAttention::load_beside() {
  for (const Beside& beside : loads_beside_) {
    main_.line("{} {}[{}];", fragment(beside.halves ? DType::f16 : DType::f32, fragment_.m, fragment_.n, "Accumulator"),
               beside.matrices, mapping_.key_fragments);
    main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
    if (beside.stride == 0) {
      main_.line("coopMatPerElementNV({0}[j], {1}, {0}_at, {2}first_m, block * {3}u + j * {4}u);", beside.matrices,
                 most_, place(), tile_.tile_k(), fragment_.n);
    } else {
      const Value& load = loops_.values[beside.id];
      const int per_word = buffer_bytes(load.node) / size_of(dtype(load.node));
      main_.line("uint m = first_m;");
      main_.line("uint chunk = block * {}u + j * {}u;", tile_.tile_k(), fragment_.n);
      use_chunks_of(beside.part);
      Scope scope = part_scope(beside.part);
      const std::string at = scoped(scope, chunk_vector(scope, load.offset, per_word));
      main_.line("coopMatLoad({}[j], {}.w, {}, {}, gl_CooperativeMatrixLayoutRowMajor);", beside.matrices,
                 node_names_.at(load.node), at, numbers_.size(beside.stride / per_word));
    }
    main_.close();
  }
  return {};
}

/// The fragments of the first operand, which stay in registers.
Result<void> CooperativeAttention::load_first() {
  if (!first_) return {};
  VKF_CHECK_OK(stage(*first_, "tile_m", ""));
  main_.line("barrier();");
  main_.line("{} {}[{}];", fragment(fragment_.a, fragment_.m, fragment_.k, "A"), first_->part.name, k_fragments_);
  main_.line(
      "[[unroll]] for (uint d = 0u; d < {}u; ++d) coopMatLoad({}[d], {});", k_fragments_, first_->part.name,
      fragment_at(*first_, fmt::format("subgroup * {}u", fragment_.m), fmt::format("d * {}u", fragment_.k), false));
  main_.line("barrier();");
  return {};
}

/// What is in flight, or multiplied, before the first block is worked on.
Result<void> CooperativeAttention::fetch_first_block(const BlockWalk& walk) {
  const std::string first_block =
      walk.blocks.begin == "0u" ? "0u" : fmt::format("min({}, {} - 1u)", walk.blocks.begin, walk.all);
  if (keys_prefetched() || third_.staging.prefetched || mapping_.pipelined_scores)
    main_.line("uint next = {};", first_block);
  if (keys_prefetched()) {
    declare_prefetch(*second_);
    VKF_CHECK_OK(fetch(*second_, "next", ""));
  }
  if (third_.staging.prefetched) {
    declare_prefetch(third_);
    VKF_CHECK_OK(fetch(third_, "", "next"));
  }
  if (!mapping_.pipelined_scores) return {};
  main_.line("// The products of a block are found while scores of the one before it become weights.");
  VKF_CHECK_OK(stage(*second_, "next", ""));
  main_.line("barrier();");
  if (keys_prefetched()) {
    main_.line("next = min(next + 1u, {} - 1u);", walk.all);
    VKF_CHECK_OK(fetch(*second_, "next", ""));
  }
  multiply(scores_);
  main_.line("barrier();");
  return {};
}

Result<void> CooperativeAttention::fetch_next_block(const BlockWalk& walk) {
  if (!keys_prefetched() && !third_.staging.prefetched) return {};
  main_.line("// The next block is on its way while this one is worked on.");
  if (keys_prefetched()) {
    main_.line("next = min(block + {}u, {} - 1u);", mapping_.pipelined_scores ? 2 : 1, walk.all);
    VKF_CHECK_OK(fetch(*second_, "next", ""));
  }
  if (third_.staging.prefetched) {
    if (!mapping_.pipelined_scores && !keys_prefetched()) main_.line("next = min(block + 1u, {} - 1u);", walk.all);
    VKF_CHECK_OK(fetch(third_, "", mapping_.pipelined_scores ? "prefetched" : "next"));
  }
  return {};
}

/// One block of k: its scores become weights, and what they weight is added up.
Result<void> CooperativeAttention::block(const BlockWalk& walk) {
  VKF_CHECK_OK(load_beside());
  if (mapping_.pipelined_scores) main_.line("uint prefetched = min(block + 1u, {} - 1u);", walk.all);
  if (second_) VKF_CHECK_OK(stage(*second_, mapping_.pipelined_scores ? "prefetched" : "block", ""));
  VKF_CHECK_OK(stage(third_, "", "block"));
  main_.line("barrier();");
  VKF_CHECK_OK(fetch_next_block(walk));
  multiply(mapping_.pipelined_scores ? prefetched_words_ : scores_);
  find_scores();
  weigh();
  add_up();
  if (mapping_.pipelined_scores)
    main_.line("[[unroll]] for (uint j = 0u; j < {}u; ++j) {}[j] = {}[j];", mapping_.key_fragments, scores_,
               prefetched_words_);
  main_.line("barrier();");
  return {};
}

Result<void> CooperativeAttention::main_function() {
  main_.open("void main() {{");
  locate_tile();
  main_.line("uint subgroup = gl_SubgroupID;");
  main_.line("uint first_m = tile_m * {}u + subgroup * {}u;", tile_.tile_m(), fragment_.m);
  const int words = static_cast<int>(schedule_.shared_bytes / 16);
  shared_.line("shared uvec4 {}[{}];{}", tiles_, words,
               first_ ? "  // of the first operand, then of the others, then of the results" : "");
  VKF_CHECK_OK(load_first());
  main_.line("{0} {1} = {0}(uintBitsToFloat(0xff800000u));", sum_type(), most_);
  main_.line("{0} {1} = {0}(0.0);  // of every column of a fragment", sum_type(), total_);
  main_.line("{} {}[{}];", sum_type(), sums_, wide_);
  main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}(0.0);", wide_, sums_, sum_type());
  BlockWalk walk;
  walk.blocks = find_blocks();
  walk.all = numbers_.size(schedule::ceil_div(count(tile_.axes.k), tile_.tile_k()));
  VKF_CHECK_OK(fetch_first_block(walk));
  main_.open("for (uint block = {}; block < {}; ++block) {{", walk.blocks.begin, walk.blocks.end);
  VKF_CHECK_OK(block(walk));
  main_.close();
  VKF_CHECK_OK(store_results());
  main_.close();
  return {};
}

/// What scores are computed from: contractions, or 0 where there are none.
void CooperativeAttention::multiply(const std::string& scores) {
  const int keys = mapping_.key_fragments;
  main_.line("{} {}[{}];", sum_type(), scores, keys);
  main_.line("[[unroll]] for (uint j = 0u; j < {}u; ++j) {}[j] = {}(0.0);", keys, scores, sum_type());
  if (first_) {
    main_.open("[[unroll]] for (uint d = 0u; d < {}u; ++d) {{", k_fragments_);
    main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", keys);
    main_.line("{} second;", fragment(fragment_.a, fragment_.k, fragment_.n, "B"));
    main_.line("coopMatLoad(second, {});",
               fragment_at(*second_, fmt::format("j * {}u", fragment_.n), fmt::format("d * {}u", fragment_.k), true));
    main_.line("{0}[j] = coopMatMulAdd({1}[d], second, {0}[j]);", scores, first_->part.name);
    main_.close();
    main_.close();
  }
}

void CooperativeAttention::find_scores() {
  main_.line("{} highest = {};", sum_type(), most_);
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
  std::string given;
  // NVIDIA's compiler (580) fails where a matrix of another component type is passed.
  for (const Beside& beside : loads_beside_)
    given += beside.halves ? fmt::format("{}({}[j]), ", sum_type(), beside.matrices) : beside.matrices + "[j], ";
  main_.line("coopMatPerElementNV({0}[j], {0}[j], score_at, {4}{1}first_m, block * {2}u + j * {3}u);", scores_, place(),
             tile_.tile_k(), fragment_.n, given);
  main_.line("coopMatPerElementNV(highest, highest, larger_of, {}[j]);", scores_);
  main_.close();
  main_.line("coopMatReduceNV(highest, highest, gl_CooperativeMatrixReduceRowNV, larger);");
}

/// Everything so far falls by what the largest score has risen.
void CooperativeAttention::weigh() {
  main_.line("{} base;", sum_type());
  main_.line("coopMatPerElementNV(base, highest, base_of);");
  main_.line("{} fallen;", sum_type());
  main_.line("coopMatPerElementNV(fallen, {}, power_of, base);", most_);
  main_.line("{} = highest;", most_);
  main_.line("{0} = {0} * fallen;", total_);
  main_.line("[[unroll]] for (uint i = 0u; i < {0}u; ++i) {1}[i] = {1}[i] * fallen;", wide_, sums_);
}

void CooperativeAttention::add_up() {
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
  main_.line("coopMatPerElementNV({0}[j], {0}[j], power_of, base);", scores_);
  main_.line("{0} = {0} + {1}[j];", total_, scores_);
  if (changes_weight())
    main_.line("coopMatPerElementNV({0}[j], {0}[j], weight_at, {1}first_m, block * {2}u + j * {3}u);", scores_, place(),
               tile_.tile_k(), fragment_.n);
  if (fragment_.a == DType::bf16) main_.line("coopMatPerElementNV({0}[j], {0}[j], rounded);", scores_);
  main_.line("{0} {1} = {0}({2}[j]);", fragment(fragment_.a, fragment_.m, fragment_.k, "A"), weights_, scores_);
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", wide_);
  main_.line("{} third;", fragment(fragment_.a, fragment_.k, fragment_.n, "B"));
  main_.line("coopMatLoad(third, {});",
             fragment_at(third_, fmt::format("i * {}u", fragment_.n), fmt::format("j * {}u", fragment_.k), true));
  main_.line("{0}[i] = coopMatMulAdd({1}, third, {0}[i]);", sums_, weights_);
  main_.close();
  main_.close();
}

/// Every subgroup's piece of the array: its largest scores, their totals, then columns of the results.
void CooperativeAttention::put_subtile(int iterations) {
  const auto um = static_cast<int>(fragment_.m);
  const int row = static_cast<int>(fragment_.n) / 4;  // of a fragment, in 16-byte words
  const int subtile_row = mapping_.subtile / 4 + 1;
  const int fragments = mapping_.subtile / static_cast<int>(fragment_.n);
  for (int f = 0; f < fragments; ++f) {
    main_.line("coopMatStore({}[{}{}u], {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", sums_,
               iterations > 1 ? fmt::format("i * {}u + ", fragments) : "", f, tiles_, 2 * um * row + f * row,
               subtile_row);
  }
  main_.line("{}", kSubgroupBarrier);
}

/// The condition under which `m` and `chunk` are in the results; empty where they always are.
std::string CooperativeAttention::limits_of_results() {
  const std::int64_t chunks_n = count(tile_.axes.n) / tile_.elements;
  std::string inside;
  if (!divides(tile_.tile_m(), extent(tile_.axes.m)))
    inside = fmt::format("m < {}", numbers_.size(count(tile_.axes.m)));
  if (chunks_n != std::int64_t{third_.extent} / tile_.elements)
    inside += fmt::format("{}chunk < {}", inside.empty() ? "" : " && ", numbers_.size(chunks_n));
  return inside;
}

/// Stores the elements that `four` has of a chunk.
Result<void> CooperativeAttention::store_subtile_chunk(int per_vec4) {
  const std::string inside = limits_of_results();
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    const std::string within =
        per_vec4 == 1 ? fmt::format(".{}", "xyzw"[e])
                      : fmt::format("[column % {}u{}]", per_vec4,
                                    tile_.elements == 1 ? "" : fmt::format(" * {}u + {}u", tile_.elements, e));
    return std::vector<std::string>{"top", "whole", "four" + within};
  }));
  if (!inside.empty()) main_.close();
  return {};
}

Result<void> CooperativeAttention::store_results() {
  use_chunks_of(results_);
  const auto um = static_cast<int>(fragment_.m);
  const int row = static_cast<int>(fragment_.n) / 4;
  const int subtile_row = mapping_.subtile / 4 + 1;
  const int iterations = third_.extent / mapping_.subtile;
  const int chunks = mapping_.subtile / tile_.elements;
  const int per_vec4 = 4 / tile_.elements;
  main_.line("coopMatReduceNV({0}, {0}, gl_CooperativeMatrixReduceRowNV, added);", total_);
  main_.line("uint own = subgroup * {}u;", um * (2 * row + subtile_row));
  main_.line("coopMatStore({}, {}, own, {}u, gl_CooperativeMatrixLayoutRowMajor);", most_, tiles_, row);
  main_.line("coopMatStore({}, {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", total_, tiles_, um * row,
             row);
  if (iterations > 1) main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", iterations);
  put_subtile(iterations);
  main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", um * chunks, schedule_.subgroup);
  main_.line("uint row = g / {}u;", chunks);
  main_.line("uint column = g % {}u;", chunks);
  main_.line("uint m = first_m + row;");
  main_.line("uint chunk = {}column;", iterations > 1 ? fmt::format("i * {}u + ", chunks) : "");
  main_.line("float top = uintBitsToFloat({}[own + row * {}u].x);", tiles_, row);
  main_.line("float whole = uintBitsToFloat({}[own + {}u + row * {}u].x);", tiles_, um * row, row);
  main_.line("// An infinite or undefined maximum leaves no number.");
  main_.line("if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);");
  main_.line("vec4 four = uintBitsToFloat({}[own + {}u + row * {}u + column{}]);", tiles_, 2 * um * row, subtile_row,
             per_vec4 == 1 ? "" : fmt::format(" / {}u", per_vec4));
  VKF_CHECK_OK(store_subtile_chunk(per_vec4));
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  if (iterations > 1) main_.close();
  return {};
}

}  // namespace

Result<std::vector<RelocatableKernel>> lower_cooperative_attention(const LoweringInput& in) {
  return CooperativeAttention(in).run();
}

}  // namespace vkfuse::lowering

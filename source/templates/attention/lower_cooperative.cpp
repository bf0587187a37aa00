// Attention with cooperative matrices whose elements can be computed where they are (cooperative_matrix2): scores and
// weights never leave the registers of a subgroup, which has a fragment's rows of m and all of n. One array in shared
// memory holds the first operand, whose fragments stay in registers, then both others, block by block, then the
// results.
#include "templates/attention/lower_cooperative.hpp"

namespace vkfuse::lowering {

namespace {

/// Of a row's largest score, before sums are rescaled: a weight is at most exp(5), and the sum of 4 Gi of them an f32.
constexpr const char* kRiseOfScores = "5.0";

}  // namespace

Result<std::vector<RelocatableKernel>> CooperativeAttentionEmitter::run() {
  VKF_CHECK_OK(functions());
  VKF_CHECK_OK(element_functions());
  VKF_CHECK_OK(main_function());
  return finish_one(
      code("{} rows per workgroup, {} of a subgroup of {}; {} positions of the {} at a time, in products of {} x {} x "
           "{}",
           tile_.tile_m(), fragment_.m, schedule_.subgroup, tile_.tile_k(), has_softmax() ? "softmax" : "sum",
           fragment_.m, fragment_.n, fragment_.k));
}

/// Where operands are in shared memory: first operands that stay there, then keys, then values. Other first operands
/// are there before all of these.
void CooperativeAttentionEmitter::place_operands() {
  const auto words_of = [](const TileOperand& operand) { return operand.rows() * operand.row_words(); };
  int begin = 0;
  for (std::size_t which = 0; which < products_.size(); ++which) {
    TileOperand& first = products_[which].first;
    first.tile = tiles_;
    first.staging.prefetched = first.staging.unrolled = false;
    first.begin = begin;
    if (tile_.is_reloaded(which)) begin += words_of(first);
  }
  for (auto& [first, second] : products_) {
    second.tile = tiles_;
    second.begin = begin;
    begin += words_of(second);
  }
  for (std::size_t which = 0; which < sums_.size(); ++which) {
    TileOperand& third = sums_[which].third;
    third.tile = tiles_;
    if (const auto keys = mapping_.keys_are_values[which]) {
      third.begin = products_[*keys].second.begin;
      third.staging.prefetched = false;
    } else {
      third.begin = begin;
      begin += words_of(third);
    }
  }
}

/// Of the block: in flight while operands are staged and multiplied.
Result<void> CooperativeAttentionEmitter::load_beside() {
  for (const Beside& beside : loads_beside_) {
    main_.line("{} {}[{}];", fragment(beside.halves ? DType::f16 : DType::f32, fragment_.m, fragment_.n, "Accumulator"),
               beside.matrices, mapping_.key_fragments);
    main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
    if (!beside.stride) {
      per_element(beside.matrices + "[j]", {.name = beside.matrices + "_at",
                                            .matrices = {has_softmax() ? most_ : sums_[0].name + "[0]"},
                                            .others = corner(),
                                            .positions = true});
    } else {
      const Value& load = loops_.values[beside.id];
      const int per_word = buffer_bytes(load.node) / size_of(dtype(load.node));
      main_.line("uint m = first_m;");
      main_.line("uint chunk = block * {}u + j * {}u;", tile_.tile_k(), fragment_.n);
      use_chunks_of(beside.part);
      Scope scope = part_scope(beside.part);
      const Code at = scoped(scope, chunk_vector(scope, load.offset, per_word));
      main_.line("coopMatLoad({}[j], {}.w, {}, {}, gl_CooperativeMatrixLayoutRowMajor);", beside.matrices,
                 names_.nodes.at(load.node), at,
                 beside.stride == 0 ? Code("0u") : numbers_.size(*beside.stride / per_word));
    }
    main_.close();
  }
  return {};
}

/// The fragments of first operands that stay in registers, then the operands that stay in shared memory.
Result<void> CooperativeAttentionEmitter::load_first() {
  for (std::size_t which = 0; which < products_.size(); ++which) {
    TileOperand& first = products_[which].first;
    VKF_CHECK_OK(stage(first, "tile_m", ""));
    if (tile_.is_reloaded(which)) continue;
    main_.line("barrier();");
    main_.line("{} {}[{}];", fragment(fragment_.a, fragment_.m, fragment_.k, "A"), first.part.name,
               fragments_along_d(first));
    main_.line("[[unroll]] for (uint d = 0u; d < {}u; ++d) coopMatLoad({}[d], {});", fragments_along_d(first),
               first.part.name,
               fragment_at(first, code("subgroup * {}u", fragment_.m), code("d * {}u", fragment_.k), false));
    main_.line("barrier();");
  }
  // The results' memory is theirs, and a tile that the mask leaves no block comes to its results at once.
  if (mapping_.reloaded > 0) main_.line("barrier();");
  return {};
}

/// What is in flight, or multiplied, before the first block is worked on.
Result<void> CooperativeAttentionEmitter::fetch_first_block(const Walk& walk) {
  if (keys_prefetched() || values_prefetched() || mapping_.pipelined_scores)
    main_.line("uint next = {};", first_block(walk));
  for (auto& [first, second] : products_) {
    if (!second.staging.prefetched) continue;
    declare_prefetch(second);
    VKF_CHECK_OK(fetch(second, "next", ""));
  }
  for (Sum& sum : sums_) {
    if (!sum.third.staging.prefetched) continue;
    declare_prefetch(sum.third);
    VKF_CHECK_OK(fetch(sum.third, "", "next"));
  }
  if (!mapping_.pipelined_scores) return {};
  main_.line("// The products of a block are found while scores of the one before it become weights.");
  TileOperand& second = products_[0].second;
  VKF_CHECK_OK(stage(second, "next", ""));
  main_.line("barrier();");
  if (keys_prefetched()) {
    main_.line("next = {};", block_after(walk, "next", "1u", walk.all));
    VKF_CHECK_OK(fetch(second, "next", ""));
  }
  multiply(0, scores_);
  main_.line("barrier();");
  return {};
}

Result<void> CooperativeAttentionEmitter::fetch_next_block(const Walk& walk) {
  if (!keys_prefetched() && !values_prefetched()) return {};
  main_.line("// The next block is on its way while this one is worked on.");
  if (keys_prefetched()) {
    main_.line("next = {};", block_after(walk, mapping_.pipelined_scores ? "prefetched" : "block", "1u", walk.all));
    for (auto& [first, second] : products_) {
      if (second.staging.prefetched) VKF_CHECK_OK(fetch(second, "next", ""));
    }
  }
  if (values_prefetched() && !mapping_.pipelined_scores && !keys_prefetched())
    main_.line("next = {};", block_after(walk, "block", "1u", walk.all));
  for (Sum& sum : sums_) {
    if (sum.third.staging.prefetched)
      VKF_CHECK_OK(fetch(sum.third, "", mapping_.pipelined_scores ? "prefetched" : "next"));
  }
  return {};
}

/// One block of k: its scores become weights, and what they weight is added up.
Result<void> CooperativeAttentionEmitter::block(const Walk& walk) {
  VKF_CHECK_OK(load_beside());
  if (mapping_.pipelined_scores) main_.line("uint prefetched = {};", block_after(walk, "block", "1u", walk.all));
  for (auto& [first, second] : products_)
    VKF_CHECK_OK(stage(second, mapping_.pipelined_scores ? "prefetched" : "block", ""));
  for (std::size_t which = 0; which < sums_.size(); ++which) {
    if (!mapping_.keys_are_values[which]) VKF_CHECK_OK(stage(sums_[which].third, "", "block"));
  }
  main_.line("barrier();");
  VKF_CHECK_OK(fetch_next_block(walk));
  multiply(0, mapping_.pipelined_scores ? prefetched_words_ : scores_);
  if (products_.size() > 1) multiply(1, other_products_);
  if (has_softmax()) {
    find_scores();
    weigh();
    add_up();
  } else {
    add_up_products();
  }
  if (mapping_.pipelined_scores)
    main_.line("[[unroll]] for (uint j = 0u; j < {}u; ++j) {}[j] = {}[j];", mapping_.key_fragments, scores_,
               prefetched_words_);
  main_.line("barrier();");
  return {};
}

std::vector<Code> CooperativeAttentionEmitter::corner() const {
  std::vector<Code> passed;
  if (!tile_.axes.batch.empty()) passed.emplace_back("batch");
  passed.emplace_back("first_m");
  passed.push_back(code("block * {}u + j * {}u", tile_.tile_k(), fragment_.n));
  return passed;
}

Result<void> CooperativeAttentionEmitter::main_function() {
  main_.open("void main() {{");
  locate_tile();
  main_.line("uint subgroup = gl_SubgroupID;");
  main_.line("uint first_m = tile_m * {}u + subgroup * {}u;", tile_.tile_m(), fragment_.m);
  const int words = static_cast<int>(schedule_.shared_bytes / 16);
  shared_.line("shared uvec4 {}[{}];{}", tiles_, words,
               products_.empty() ? "" : "  // of the first operand, then of the others, then of the results");
  locate_elements();
  VKF_CHECK_OK(load_first());
  if (has_softmax()) {
    main_.line("{0} {1} = {0}(uintBitsToFloat(0xff800000u));", sum_type(), most_);
    main_.line("{0} {1} = {0}(0.0);  // of every column of a fragment", sum_type(), total_);
  }
  for (const Sum& sum : sums_) {
    main_.line("{} {}[{}];", sum_type(), sum.name, wide_);
    main_.line("[[unroll]] for (uint i = 0u; i < {}u; ++i) {}[i] = {}(0.0);", wide_, sum.name, sum_type());
  }
  VKF_TRY(walk, find_blocks());
  VKF_CHECK_OK(fetch_first_block(walk));
  open_blocks(walk, "", {tiles_, "1u", "0u"});
  VKF_CHECK_OK(block(walk));
  main_.close();
  VKF_CHECK_OK(store_results());
  main_.close();
  return {};
}

/// Without a softmax a weight waits for its own products alone, and is multiplied at once: fewer are in registers than
/// if all were found first.
void CooperativeAttentionEmitter::add_up_products() {
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
  for (std::size_t which = 0; which < sums_.size(); ++which) find_score(which);
  for (std::size_t which = 0; which < sums_.size(); ++which) add_up_weights(which);
  main_.close();
}

Code CooperativeAttentionEmitter::weights_of(std::size_t which) const {
  return sums_.size() == 1 ? scores_ + "[j]" : code("found_{}", which);
}

/// What scores are computed from: contractions, or 0 where there are none.
void CooperativeAttentionEmitter::multiply(std::size_t which, const Code& scores) {
  const int keys = mapping_.key_fragments;
  main_.line("{} {}[{}];", sum_type(), scores, keys);
  main_.line("[[unroll]] for (uint j = 0u; j < {}u; ++j) {}[j] = {}(0.0);", keys, scores, sum_type());
  if (products_.empty()) return;
  const auto& [first, second] = products_[which];
  main_.open("[[unroll]] for (uint d = 0u; d < {}u; ++d) {{", fragments_along_d(first));
  Code rows = first.part.name + "[d]";
  if (tile_.is_reloaded(which)) {
    rows = first.part.name;
    main_.line("{} {};", fragment(fragment_.a, fragment_.m, fragment_.k, "A"), rows);
    main_.line("coopMatLoad({}, {});", rows,
               fragment_at(first, code("subgroup * {}u", fragment_.m), code("d * {}u", fragment_.k), false));
  }
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", keys);
  main_.line("{} second;", fragment(fragment_.a, fragment_.k, fragment_.n, "B"));
  main_.line("coopMatLoad(second, {});",
             fragment_at(second, code("j * {}u", fragment_.n), code("d * {}u", fragment_.k), true));
  main_.line("{0}[j] = coopMatMulAdd({1}, second, {0}[j]);", scores, rows);
  main_.close();
  main_.close();
}

void CooperativeAttentionEmitter::find_scores() {
  main_.line("{} highest = {};", sum_type(), most_);
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
  find_score(0);
  per_element("highest", {.name = "larger_of", .matrices = {"highest", scores_ + "[j]"}});
  main_.close();
}

/// Of fragment `j`: the softmax's score, or the weight of a sum.
void CooperativeAttentionEmitter::find_score(std::size_t which) {
  ElementFunction score{
      .name = score_parts_[which].name + "_at", .matrices = {}, .others = corner(), .positions = true};
  if (products_.empty()) score.matrices.push_back(scores_ + "[j]");
  for (Passed& passed : passed_to(which)) score.matrices.push_back(std::move(passed.matrix));
  const Code own = weights_of(which);
  if (sums_.size() > 1) main_.line("{} {};", sum_type(), own);
  per_element(own, score);
}

/// Everything so far falls by what the largest score has risen.
void CooperativeAttentionEmitter::weigh() {
  if (rescales_lazily()) {
    main_.line("{} base;", sum_type());
    main_.line("// Weights are relative to what was the largest score, as long as that has not risen by more than {}.",
               kRiseOfScores);
    main_.line("bool rises = false;");
    main_.line("[[unroll]] for (int e = 0; e < highest.length(); ++e) rises = rises || highest[e] > {}[e] + {};", most_,
               kRiseOfScores);
    main_.open("if (subgroupAny(rises)) {{");
    rescale();
    main_.close();
    per_element("base", {.name = "base_of", .matrices = {most_}});
    return;
  }
  rescale();
}

/// What sums are relative to is no larger than the largest score.
void CooperativeAttentionEmitter::find_low_rows(const Code& number) {
  main_.line("bool low = false;");
  main_.line("[[unroll]] for (int e = 0; e < {0}.length(); ++e) low = low || !({0}[e] > {1});", most_, number);
}

void CooperativeAttentionEmitter::rescale() {
  spread_largest("highest");
  if (!rescales_lazily()) main_.line("{} base;", sum_type());
  per_element("base", {.name = "base_of", .matrices = {"highest"}});
  main_.line("{} fallen;", sum_type());
  per_element("fallen", {.name = "power_of", .matrices = {most_, "base"}});
  main_.line("{} = highest;", most_);
  main_.line("{0} = {0} * fallen;", total_);
  main_.line("[[unroll]] for (uint i = 0u; i < {0}u; ++i) {1}[i] = {1}[i] * fallen;", wide_, sums_[0].name);
}

void CooperativeAttentionEmitter::add_up() {
  main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", mapping_.key_fragments);
  add_up_weights(0);
  main_.close();
}

/// Of fragment `j`.
void CooperativeAttentionEmitter::add_up_weights(std::size_t which) {
  const Code own = weights_of(which);
  const Sum& sum = sums_[which];
  if (has_softmax()) {
    per_element(own, {.name = "power_of", .matrices = {own, "base"}});
    main_.line("{0} = {0} + {1}[j];", total_, scores_);
  }
  if (changes_weight())
    per_element(own, {.name = "weight_at", .matrices = {own}, .others = corner(), .positions = true});
  if (rounds_weights()) per_element(own, {.name = "rounded", .matrices = {own}});
  load_weights(which);
  main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", wide_);
  main_.line("{} third;", fragment(fragment_.a, fragment_.k, fragment_.n, "B"));
  main_.line("coopMatLoad(third, {});",
             fragment_at(sum.third, code("i * {}u", fragment_.n), code("j * {}u", fragment_.k), true));
  main_.line("{0}[i] = coopMatMulAdd({1}, third, {0}[i]);", sum.name, of_sum(weights_, which));
  main_.close();
}

int CooperativeAttentionEmitter::words_before(std::size_t which) const {
  return words_of_rows() + static_cast<int>(which) * static_cast<int>(fragment_.m) * (mapping_.subtile / 4 + 1);
}

/// Every subgroup's piece of the array: its largest scores, their totals, then columns of the results.
void CooperativeAttentionEmitter::put_subtile(int iterations) {
  const int row = static_cast<int>(fragment_.n) / 4;  // of a fragment, in 16-byte words
  const int subtile_row = mapping_.subtile / 4 + 1;
  const int fragments = mapping_.subtile / static_cast<int>(fragment_.n);
  for (std::size_t which = 0; which < sums_.size(); ++which) {
    for (int f = 0; f < fragments; ++f) {
      main_.line("coopMatStore({}[{}{}u], {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", sums_[which].name,
                 iterations > 1 ? code("i * {}u + ", fragments) : "", f, tiles_, words_before(which) + f * row,
                 subtile_row);
    }
  }
  main_.line("{}", kSubgroupBarrier);
}

/// The condition under which `m` and `chunk` are in the results; empty where they always are.
Code CooperativeAttentionEmitter::limits_of_results() {
  const std::int64_t chunks_n = count(tile_.axes.n) / tile_.elements;
  Code inside;
  if (!divides(tile_.tile_m(), extent(tile_.axes.m))) inside = code("m < {}", numbers_.size(count(tile_.axes.m)));
  if (chunks_n != std::int64_t{sums_[0].third.extent} / tile_.elements)
    inside += code("{}chunk < {}", inside.empty() ? "" : " && ", numbers_.size(chunks_n));
  return inside;
}

/// Stores the elements that `four` of each sum has of a chunk.
Result<void> CooperativeAttentionEmitter::store_subtile_chunk(int per_vec4) {
  const Code inside = limits_of_results();
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    const Code within = per_vec4 == 1 ? code(".{}", "xyzw"[e])
                                      : code("[column % {}u{}]", per_vec4,
                                             tile_.elements == 1 ? "" : code(" * {}u + {}u", tile_.elements, e));
    std::vector<Code> known;
    if (has_softmax()) known = {"top", "whole"};
    for (std::size_t which = 0; which < sums_.size(); ++which) known.push_back(four_of(which) + within);
    return known;
  }));
  if (!inside.empty()) main_.close();
  return {};
}

Result<void> CooperativeAttentionEmitter::store_results() {
  use_chunks_of(results_);
  const auto um = static_cast<int>(fragment_.m);
  const int row = static_cast<int>(fragment_.n) / 4;
  const int subtile_row = mapping_.subtile / 4 + 1;
  const int iterations = sums_[0].third.extent / mapping_.subtile;
  const int chunks = mapping_.subtile / tile_.elements;
  const int per_vec4 = 4 / tile_.elements;
  main_.line("uint own = subgroup * {}u;", words_before(sums_.size()));
  if (has_softmax()) {
    if (called_by_device()) main_.line("coopMatReduceNV({0}, {0}, gl_CooperativeMatrixReduceRowNV, added);", total_);
    main_.line("coopMatStore({}, {}, own, {}u, gl_CooperativeMatrixLayoutRowMajor);", most_, tiles_, row);
    main_.line("coopMatStore({}, {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", total_, tiles_, um * row,
               row);
  }
  if (iterations > 1) main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", iterations);
  put_subtile(iterations);
  main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", um * chunks, schedule_.subgroup);
  main_.line("uint row = g / {}u;", chunks);
  main_.line("uint column = g % {}u;", chunks);
  main_.line("uint m = first_m + row;");
  main_.line("uint chunk = {}column;", iterations > 1 ? code("i * {}u + ", chunks) : "");
  if (has_softmax()) {
    main_.line("float top = uintBitsToFloat({}[own + row * {}u].x);", tiles_, row);
    read_total(code("own + {}u + row * {}u", um * row, row), row);
    main_.line("// An infinite or undefined maximum leaves no number.");
    main_.line("if (f32_magnitude_bits(top) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);");
  }
  for (std::size_t which = 0; which < sums_.size(); ++which) {
    main_.line("vec4 {} = uintBitsToFloat({}[own + {}u + row * {}u + column{}]);", four_of(which), tiles_,
               words_before(which), subtile_row, per_vec4 == 1 ? "" : code(" / {}u", per_vec4));
  }
  VKF_CHECK_OK(store_subtile_chunk(per_vec4));
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  if (iterations > 1) main_.close();
  return {};
}

Result<std::vector<RelocatableKernel>> lower_cooperative_attention(const LoweringInput& in) {
  return CooperativeAttentionEmitter(in).run();
}

}  // namespace vkfuse::lowering

// The attention template: the softmax of a row of scores is built up block by block of k beside the sum that it
// weights. A thread has four rows of m: of a block their scores at four positions of k, and of the result its share of
// n.
#include <algorithm>

#include "templates/attention/lower.hpp"

#include "templates/attention/lower_emitter.hpp"

namespace vkfuse::lowering {

namespace {

class Attention : public AttentionBase {
 public:
  explicit Attention(const LoweringInput& in);

  Result<std::vector<RelocatableKernel>> run();

 private:
  Result<void> main_function();
  void declare();
  void find_scores();
  Result<void> finish_scores();
  void rescale();
  Result<void> weigh();
  void add_up();
  void finish_total();
  Result<void> store_results();
  /// Loops over what a thread has: unrolled where that keeps it in registers.
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

  const schedule::SimtAttention& simt_;
  int vec4s_ = 1;  ///< of n, per thread and row
  Code weights_, others_, scores_, shared_rows_;
};

Attention::Attention(const LoweringInput& in) : AttentionBase(in), simt_(*tile_.simt()) {
  vec4s_ = third_.extent / 4 / simt_.threads_k;
  for (TileOperand* tile_operand : {first_ ? &*first_ : nullptr, second_ ? &*second_ : nullptr, &third_}) {
    if (tile_operand != nullptr) tile_operand->staging.prefetched = tile_operand->staging.unrolled = false;
  }
  others_ = unique("others");
  third_.tile = others_;
  if (second_) second_->tile = others_;
  weights_ = unique("weights");
  scores_ = unique("scores");
  shared_rows_ = unique("rows");
}

Result<std::vector<RelocatableKernel>> Attention::run() {
  VKF_CHECK_OK(functions());
  VKF_CHECK_OK(main_function());
  return finish_one(
      code("{} rows per workgroup, {} positions of the softmax at a time", tile_.tile_m(), tile_.tile_k()));
}

void Attention::declare() {
  if (first_) shared_.line("shared {} {}[{}];", vec4(first_->value), first_->tile, first_->k_extent * first_->stride());
  const int others = std::max(second_ ? second_->k_extent * second_->stride() : 0, third_.k_extent * third_.stride());
  shared_.line("shared vec4 {}[{}];{}", others_, others, second_ ? "  // of one operand, then of the other" : "");
  shared_.line("shared vec4 {}[{}];", weights_, tile_.tile_k() * (simt_.threads_m + 1));
  shared_.line("shared float {}[{}];  // of each row, what each thread found", shared_rows_,
               simt_.threads_k * tile_.tile_m());
  if (simt_.low_register) {
    for (Code* known : {&most_, &total_}) {
      shared_.line("shared float {}[{}];  // of four rows, of each thread", *known, 4 * schedule_.workgroup);
      *known += code("[i * {}u + thread]", schedule_.workgroup);
    }
  } else {
    for (Code* known : {&most_, &total_}) {
      main_.line("float {}[4];", *known);
      *known += "[i]";
    }
  }
  main_.line("vec4 {}[4];", scores_);
  main_.line("vec4 {}[{}];", sums_, 4 * vec4s_);
  open_loop("i", 4);
  main_.line("{} = uintBitsToFloat(0xff800000u);", most_);
  main_.line("{} = 0.0;", total_);
  main_.line("for (uint g = 0u; g < {0}u; ++g) {1}[i * {0}u + g] = vec4(0.0);", vec4s_, sums_);
  main_.close();
}

Result<void> Attention::main_function() {
  main_.open("void main() {{");
  locate_tile();
  main_.line("uint thread_m = thread / {}u;", simt_.threads_k);
  main_.line("uint thread_k = thread % {}u;", simt_.threads_k);
  declare();
  if (first_) VKF_CHECK_OK(stage(*first_, "tile_m", ""));
  const Walk walk = find_blocks();
  main_.open("for (uint block = {}; block < {}; ++block) {{", walk.begin, walk.end);
  if (second_) {
    VKF_CHECK_OK(stage(*second_, "block", ""));
    main_.line("barrier();");
  }
  find_scores();
  VKF_CHECK_OK(finish_scores());
  main_.line("barrier();");
  rescale();
  VKF_CHECK_OK(weigh());
  VKF_CHECK_OK(stage(third_, "", "block"));
  main_.line("barrier();");
  add_up();
  main_.line("barrier();");
  main_.close();
  finish_total();
  VKF_CHECK_OK(store_results());
  main_.close();
  return {};
}

/// The products that scores are computed from.
void Attention::find_scores() {
  if (!first_) return;
  main_.unrolled("i", 4, code("{}[i] = vec4(0.0);", scores_));
  main_.open("for (uint d = 0u; d < {}u; ++d) {{", first_->k_extent);
  main_.line("vec4 first = {}[d * {}u + thread_m];", first_->tile, first_->stride());
  main_.line("vec4 second = {}[d * {}u + thread_k];", second_->tile, second_->stride());
  for (int i = 0; i < 4; ++i) main_.line("{0}[{1}] = fma(vec4(first.{2}), second, {0}[{1}]);", scores_, i, "xyzw"[i]);
  main_.close();
}

Result<void> Attention::finish_scores() {
  use_chunks_of(score_);
  const Extent rows = extent(tile_.axes.m);
  const Extent positions = extent(tile_.axes.k);
  open_low_register_loop("i", 4);
  const Code row = code("{}[{}]", scores_, simt_.low_register ? "0" : "i");
  main_.line("float top = uintBitsToFloat(0xff800000u);");
  const Code m = code("tile_m * {}u + thread_m * 4u + i", tile_.tile_m());
  main_.line("uint m = {};", limited(m, rows, tile_.tile_m()));
  open_low_register_loop("g", 4);
  const Code k = code("block * {}u + thread_k * 4u + g", tile_.tile_k());
  const bool whole = divides(tile_.tile_k(), positions);
  main_.line("uint chunk = {};", limited(k, positions, tile_.tile_k()));
  Scope scope = part_scope(score_);
  VKF_CHECK_OK(emit_values(scope, score_.per_chunk));
  for (ValueId id : score_.vectors) load_vectors(scope, id, "");
  const std::map<ValueId, Code> groups = unpack_group(score_, 0, "");
  main_.line("float score;");
  std::vector<Code> passed = arguments(scope, score_, 0, groups);
  if (tile_.values.contract) passed.push_back(row + "[g]");
  passed.emplace_back("score");
  main_.line("score_element({});", listed(passed));
  if (!whole) main_.line("if ({} >= {}) score = uintBitsToFloat(0xff800000u);", k, numbers_.size(positions.count));
  main_.line("{}[g] = score;", row);
  main_.line("top = {};", apply("max", {"top", "score"}));
  main_.close();
  main_.line("{}[thread_k * {}u + thread_m * 4u + i] = top;", shared_rows_, tile_.tile_m());
  if (simt_.low_register) turn_rows(scores_, 1);
  main_.close();
  return {};
}

/// A row without a score above -infinity so far has nothing to rescale.
void Attention::rescale() {
  open_loop("i", 4);
  main_.line("float top = {};", most_);
  main_.line("{}for (uint g = 0u; g < {}u; ++g) top = {};", simt_.low_register ? "[[dont_unroll]] " : "",
             simt_.threads_k,
             apply("max", {"top", code("{}[g * {}u + thread_m * 4u + i]", shared_rows_, tile_.tile_m())}));
  main_.line("float base = top == uintBitsToFloat(0xff800000u) ? 0.0 : top;");
  main_.line("precise float fallen = {} - base;", most_);
  main_.line("float scale = {};", apply("exp", {"fallen"}));
  main_.line("{} = top;", most_);
  main_.line("{} *= scale;", total_);
  main_.line("for (uint g = 0u; g < {0}u; ++g) {1}[i * {0}u + g] *= scale;", vec4s_, sums_);
  main_.line("{0}[i] -= base;", scores_);
  main_.close();
}

Result<void> Attention::weigh() {
  use_chunks_of(weight_);
  const bool changes = changes_weight();
  open_low_register_loop("g", 4);
  main_.line("vec4 weight;");
  if (changes) {
    const Code k = code("block * {}u + thread_k * 4u + g", tile_.tile_k());
    main_.line("uint chunk = {};", limited(k, extent(tile_.axes.k), tile_.tile_k()));
  }
  open_loop("i", 4);
  main_.line("float power = {};", apply("exp", {code("{}[i][g]", scores_)}));
  main_.line("{} += power;", total_);
  if (changes) {
    const Code m = code("tile_m * {}u + thread_m * 4u + i", tile_.tile_m());
    main_.line("uint m = {};", limited(m, extent(tile_.axes.m), tile_.tile_m()));
    Scope scope = part_scope(weight_);
    VKF_CHECK_OK(emit_values(scope, weight_.per_chunk));
    for (ValueId id : weight_.vectors) load_vectors(scope, id, "");
    const std::map<ValueId, Code> groups = unpack_group(weight_, 0, "");
    std::vector<Code> passed = arguments(scope, weight_, 0, groups);
    passed.emplace_back("power");
    passed.emplace_back("weight[i]");
    main_.line("weight_element({});", listed(passed));
  } else {
    main_.line("weight[i] = power;");
  }
  main_.close();
  main_.line("{}[(thread_k * 4u + g) * {}u + thread_m] = weight;", weights_, simt_.threads_m + 1);
  main_.close();
  return {};
}

void Attention::add_up() {
  main_.open("for (uint k = 0u; k < {}u; ++k) {{", tile_.tile_k());
  main_.line("vec4 weight = {}[k * {}u + thread_m];", weights_, simt_.threads_m + 1);
  open_loop("g", vec4s_);
  main_.line("vec4 third = {}[k * {}u + g * {}u + thread_k];", third_.tile, third_.stride(), simt_.threads_k);
  for (int i = 0; i < 4; ++i)
    main_.line("{0}[{1}u + g] = fma(vec4(weight.{2}), third, {0}[{1}u + g]);", sums_, i * vec4s_, "xyzw"[i]);
  main_.close();
  main_.close();
}

void Attention::finish_total() {
  main_.line("for (uint i = 0u; i < 4u; ++i) {}[thread_k * {}u + thread_m * 4u + i] = {};", shared_rows_,
             tile_.tile_m(), total_);
  main_.line("barrier();");
}

Result<void> Attention::store_results() {
  use_chunks_of(results_);
  const int per_vec4 = 4 / tile_.elements;
  const std::int64_t chunks_n = count(tile_.axes.n) / tile_.elements;
  open_low_register_loop("i", 4);
  main_.line("uint m = tile_m * {}u + thread_m * 4u + i;", tile_.tile_m());
  main_.line("float whole = {}[thread_m * 4u + i];", shared_rows_);
  main_.line("for (uint g = 1u; g < {}u; ++g) whole += {}[g * {}u + thread_m * 4u + i];", simt_.threads_k, shared_rows_,
             tile_.tile_m());
  main_.line("// An infinite or undefined maximum leaves no number.");
  main_.line("if (f32_magnitude_bits({}) >= 0x7f800000u) whole = uintBitsToFloat(0x7fc00000u);", most_);
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
    const Code at = code("{}[{}{}]", sums_, row, per_vec4 == 1 ? "g" : code("g / {}u", per_vec4));
    const Code within =
        tile_.elements == 1 ? code("[g % {}u]", per_vec4) : code("[g % {}u * {}u + {}u]", per_vec4, tile_.elements, e);
    return std::vector<Code>{most_, "whole", at + (per_vec4 == 1 ? code(".{}", "xyzw"[e]) : within)};
  }));
  if (!inside.empty()) main_.close();
  main_.close();
  if (simt_.low_register) turn_rows(sums_, vec4s_);
  main_.close();
  return {};
}

}  // namespace

Result<std::vector<RelocatableKernel>> lower_attention(const LoweringInput& in) {
  if (in.schedule.as<schedule::AttentionParams>().cooperative() != nullptr) return lower_cooperative_attention(in);
  return Attention(in).run();
}

}  // namespace vkfuse::lowering

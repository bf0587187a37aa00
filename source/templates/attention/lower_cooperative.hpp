// The emitter of attention with cooperative matrices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "templates/attention/lower_emitter.hpp"

namespace vkfuse::lowering {

class CooperativeAttentionEmitter : public AttentionBase {
 public:
  explicit CooperativeAttentionEmitter(const LoweringInput& in)
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
  [[nodiscard]] Code sum_type() const { return fragment(fragment_.c, fragment_.m, fragment_.n, "Accumulator"); }
  // --- elements of matrices: lower_elements.cpp ---
  /// Takes elements by their functions: the device does so itself.
  [[nodiscard]] bool called_by_device() const { return mapping_.elements == schedule::ElementAccess::functions; }
  struct ElementFunction {
    Code name;
    std::vector<Code> matrices;  ///< arguments; the first is where elements come from
    std::vector<Code> others;
    bool positions = false;  ///< it asks for row and column
  };
  Result<void> value_function(const Code& name, const Code& parameters, const std::function<Result<void>()>& body);
  void per_element(const Code& target, const ElementFunction& function);
  void locate_elements();
  void spread_largest(const Code& matrix);
  void load_weights();
  void round_weights(const Code& at, int operand_row);
  void read_total(const Code& at, int row_words);
  // --- functions of elements ---
  Result<void> element_functions();
  Result<void> reduction_functions();
  Result<void> softmax_functions();
  Result<void> rounding_function();
  void locate_element();
  Result<void> score_function(const Code& where);
  /// A load beside the scores: matrices, one for each fragment of k, which hold what it reads as f16 or f32.
  struct Beside {
    ValueId id = 0;
    Code matrices;
    Part part;
    /// Between rows in memory, in elements, where fragments are loaded as they lie there; else 0.
    std::int64_t stride = 0;
    bool halves = false;  ///< matrices are of f16
  };
  [[nodiscard]] Beside make_beside(ValueId id);
  [[nodiscard]] bool is_loaded_as_matrix(DType type) const;
  [[nodiscard]] std::int64_t stride_of_fragments(ValueId id) const;
  Result<void> beside_function(Beside& beside, const Code& where);
  [[nodiscard]] Code beside_element(const Beside& beside) const;
  Result<void> load_beside();
  /// The score or the weight at (m, chunk), from what the function is passed.
  Result<void> call(const Part& part, const Code& name, const std::vector<Code>& known);
  Result<void> main_function();
  Result<void> load_first();
  Result<void> fetch_first_block(const Walk& walk);
  Result<void> fetch_next_block(const Walk& walk);
  Result<void> block(const Walk& walk);
  void multiply(const Code& scores);
  void find_scores();
  void find_low_rows(const Code& number) override;
  void weigh();
  void rescale();
  void add_up();
  Result<void> store_results();
  void put_subtile(int iterations);
  [[nodiscard]] Code limits_of_results();
  Result<void> store_subtile_chunk(int per_vec4);
  /// Where matrices are converted to bf16, bits may be cut off (NVIDIA, 580).
  [[nodiscard]] bool rounds_weights() const {
    return fragment_.a == DType::bf16 && mapping_.elements != schedule::ElementAccess::shared_memory_rounded;
  }
  /// Strict numerics rounds sums to 16 bits, where those of a base below the largest score may be too large.
  [[nodiscard]] bool rescales_lazily() const {
    return mapping_.lazy_rescaling && options_.numerics != Numerics::strict;
  }
  [[nodiscard]] bool keys_prefetched() const { return second_ && second_->staging.prefetched; }
  /// Of positions of the scores, as arguments: the fragment's first m and k.
  [[nodiscard]] std::vector<Code> corner() const;

  const schedule::CooperativeAttention& mapping_;
  const MatrixShape& fragment_;
  std::vector<Beside> loads_beside_;
  Code tiles_, scores_, prefetched_words_, weights_;
  int k_fragments_ = 0;  ///< fragments along d
  int wide_ = 0;         ///< fragments along n
};

}  // namespace vkfuse::lowering

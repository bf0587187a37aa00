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
      : AttentionBase(in, 0), mapping_(*tile_.cooperative()), fragment_(mapping_.mma) {
    tiles_ = unique("tiles");
    scores_ = unique("scores");
    prefetched_words_ = unique("coming_scores");
    weights_ = unique("weights");
    if (products_.size() > 1) other_products_ = unique("products");
    place_operands();
    wide_ = sums_[0].third.extent / static_cast<int>(fragment_.n);
    for (ValueId id : beside_) loads_beside_.push_back(make_beside(id));
  }

  Result<std::vector<RelocatableKernel>> run();

 private:
  void place_operands();
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
  void find_largest(int row);
  void spread_largest(const Code& matrix);
  void load_weights(std::size_t which);
  void round_weights(const Code& weights, const Code& at, int operand_row);
  void read_total(const Code& at, int row_words);
  // --- functions of elements ---
  Result<void> element_functions();
  Result<void> reduction_functions();
  Result<void> softmax_functions();
  Result<void> rounding_function();
  void locate_element();
  Result<void> score_function(std::size_t which, const Code& where);
  /// A load beside the scores: matrices, one for each fragment of k, which hold what it reads as f16 or f32.
  struct Beside {
    ValueId id = 0;
    Code matrices;
    Part part;
    /// Between rows in memory, in elements, where fragments are loaded as they lie there; 0: all rows are one.
    std::optional<std::int64_t> stride;
    bool halves = false;  ///< matrices are of f16
  };
  [[nodiscard]] Beside make_beside(ValueId id);
  [[nodiscard]] bool is_loaded_as_matrix(DType type) const;
  [[nodiscard]] std::optional<std::int64_t> row_stride(const Value& load) const;
  [[nodiscard]] std::optional<std::int64_t> stride_of_fragments(ValueId id) const;
  Result<void> beside_function(Beside& beside, const Code& where);
  /// What a part of the scores is passed of a fragment: the matrix, and the parameter of its function.
  struct Passed {
    ValueId id = 0;
    Code matrix, parameter;
  };
  [[nodiscard]] std::vector<Passed> passed_to(std::size_t which) const;
  /// Where weights of a sum are, fragment by fragment.
  [[nodiscard]] Code weights_of(std::size_t which) const;
  [[nodiscard]] Code passed_element(const Passed& passed) const;
  Result<void> load_beside();
  /// The score or the weight at (m, chunk), from what the function is passed.
  Result<void> call(const Part& part, const Code& name, const std::vector<Code>& known);
  Result<void> main_function();
  Result<void> load_first();
  Result<void> fetch_first_block(const Walk& walk);
  Result<void> fetch_next_block(const Walk& walk);
  Result<void> block(const Walk& walk);
  /// A product of a block, as `scores`.
  void multiply(std::size_t which, const Code& scores);
  void find_scores();
  void find_score(std::size_t which);
  void add_up_weights(std::size_t which);
  void add_up_products();
  void find_low_rows(const Code& number) override;
  void weigh();
  void rescale();
  void add_up();
  Result<void> store_results();
  void put_subtile(int iterations);
  /// Of the piece of a subgroup's results in shared memory, where the elements of a sum begin.
  [[nodiscard]] int words_before(std::size_t which) const;
  /// Stored elements of a sum, four at a time.
  [[nodiscard]] Code four_of(std::size_t which) const { return which == 0 ? Code("four") : code("four_{}", which); }
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
  [[nodiscard]] bool keys_prefetched() const {
    return std::any_of(products_.begin(), products_.end(),
                       [](const Product& product) { return product.second.staging.prefetched; });
  }
  [[nodiscard]] bool values_prefetched() const {
    return std::any_of(sums_.begin(), sums_.end(), [](const Sum& sum) { return sum.third.staging.prefetched; });
  }
  [[nodiscard]] int fragments_along_d(const TileOperand& first) const {
    return first.k_extent / static_cast<int>(fragment_.k);
  }
  /// Of shared memory, where a subgroup's largest scores and totals lie before its results.
  [[nodiscard]] int words_of_rows() const {
    return has_softmax() ? static_cast<int>(fragment_.m * fragment_.n) / 2 : 0;
  }
  /// Of positions of the scores, as arguments: the fragment's first m and k.
  [[nodiscard]] std::vector<Code> corner() const;
  /// A variable that each of several sums has.
  [[nodiscard]] Code of_sum(const Code& name, std::size_t which) const {
    return sums_.size() == 1 ? name : code("{}_{}", name, which);
  }

  const schedule::CooperativeAttention& mapping_;
  const MatrixShape& fragment_;
  std::vector<Beside> loads_beside_;
  Code tiles_, scores_, other_products_, prefetched_words_, weights_;
  int wide_ = 0;  ///< fragments along n
};

}  // namespace vkfuse::lowering

// What attention by threads and by cooperative matrices share: parts, functions and the walk along k.
#pragma once

#include <optional>

#include "lowering/tile_operands.hpp"
#include "templates/attention/lower_softcap.hpp"

namespace vkfuse::lowering {

class AttentionBase : public OperandEmitter {
 protected:
  /// `dispatch` 1: the one that joins what workgroups of the other have left of the same tile.
  AttentionBase(const LoweringInput& in, int dispatch);
  virtual ~AttentionBase() = default;

  /// The operands' functions, the score's, the weight's and the results', as far as this dispatch calls them.
  Result<void> functions();
  /// The kernel, whose summary this is unless it joins parts.
  Result<RelocatableKernel> finish_dispatch(const Code& summary);
  [[nodiscard]] Code apply(std::string_view op, const std::vector<Code>& operands) const {
    return expression(ops::row(op), DType::f32, dialect_, operands);
  }
  /// The larger of two scores. A NaN may get lost where it shows in the row's total, too, and results need no more.
  [[nodiscard]] Code larger(const Code& a, const Code& b) const {
    return keeps_nan_ ? apply("max", {a, b}) : code("max({}, {})", a, b);
  }
  [[nodiscard]] bool changes_weight() const {
    return has_softmax() && tile_.sums[0].weight != tile_.values.exponential;
  }
  [[nodiscard]] bool has_softmax() const { return tile_.values.has_softmax; }
  /// Of a position beyond the last one.
  [[nodiscard]] const char* score_beyond() const;
  /// `batch` and `tile_m` of the workgroup; where several share it, `tile` and `part`.
  void locate_tile();
  /// Whether several workgroups share the blocks of a tile, and this dispatch computes results.
  [[nodiscard]] bool is_split() const { return schedule_.splits > 1; }
  [[nodiscard]] bool computes_results() const { return !is_split() || dispatch_ == 1 || schedule_.dispatches == 1; }
  /// The blocks of k, less those in which a mask leaves no row of the tile anything.
  struct Walk {
    Code begin, end;
    Code all;  ///< blocks, masked or not
    /// Where masked scores are finite, from the end of the walk on to its beginning, unless every row of the tile has a
    /// score that leaves these nothing.
    bool goes_round = false;
    bool in_runs = false;  ///< blocks are not neighbours: visited_from gives the next one
  };
  Result<Walk> find_blocks();
  /// Where several workgroups share them, those of this one.
  [[nodiscard]] Walk share_of(const Walk& walk);
  /// An array of shared memory that nothing is needed of between two blocks, with a vector for each thread, and what
  /// stands for yes and no there.
  struct Flags {
    Code vectors;
    const char* yes;
    const char* no;
  };
  /// Opens the loop over `block`.
  void open_blocks(const Walk& walk, const char* attribute, const Flags& flags);
  /// The block of the walk that is `ahead`, 0 or 1, after `block`, or one that exists.
  [[nodiscard]] Code block_after(const Walk& walk, const Code& block, const Code& ahead, const Code& end) const;
  /// The first block of a walk, which may be empty, or one that exists.
  [[nodiscard]] Code first_block(const Walk& walk) const;
  /// `low`: whether some row of a thread has no score above the number.
  virtual void find_low_rows(const Code& number) = 0;

  const schedule::AttentionParams& tile_;
  /// The value that is in registers between a weight and the sum, which rounds it as it multiplies.
  [[nodiscard]] ValueId held_weight(const schedule::WeightedSum& sum) const;
  /// What is loaded for each position of the scores, as a bias or a mask is: with cooperative matrices in matrices of
  /// its own, loaded before the product. The score's function is passed it after the product.
  std::vector<ValueId> beside_;
  /// What is multiplied for scores: `first` has m, `second` k.
  struct Product {
    TileOperand first, second;
  };
  std::vector<Product> products_;
  /// A reduction that results are computed from.
  struct Sum {
    TileOperand third;  ///< what weights are multiplied with
    Code name;          ///< its variable
  };
  std::vector<Sum> sums_;
  /// Of kernels that have one.
  TileOperand& third() { return sums_[0].third; }
  [[nodiscard]] const TileOperand& third() const { return sums_[0].third; }
  [[nodiscard]] const Code& sums() const { return sums_[0].name; }
  /// What is computed at each position of the scores: with a softmax the score, else the weight of each sum.
  std::vector<Part> score_parts_;
  Part weight_, results_;
  Code most_, total_;
  /// Scores are between two numbers small enough for powers of 2 of them to be taken in one step: a tanh bounds them.
  [[nodiscard]] bool softcapped() const { return softcap_.has_value(); }
  std::optional<Softcap> softcap_;
  bool keeps_nan_ = false;  ///< a largest score that is NaN stays NaN
  int dispatch_ = 0;

 private:
  /// What workgroups share, and what push constants tell of the launch.
  void bind_launch();
  /// Of this dispatch.
  [[nodiscard]] std::int64_t workgroups() const;
  [[nodiscard]] std::int64_t workgroups_x() const;
  /// The mask leaves a row the more positions of k, the further down it is: a causal one.
  [[nodiscard]] bool later_rows_see_more() const;
  Result<void> find_data_bounds();
  Result<void> find_data_bound(const schedule::MaskLine& line);
  std::vector<schedule::MaskLine> data_lines_;  ///< that take part of their bound from data
  std::vector<Code> data_bounds_;               ///< the variable of each
  Code visited_from_;                           ///< the function that a walk in runs goes by
  [[nodiscard]] Code line_of(const schedule::MaskLine& line, bool upper) const;
  [[nodiscard]] Code bound_of(const schedule::MaskBound& bound, bool upper) const;
  void find_rows_of_tile();
  Code emit_visited_from();
  void leave_where_negligible(const Flags& flags);
  [[nodiscard]] TileOperand make_operand(const schedule::AttentionOperand& planned, index::AxisId across,
                                         index::AxisId depth, int extent, int k_extent);
  void make_parts();
  [[nodiscard]] bool lies_beside(ValueId id) const;
  void make_score_parts();
  /// A value that one element of a part gives, as the function NAME_element.
  Result<void> scalar_function(Part& part, ValueId value, const char* result);
};

/// The kernels of both dispatches of a schedule, or of its only one; `lower(dispatch)` gives one.
template <typename Lower>
Result<std::vector<RelocatableKernel>> lower_dispatches(const schedule::Schedule& schedule, const Lower& lower) {
  std::vector<RelocatableKernel> kernels;
  for (int dispatch = 0; dispatch < schedule.dispatches; ++dispatch) {
    Result<RelocatableKernel> kernel = lower(dispatch);
    VKF_CHECK_OK(kernel);
    kernels.push_back(*std::move(kernel));
  }
  return kernels;
}

/// With cooperative matrices.
Result<std::vector<RelocatableKernel>> lower_cooperative_attention(const LoweringInput& in);
/// Of few rows, by subgroups whose lanes share a position of k.
Result<std::vector<RelocatableKernel>> lower_attention_by_subgroups(const LoweringInput& in);

}  // namespace vkfuse::lowering

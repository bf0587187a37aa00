// The tiles of the attention template.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/target.hpp"
#include "schedule/tuning.hpp"
#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// A thread has some rows of m, some positions of k, and its share of n.
struct SimtAttention {
  int threads_m = 8, threads_k = 8;
  int rows = 4, keys = 4;  ///< of a thread, multiples of 4
  /// Positions of d, and of k for the values, that are in shared memory at a time; 0: all of d, the keys of a block.
  int slice = 0;
  bool shuffles = false;      ///< threads that share rows are neighbours in a subgroup, and exchange what they found
  bool low_register = false;  ///< it has few registers: between blocks, what it knows of its rows is in shared memory,
                              ///< and less is unrolled
};

/// For few rows of m, as those of one token: lanes of a subgroup share a position of k, each with some chunks of d and
/// of n, and every thread has all rows. Keys and values go from memory to registers, not through shared memory.
struct SubgroupAttention {
  int subgroups = 4;
  int lanes = 16;   ///< that share a position of k
  int sharing = 2;  ///< positions of k that a subgroup is at, each with other lanes
  int rows = 1;     ///< of m
  int keys = 4;     ///< positions of k of a thread in a block

  [[nodiscard]] int threads() const { return subgroups * sharing * lanes; }
};

/// A subgroup has the rows of m of one cooperative matrix, some of its columns of k at a time, and all of n.
struct CooperativeAttention {
  MatrixShape mma;
  int subgroups = 4;              ///< of the workgroup
  int key_fragments = 4;          ///< matrices of k at a time
  int subtile = 0;                ///< columns of a subgroup's results that are staged in shared memory at a time
  bool pipelined_scores = false;  ///< a block's products are found while scores of the one before it become weights
  ElementAccess elements = ElementAccess::functions;
  /// Of each sum, the product whose keys are its values, too, and so are in shared memory once.
  std::vector<std::optional<std::size_t>> keys_are_values = {};
  /// Of the products, the last so many whose queries stay in shared memory and are loaded for every block. Those of the
  /// others stay in registers.
  int reloaded = 0;
  /// Sums are rescaled only where a row's largest score has risen a lot: what they are relative to is not the largest
  /// of all, which results do not ask for.
  bool lazy_rescaling = false;

  /// Words of 16 bytes in shared memory that a subgroup passes elements through.
  [[nodiscard]] int scratch_words() const;
};

/// Loop axes, counted as one for each letter, outermost first.
struct AttentionAxes {
  std::vector<int> batch, m, n, k;
};

/// What the values of the loops are to the template.
struct AttentionValues {
  bool has_softmax = true;               ///< else scores are weights, and the others here mean nothing
  segment::ValueId score = 0;            ///< the softmax is over it
  segment::ValueId exponential = 0;      ///< of the score less the largest one
  segment::ValueId most = 0, total = 0;  ///< reductions: maximum, sum of exponentials
};

struct AttentionOperand {
  segment::ValueId value = 0;
  bool along_k = false;  ///< chunks lie along d (of the value: along k), else along m, k or n
  int elements = 1;
};

/// A reduction that results are computed from: the sum over k of weights times an operand.
struct WeightedSum {
  segment::ValueId sum = 0;     ///< the reduction
  segment::ValueId weight = 0;  ///< what scores become before they are multiplied
  AttentionOperand value;       ///< multiplied with the weights
};

/// A product at every (m, k) that scores are computed from.
struct ScoreProduct {
  segment::ValueId sum = 0;
  std::vector<int> d;           ///< the loop axes that it adds up over, outermost first
  AttentionOperand query, key;  ///< what has m, and what has k
};

/// At position p of the innermost axis of m: position slope * p + constant of k; with data, as the length of a cache,
/// position slope * p + constant + data + rest.
struct MaskLine {
  std::int64_t slope = 0, constant = 0;
  std::optional<segment::ValueId> data = std::nullopt;  ///< an i32 that one batch has, any number
  index::Expr rest = index::Expr(0);                    ///< with it: of axes of the batch
  friend bool operator==(const MaskLine&, const MaskLine&) = default;
};
/// Data that is larger, or less than its negative, is taken for this: no key is as far away.
inline constexpr std::int64_t kFarthestBound = std::int64_t{1} << 29;
/// A mask leaves a row no position of k that is beyond all of these lines.
using MaskBound = std::vector<MaskLine>;
struct MaskBounds {
  std::vector<MaskBound> upper;  ///< none above any of these
  std::vector<MaskBound> lower;  ///< none below
  /// Where masked scores are finite: they count for nothing in a row that has a score above this.
  std::optional<double> negligible_below;
  /// Something is added to masked scores, or they are: a NaN or an infinity among them would be one of the result.
  bool added = false;
  /// Positions are those along the innermost axis of k, and bounds hold at every position of the axes around it: heads
  /// that share keys add up gradients from each of their queries. Else they are of all of k, counted as one axis.
  bool in_runs = false;

  [[nodiscard]] bool empty() const { return upper.empty() && lower.empty(); }
  friend bool operator==(const MaskBounds&, const MaskBounds&) = default;
};

/// For each position of (batch, m), the softmax over k of a score, and the sum over k of its weights times an operand
/// at (batch, n, k). The score may be computed from products, of which there is at most one. Without a softmax scores
/// are weights, those of one sum or of several, and are computed from one or two products.
struct AttentionParams {
  AttentionAxes axes;
  AttentionValues values;
  std::vector<ScoreProduct> products;
  std::vector<WeightedSum> sums;  ///< a weight that another one is computed from comes first
  MaskBounds mask;
  std::variant<SimtAttention, CooperativeAttention, SubgroupAttention> mapping;
  int elements = 1;  ///< neighbours along n that are stored together

  [[nodiscard]] const SimtAttention* simt() const { return std::get_if<SimtAttention>(&mapping); }
  [[nodiscard]] const CooperativeAttention* cooperative() const { return std::get_if<CooperativeAttention>(&mapping); }
  [[nodiscard]] const SubgroupAttention* by_subgroups() const { return std::get_if<SubgroupAttention>(&mapping); }
  [[nodiscard]] int tile_m() const;
  [[nodiscard]] int tile_k() const;
  /// What scores are computed from, in order.
  [[nodiscard]] std::vector<segment::ValueId> contractions() const;
  /// What is computed from them: the softmax's score, or each sum's weight.
  [[nodiscard]] std::vector<segment::ValueId> scores() const;
  /// The reductions, as results know them.
  [[nodiscard]] std::vector<segment::ValueId> reductions() const;
  /// Whether the queries of a product are loaded from shared memory for every block.
  [[nodiscard]] bool is_reloaded(std::size_t product) const;
  /// All of n, and of a product's d, with what stands out.
  [[nodiscard]] int extent_n(const segment::Loops& loops) const;
  [[nodiscard]] int extent_d(const segment::Loops& loops, const ScoreProduct& product) const;
  /// Of these and of a block's keys, what is in shared memory at a time.
  [[nodiscard]] int staged_d(const segment::Loops& loops, const ScoreProduct& product) const;
  [[nodiscard]] int staged_k() const;
};

}  // namespace vkfuse::schedule

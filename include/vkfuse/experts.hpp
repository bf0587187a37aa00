// Mixtures of experts: networks of which each token passes through a few, chosen by a router. Tokens are put in blocks
// of one expert each, on the device, so that an expert is computed for its tokens alone. docs/generation.md says when
// to use what.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "vkfuse/composites.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// Which experts each token goes to, and how much each of them counts.
struct ExpertChoice {
  Tensor experts;  ///< i32 [tokens, chosen], each in 0 .. experts - 1, those with the largest logits first
  Tensor shares;   ///< [tokens, chosen], of the logits' dtype
};
/// Of a router's logits [tokens, experts]: the softmax over all experts at the `chosen` largest, divided by their sum
/// if `renormalise` (Mixtral, Qwen3), which is the softmax over these. Of equal logits the first expert is taken.
ExpertChoice choose_experts(const Tensor& logits, std::int64_t chosen, bool renormalise = true);

/// The order in which tokens are computed: blocks of `rows` rows, each of one expert. The number of blocks depends on
/// sizes alone: it is the most that any choice needs, and rows that nobody has asked for repeat one that somebody has.
/// With no more choices than experts each choice is a block of one row, and nothing is sorted.
///
///     ExpertBlocks blocks(choice.experts, 8);
///     Tensor hidden = silu(matmul(blocks.rows_of(x), blocks.weights_of(gate)));  // gate [8, width, inner]
///     Tensor y = blocks.joined(matmul(hidden, blocks.weights_of(down)), choice.shares);
class ExpertBlocks {
 public:
  /// `chosen`: i32 [tokens, chosen], sizes that are numbers; what is below 0 or above is the nearest expert. `rows`: a
  /// block's, 1 to 1,024; absent: 1 with no more choices than experts, else 16 to 128, about half of what an expert
  /// gets on average.
  ExpertBlocks(const Tensor& chosen, std::int64_t experts, std::optional<std::int64_t> rows = std::nullopt);

  /// The blocks' rows of x [tokens, ...]: [blocks, rows, ...].
  [[nodiscard]] Tensor rows_of(const Tensor& x) const;
  /// What belongs to each block's expert, of weights [experts, ...]: [blocks, ...]. A product reads it where it lies.
  [[nodiscard]] Tensor weights_of(const Tensor& weights) const;
  /// Results y [blocks, rows, width] of each token's experts, times its shares [tokens, chosen], added up in f32 (f64
  /// for f64): [tokens, width] of y's dtype.
  [[nodiscard]] Tensor joined(const Tensor& y, const Tensor& shares) const;

  [[nodiscard]] std::int64_t blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  void sort(const Tensor& own);

  std::int64_t tokens_ = 0, chosen_ = 0, experts_ = 0, rows_ = 1, blocks_ = 0;
  Tensor expert_;  ///< of a block [blocks]
  Tensor token_;   ///< of a row [blocks * rows]
  Tensor row_;     ///< among all, of a choice [tokens, chosen]
};

struct ExpertsOptions {
  /// [experts, width, inner]: hidden values are activation(x gate) * (x up). Absent: activation(x up).
  std::optional<Tensor> gate;
  std::function<Tensor(const Tensor&)> activation;  ///< absent: silu
  std::optional<std::int64_t> rows;                 ///< see ExpertBlocks
};
/// Gated networks by expert: x [tokens, width], choice, up [experts, width, inner] and down [experts, inner, width out]
/// give [tokens, width out].
Tensor mixture_of_experts(const Tensor& x, const ExpertChoice& choice, const Tensor& up, const Tensor& down,
                          const ExpertsOptions& options = {});

}  // namespace VKFUSE_PUBLIC

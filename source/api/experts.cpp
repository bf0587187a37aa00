// Mixtures of experts, of ops: where tokens go is computed by comparisons and running counts, and the products gather
// rows and weights as they read them.
#include "vkfuse/experts.hpp"

#include <algorithm>
#include <bit>

#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "index/arithmetic.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

constexpr std::int64_t kMostRows = 1024;
constexpr std::int64_t kMostCounts = std::int64_t{1} << 30;  ///< experts times choices, and rows: positions are i32

Result<void> check_choice(const Tensor& chosen, std::int64_t experts, std::optional<std::int64_t> rows) {
  const Shape& shape = chosen.shape();
  if (chosen.dtype() != DType::i32 || shape.size() != 2 || shape[0].is_symbol() || shape[1].is_symbol())
    return invalid("'ExpertBlocks' takes choices of i32 [tokens, chosen], whose sizes are numbers, but they are {}.",
                   api::text_of_type(chosen));
  const std::int64_t choices = index::saturating_mul(shape[0].size(), shape[1].size());
  if (experts < 1 || choices < 1 || index::saturating_mul(choices, experts) > kMostCounts)
    return invalid(
        "'ExpertBlocks' takes at least one expert and one choice, and at most {} experts times choices, but "
        "there are {} experts and {} choices.",
        kMostCounts, experts, choices);
  if (rows && (*rows < 1 || *rows > kMostRows))
    return invalid("'ExpertBlocks' has blocks of 1 to {} rows, but they are to have {}.", kMostRows, *rows);
  return {};
}

/// How many of the numbers in row `row` of `counts` [rows * size], which never fall along it, are at most `limit`.
Tensor count_up_to(const Tensor& counts, std::int64_t size, const Tensor& row, const Tensor& limit) {
  const Tensor first = row * api::whole_number(size);
  Tensor found = api::whole_number(0).broadcast_to(limit.shape());
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size))); step > 0; step /= 2) {
    // Past the end of the row the search would stand in another one.
    const Tensor next = found + api::whole_number(step),
                 last = min(next, api::whole_number(size)) - api::whole_number(1);
    const Tensor is_below = le(counts.gather(first + last, 0), limit);
    found = select(logical_and(is_below, le(next, api::whole_number(size))), next, found);
  }
  return found;
}

/// About half of what an expert gets on average: of large blocks, the last of each expert would be mostly empty.
std::int64_t rows_of_block(std::int64_t choices, std::int64_t experts) {
  constexpr std::int64_t kFewest = 16, kMost = 128;
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(choices / experts / 2, 1));
  return std::clamp(static_cast<std::int64_t>(std::bit_floor(half)), kFewest, kMost);
}

/// [experts, choices]: how many of the choices up to each are of an expert.
Tensor running_counts(const Tensor& own, std::int64_t experts) {
  const Tensor expert = Tensor::iota(DType::i32, {Dim(experts), Dim(1)}, 0);
  return eq(own.unsqueeze(0), expert).cast(DType::i32).cumsum(1);
}

}  // namespace

ExpertChoice choose_experts(const Tensor& logits, std::int64_t chosen, bool renormalise) {
  if (!logits.valid()) return {logits, logits};
  const Shape& shape = logits.shape();
  if (!is_float(logits.dtype()) || shape.size() != 2 || shape[1].is_symbol() || chosen < 1 ||
      chosen > shape[1].size()) {
    const Tensor failed = Tensor::failed(invalid(
        "'choose_experts' takes logits of [tokens, experts], floats, whose experts are no symbol, and chooses 1 to "
        "all of these, but it is to choose {} of {}.",
        chosen, api::text_of_type(logits)));
    return {failed, failed};
  }
  const Tensor experts = logits.argsort(1, true, chosen);
  return {experts, renormalise ? softmax(logits.take_along(experts, 1)) : softmax(logits).take_along(experts, 1)};
}

ExpertBlocks::ExpertBlocks(const Tensor& chosen, std::int64_t experts, std::optional<std::int64_t> rows)
    : experts_(experts), expert_(chosen), token_(chosen), row_(chosen) {
  if (!chosen.valid()) return;
  if (auto checked = check_choice(chosen, experts, rows); !checked) {
    expert_ = token_ = row_ = Tensor::failed(std::move(checked).error());
    return;
  }
  tokens_ = chosen.shape()[0].size(), chosen_ = chosen.shape()[1].size();
  const std::int64_t choices = tokens_ * chosen_;
  const Tensor own = max(min(chosen, api::whole_number(experts - 1)), api::whole_number(0)).reshape({Dim(choices)});
  if (choices <= experts && rows.value_or(1) == 1) {
    const Tensor choice = Tensor::iota(DType::i32, {Dim(choices)}, 0);
    blocks_ = choices;
    expert_ = own;
    token_ = choice / api::whole_number(chosen_);
    row_ = choice.reshape(chosen.shape());
    return;
  }
  rows_ = rows ? *rows : rows_of_block(choices, experts);
  // Every expert that is chosen may have one block that is not full.
  blocks_ = choices <= experts ? choices : experts + (choices - experts) / rows_;
  sort(own);
}

/// Blocks of experts follow each other.
void ExpertBlocks::sort(const Tensor& own) {
  const std::int64_t choices = tokens_ * chosen_;
  const Tensor counts = running_counts(own, experts_), all_counts = counts.reshape({Dim(experts_ * choices)});
  const Tensor needed = (counts.select(1, choices - 1) + api::whole_number(rows_ - 1)) / api::whole_number(rows_);
  const Tensor end = needed.cumsum(0), begin = end - needed;
  const Tensor block = Tensor::iota(DType::i32, {Dim(blocks_)}, 0);
  const Tensor is_before = le(end.unsqueeze(0), block.unsqueeze(1));
  expert_ = min(is_before.cast(DType::i32).sum({1}), api::whole_number(experts_ - 1));
  // A row is one of its expert's choices, of which so many come before it.
  const Tensor in_block = Tensor::iota(DType::i32, {Dim(1), Dim(rows_)}, 1);
  const Tensor earlier = (block - begin.gather(expert_, 0)).unsqueeze(1) * api::whole_number(rows_) + in_block;
  const Tensor choice = count_up_to(all_counts, choices, expert_.unsqueeze(1), earlier);
  token_ = (min(choice, api::whole_number(choices - 1)) / api::whole_number(chosen_)).reshape({Dim(blocks_ * rows_)});
  const Tensor place = Tensor::iota(DType::i32, {Dim(choices)}, 0);
  const Tensor before = all_counts.gather(own * api::whole_number(choices) + place, 0) - api::whole_number(1);
  row_ = (begin.gather(own, 0) * api::whole_number(rows_) + before).reshape({Dim(tokens_), Dim(chosen_)});
}

Tensor ExpertBlocks::rows_of(const Tensor& x) const {
  if (!x.valid() || !token_.valid()) return x.valid() ? token_ : x;
  if (x.shape().empty() || x.shape()[0] != Dim(tokens_))
    return Tensor::failed(invalid("'ExpertBlocks' of {} tokens takes rows of x [{}, ...], but it was given {}.",
                                  tokens_, tokens_, api::text_of_type(x)));
  return x.gather(token_.reshape({Dim(blocks_), Dim(rows_)}), 0);
}

Tensor ExpertBlocks::weights_of(const Tensor& weights) const {
  if (!weights.valid() || !expert_.valid()) return weights.valid() ? expert_ : weights;
  if (weights.shape().empty() || weights.shape()[0] != Dim(experts_))
    return Tensor::failed(invalid("'ExpertBlocks' of {} experts takes weights [{}, ...], but it was given {}.",
                                  experts_, experts_, api::text_of_type(weights)));
  return weights.gather(expert_, 0);
}

Tensor ExpertBlocks::joined(const Tensor& y, const Tensor& shares) const {
  for (const Tensor* x : {&y, &shares, &row_}) {
    if (!x->valid()) return *x;
  }
  const Shape& shape = y.shape();
  if (shape.size() != 3 || shape[0] != Dim(blocks_) || shape[1] != Dim(rows_) ||
      shares.shape() != Shape{Dim(tokens_), Dim(chosen_)})
    return Tensor::failed(
        invalid("'ExpertBlocks' joins results [{}, {}, width] by shares [{}, {}], but it was given {} "
                "and {}.",
                blocks_, rows_, tokens_, chosen_, api::text_of_type(y), api::text_of_type(shares)));
  const DType wide = y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor rows = y.reshape({Dim(blocks_ * rows_), shape[2]}).gather(row_, 0);
  return (rows.cast(wide) * shares.cast(wide).unsqueeze(2)).sum({1}).cast(y.dtype());
}

namespace {

Result<void> check_networks(const Tensor& x, const Tensor& up, const Tensor& down, const std::optional<Tensor>& gate) {
  const auto is_of = [](const Tensor& w, const Shape& shape) { return w.shape() == shape; };
  const bool are_three = x.shape().size() == 2 && up.shape().size() == 3 && down.shape().size() == 3;
  if (are_three && !up.shape()[0].is_symbol()) {
    const Dim &experts = up.shape()[0], &inner = up.shape()[2];
    if (is_of(up, {experts, x.shape()[1], inner}) && is_of(down, {experts, inner, down.shape()[2]}) &&
        (!gate || is_of(*gate, up.shape())))
      return {};
  }
  return invalid(
      "'mixture_of_experts' takes x [tokens, width], up and gate [experts, width, inner] and down [experts, inner, "
      "width out], whose experts are no symbol, but they are {}, {}{} and {}.",
      api::text_of_type(x), api::text_of_type(up), gate ? ", " + api::text_of_type(*gate) : std::string(),
      api::text_of_type(down));
}

}  // namespace

Tensor mixture_of_experts(const Tensor& x, const ExpertChoice& choice, const Tensor& up, const Tensor& down,
                          const ExpertsOptions& options) {
  for (const Tensor* one : {&x, &choice.experts, &choice.shares, &up, &down}) {
    if (!one->valid()) return *one;
  }
  if (options.gate && !options.gate->valid()) return *options.gate;
  if (auto checked = check_networks(x, up, down, options.gate); !checked)
    return Tensor::failed(std::move(checked).error());
  const ExpertBlocks blocks(choice.experts, up.shape()[0].size(), options.rows);
  const Tensor rows = blocks.rows_of(x), raised = matmul(rows, blocks.weights_of(up));
  const auto activated = [&](const Tensor& value) {
    return options.activation ? options.activation(value) : silu(value);
  };
  const Tensor hidden =
      options.gate ? activated(matmul(rows, blocks.weights_of(*options.gate))) * raised : activated(raised);
  return blocks.joined(matmul(hidden, blocks.weights_of(down)), choice.shares);
}

}  // namespace vkfuse

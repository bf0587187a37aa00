// Attention as the ops a person would write: what becomes one kernel is found by structure, not by name.
#include <cmath>

#include "api/tensor_node.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

std::string type_text(const Tensor& x) { return to_text(TensorType{x.dtype(), x.shape()}); }

constexpr std::int64_t kFar = std::int64_t{1} << 30;  // positions are i32

/// How many neighbouring heads of `many` each head of `few` serves; their shapes are [batch, heads, ...].
Result<std::int64_t> heads_per_key_head(const Tensor& many, const Tensor& few, std::string_view role) {
  if (many.shape().size() != 4 || few.shape().size() != 4) {
    return invalid("'attention' takes tensors of [batch, heads, positions, size], but it was given {} and {}.",
                   type_text(many), type_text(few));
  }
  const Dim& heads = many.shape()[1];
  const Dim& served = few.shape()[1];
  if (heads == served) return 1;
  if (heads.is_symbol() || served.is_symbol() || served.size() < 1 || heads.size() % served.size() != 0) {
    return invalid("'attention' has {} heads of queries and {} of {}, which must divide them.", heads.text(),
                   served.text(), role);
  }
  return heads.size() / served.size();
}

/// dot over the last axis of `many` and `axis` of `few`, each head of `few` with its heads of `many`.
Tensor by_head(const Tensor& many, const Tensor& few, std::int64_t each, int axis) {
  const Shape& shape = many.shape();
  if (each == 1)
    return dot_general(many, few, {.contract_a = {3}, .contract_b = {axis}, .batch_a = {0, 1}, .batch_b = {0, 1}});
  const Tensor apart = many.reshape({shape[0], few.shape()[1], each, shape[2], shape[3]});
  const Tensor made =
      dot_general(apart, few, {.contract_a = {4}, .contract_b = {axis}, .batch_a = {0, 1}, .batch_b = {0, 1}});
  return made.valid() ? made.reshape({shape[0], shape[1], shape[2], made.shape()[4]}) : made;
}

/// Key minus query, by position: i32 [queries, keys].
Tensor distances(const Dim& queries, const Dim& keys, std::int64_t first_query) {
  const Tensor query = Tensor::iota(DType::i32, {queries, 1}, 0);
  return Tensor::iota(DType::i32, {1, keys}, 1) -
         (first_query == 0 ? query : query + Tensor::scalar_int(DType::i32, first_query));
}

Result<void> check_positions(const AttentionOptions& options) {
  for (const auto& number : {std::optional(options.first_query), options.window_before, options.window_after}) {
    if (number && (*number < 0 || *number > kFar))
      return invalid("'attention' counts positions and windows from 0 to {}, but one is {}.", kFar, *number);
  }
  return {};
}

/// Slopes [heads] against [heads, queries, keys].
Tensor with_alibi(const Tensor& scores, const Tensor& slopes, const Tensor& distance) {
  if (slopes.valid() && slopes.shape() != Shape{scores.shape()[1]}) {
    return Tensor::failed(invalid("'attention' takes a slope for each of {} heads, but they are {}.",
                                  scores.shape()[1].text(), type_text(slopes)));
  }
  return scores + slopes.reshape({scores.shape()[1], 1, 1}) * distance.cast(scores.dtype());
}

/// The softmax of the scores [batch, heads, queries, keys] and one more score for each head, which is left out of the
/// result.
Tensor softmax_with_sink(const Tensor& scores, const Tensor& sink) {
  if (!sink.valid()) return sink;
  if (sink.shape() != Shape{scores.shape()[1]}) {
    return Tensor::failed(invalid("'attention' takes a sink for each of {} heads, but they are {}.",
                                  scores.shape()[1].text(), type_text(sink)));
  }
  const Tensor extra = sink.cast(scores.dtype()).reshape({scores.shape()[1], 1, 1});
  const Tensor largest = api::as_constant(max(scores.max({-1}, true), extra));
  const Tensor raised = exp(scores - largest);
  return raised / (raised.sum({-1}, true) + exp(extra - largest));
}

Tensor without(const Tensor& scores, const Tensor& allowed) {
  return select(allowed, scores, Tensor::scalar(scores.dtype(), -INFINITY));
}

/// What the options add to the scores [batch, heads, queries, keys], and what they leave out.
Tensor with_bias_and_masks(Tensor scores, const AttentionOptions& options) {
  const Tensor distance = distances(scores.shape()[2], scores.shape()[3], options.first_query);
  const auto reach = [&](std::int64_t most) { return Tensor::scalar_int(DType::i32, most); };
  // Before anything is added: a mask of -infinity must stay one.
  if (options.softcap > 0) scores = tanh(scores / options.softcap) * options.softcap;
  if (options.bias) scores = scores + *options.bias;
  if (options.alibi_slopes) scores = with_alibi(scores, *options.alibi_slopes, distance);
  if (options.mask) scores = without(scores, *options.mask);
  if (options.causal) scores = without(scores, le(distance, reach(0)));
  if (options.window_before) scores = without(scores, ge(distance, reach(-*options.window_before)));
  if (options.window_after) scores = without(scores, le(distance, reach(*options.window_after)));
  return scores;
}

}  // namespace

Tensor attention_scores(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  if (!q.valid()) return q;
  if (!k.valid()) return k;
  const auto each = heads_per_key_head(q, k, "keys");
  if (!each) return Tensor::failed(each.error());
  if (const auto positions = check_positions(options); !positions) return Tensor::failed(positions.error());
  const Dim& size = q.shape()[3];
  if (!options.scale && (size.is_symbol() || size.size() < 1)) {
    return Tensor::failed(invalid("'attention' of heads of size {} needs a scale.", size.text()));
  }
  // On the queries: the product of 16-bit floats then does not overflow where the scores would not.
  const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(size.size()));
  Tensor scores = by_head(scale == 1 ? q : q * scale, k, *each, 3);
  if (!scores.valid()) return scores;
  scores = with_bias_and_masks(scores, options);
  if (scores.valid() && (scores.shape().size() != 4 || scores.shape()[1] != q.shape()[1])) {
    return Tensor::failed(invalid("'attention' of {} and {} has a bias or mask that makes the scores {}.", type_text(q),
                                  type_text(k), type_text(scores)));
  }
  return scores;
}

Tensor attention_output(const Tensor& weights, const Tensor& v) {
  if (!weights.valid()) return weights;
  if (!v.valid()) return v;
  const auto each = heads_per_key_head(weights, v, "values");
  return each ? by_head(weights, v, *each, 2) : Tensor::failed(each.error());
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Tensor scores = attention_scores(q, k, options);
  if (!scores.valid()) return scores;
  const Tensor cast = scores.cast(options.softmax_dtype.value_or(scores.dtype()));
  const Tensor weights = options.sink ? softmax_with_sink(cast, *options.sink) : softmax(cast);
  return weights.valid() ? attention_output(weights.cast(v.dtype()), v) : weights;
}

}  // namespace vkfuse

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

/// What values are weighted by [batch, heads, queries, keys], and what is left for the sink [batch, heads, queries, 1].
struct Weights {
  Tensor keys;
  std::optional<Tensor> sink;
};

/// Of the scores [batch, heads, queries, keys] and one more score for each head, the largest of each row, or a number
/// near it, and the sum of exponentials below it, of the sink by itself too; [batch, heads, queries, 1].
struct RowTotals {
  Tensor largest, total;
  std::optional<Tensor> of_sink;
};

RowTotals totals_of(const Tensor& scores, const Tensor* sink) {
  if (sink == nullptr) {
    const Tensor largest = api::as_constant(scores.max({-1}, true));
    return {largest, exp(scores - largest).sum({-1}, true), std::nullopt};
  }
  if (!sink->valid()) return {*sink, *sink, std::nullopt};
  if (sink->shape() != Shape{scores.shape()[1]}) {
    const Tensor failed = Tensor::failed(invalid("'attention' takes a sink for each of {} heads, but they are {}.",
                                                 scores.shape()[1].text(), type_text(*sink)));
    return {failed, failed, std::nullopt};
  }
  const Tensor extra = sink->cast(scores.dtype()).reshape({scores.shape()[1], 1, 1});
  const Tensor largest = api::as_constant(max(scores.max({-1}, true), extra));
  const Tensor of_sink = exp(extra - largest);
  return {largest, exp(scores - largest).sum({-1}, true) + of_sink, of_sink};
}

Weights weights_of(const Tensor& scores, const Tensor* sink) {
  if (sink == nullptr) return {softmax(scores), std::nullopt};
  const RowTotals rows = totals_of(scores, sink);
  if (!rows.total.valid()) return {rows.total, std::nullopt};
  return {exp(scores - rows.largest) / rows.total, *rows.of_sink / rows.total};
}

/// The same in `wide`, from two numbers of each row, which are all that a backward pass keeps of a softmax: the largest
/// score and the logarithm of the total. They stay apart: where the largest is as far from 0 as what hides all keys of
/// a row, their sum is the largest itself.
Weights weights_again(const Tensor& scores, const Tensor* sink, DType wide) {
  const RowTotals rows = totals_of(scores, sink);
  const Tensor total = rows.total.cast(wide);
  Weights weights{exp((scores.cast(wide) - rows.largest.cast(wide)) - log(total)), std::nullopt};
  if (rows.of_sink) weights.sink = rows.of_sink->cast(wide) / total;
  return weights;
}

/// The sum over the queries of `each` heads, which share values: [batch, heads of values, keys, size].
Tensor summed_over_queries(const Tensor& weights, const Tensor& cotangent, std::int64_t each) {
  const Shape& shape = weights.shape();
  if (each == 1)
    return dot_general(weights, cotangent,
                       {.contract_a = {2}, .contract_b = {2}, .batch_a = {0, 1}, .batch_b = {0, 1}});
  const std::int64_t heads = shape[1].size() / each;
  return dot_general(weights.reshape({shape[0], heads, each, shape[2], shape[3]}),
                     cotangent.reshape({shape[0], heads, each, shape[2], cotangent.shape()[3]}),
                     {.contract_a = {2, 3}, .contract_b = {2, 3}, .batch_a = {0, 1}, .batch_b = {0, 1}});
}

/// The gradients of the scores, the values and the sinks. What softmax's gradient subtracts, the sum over keys of
/// weight and cotangent, is the product of the result and its cotangent: nothing is reduced over the scores (Dao et
/// al., 2022).
///
/// The weights are computed from the scores again, which a graph has once: a rule that held them would keep them alive.
GradientRule rule_of_attention() {
  return [](const GradientCall& call) {
    const Tensor& scores = call.operands[0];
    const Tensor& v = call.operands[1];
    const bool in_double = v.dtype() == DType::f64 || scores.dtype() == DType::f64;
    const DType wide = in_double ? DType::f64 : DType::f32;
    const Weights weights = weights_again(scores, call.operands.size() > 2 ? &call.operands[2] : nullptr, wide);
    const Tensor subtracted = (call.cotangent.cast(wide) * call.result.cast(wide)).sum({3}, true);
    const std::int64_t each = scores.shape()[1] == v.shape()[1] ? 1 : scores.shape()[1].size() / v.shape()[1].size();
    const Tensor of_weights = by_head(call.cotangent, v, each, 3).cast(wide);
    std::vector<Tensor> made{(weights.keys * (of_weights - subtracted)).cast(scores.dtype()),
                             summed_over_queries(weights.keys.cast(v.dtype()), call.cotangent, each)};
    if (weights.sink) made.push_back((-(*weights.sink * subtracted).sum({0, 2, 3})).cast(call.operands[2].dtype()));
    return made;
  };
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
  const Weights weights = weights_of(cast, options.sink ? &*options.sink : nullptr);
  if (!weights.keys.valid()) return weights.keys;
  std::vector<Tensor> operands{cast, v};
  if (options.sink) operands.push_back(*options.sink);
  return api::with_own_gradient(attention_output(weights.keys.cast(v.dtype()), v),
                                {std::move(operands), rule_of_attention()});
}

}  // namespace vkfuse

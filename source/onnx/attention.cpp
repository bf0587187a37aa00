// Attention with grouped heads, a cache of keys and values, masks and padding.
#include <cmath>
#include <limits>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

enum Operand { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kKeyCounts };

/// An operand as [batch, heads, positions, size]; with three axes its heads lie side by side in the last.
Result<Tensor> with_heads(const NodeContext& node, int operand, std::string_view attribute) {
  const Tensor& x = node.tensor(operand);
  if (x.shape().size() == 4) return x;
  if (x.shape().size() != 3) {
    return invalid("Operand {} of operator 'Attention' has rank {}; it must be 3 or 4.", operand, x.shape().size());
  }
  VKF_TRY(heads, node.attributes().integer(attribute, 0));
  VKF_TRY(size, static_size(x.shape(), 2));
  if (heads < 1 || size % heads != 0) {
    return invalid("Attribute '{}' is {}; it must divide the {} elements of the last axis of operand {}.", attribute,
                   heads, size, operand);
  }
  return x.reshape({x.shape()[0], x.shape()[1], heads, size / heads}).permute({0, 2, 1, 3});
}

Result<Tensor> with_past(const NodeContext& node, int operand, const Tensor& current) {
  if (!node.has(operand)) return current;
  const Tensor& past = node.tensor(operand);
  if (past.shape().size() != 4)
    return invalid("Operand {} of operator 'Attention' has rank {}; it must be 4.", operand, past.shape().size());
  return concat({past, current}, 2);
}

/// The mask, with keys that it does not reach left out.
Result<Tensor> mask_over(const NodeContext& node, const Dim& keys) {
  const Tensor& mask = node.tensor(kMask);
  if (mask.shape().empty() || mask.shape().back() == keys) return mask;
  VKF_TRY(reach, static_size(mask.shape(), mask.shape().size() - 1));
  VKF_TRY(count, static_size(Shape{keys}, 0));
  if (reach > count) return invalid("The mask (operand 3) reaches {} keys; there are {}.", reach, count);
  std::vector<std::int64_t> none(mask.shape().size()), behind(mask.shape().size());
  behind.back() = count - reach;
  return mask.pad(none, behind, mask.dtype() == DType::boolean ? 0 : -std::numeric_limits<double>::infinity());
}

/// Both conditions, where there are two.
void also(std::optional<Tensor>& mask, const Tensor& condition) {
  mask = mask ? op("and", *mask, condition) : condition;
}

/// Positions along one axis of [batch, heads, queries, keys], as i64.
Tensor positions_along(int axis, const Dim& size) {
  Shape shape(4, Dim(1));
  shape[static_cast<std::size_t>(axis)] = size;
  return Tensor::iota(DType::i64, shape, axis);
}

/// Without a cache of its own, a sequence's queries are the last of its keys that count: where they stand is data.
void mask_padding(const NodeContext& node, const Dim& queries, const Dim& keys, AttentionOptions& options) {
  const Tensor counts = node.tensor(kKeyCounts).reshape({Dim(-1), 1, 1, 1});
  const Tensor key = positions_along(3, keys);
  also(options.mask, op("lt", key, counts));
  if (node.has(kPastKey)) return;
  const Tensor query = positions_along(2, queries) - Tensor::scalar_int(DType::i64, queries.size()) + counts;
  const auto far = [](std::int64_t positions) { return Tensor::scalar_int(DType::i64, positions); };
  if (options.causal) also(options.mask, op("le", key, query));
  if (options.window_before) also(options.mask, op("ge", key, query - far(*options.window_before)));
  if (options.window_after) also(options.mask, op("le", key, query + far(*options.window_after)));
  options.causal = false;
  options.window_before = options.window_after = std::nullopt;
}

/// How many keys on one side of a query it may see; nothing for all.
Result<std::optional<std::int64_t>> window_size(const NodeContext& node, std::string_view attribute) {
  using Size = std::optional<std::int64_t>;
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  VKF_TRY(size, node.attributes().integer(attribute, -1));
  if (size < -1) return invalid("Attribute '{}' is {}; it must be -1 or more.", attribute, size);
  return size == -1 || size > kFar ? Size() : Size(size);
}

Result<AttentionOptions> options_of(const NodeContext& node, const Tensor& q, const Tensor& k) {
  AttentionOptions options;
  VKF_TRY(causal, node.attributes().integer("is_causal", 0));
  VKF_TRY(softcap, node.attributes().real("softcap", 0));
  VKF_TRY(precision, node.attributes().integer("softmax_precision", 0));
  VKF_TRY(scale, node.attributes().real("scale", 0));
  if (node.attributes().has("scale")) options.scale = scale;
  options.causal = causal != 0;
  options.softcap = softcap;
  VKF_TRY(before, window_size(node, "left_window_size"));
  VKF_TRY(after, window_size(node, "right_window_size"));
  options.window_before = before;
  options.window_after = after;
  if (precision != 0) {
    VKF_TRY(dtype, dtype_from(static_cast<int>(precision), "Attribute 'softmax_precision'"));
    options.softmax_dtype = dtype;
  }
  if (node.has(kPastKey) && (options.causal || before || after)) {
    VKF_TRY(past, static_size(node.tensor(kPastKey).shape(), 2));
    options.first_query = past;
  }
  if (node.has(kMask)) {
    VKF_TRY(mask, mask_over(node, k.shape()[2]));
    (mask.dtype() == DType::boolean ? options.mask : options.bias) = mask;
  }
  if (node.has(kKeyCounts)) {
    VKF_TRY(queries, static_size(q.shape(), 2));
    mask_padding(node, queries, k.shape()[2], options);
  }
  return options;
}

/// What an attention computes before its result.
struct Intermediates {
  Tensor q, k, scores, weights;
};

/// The one of them that attribute 'qk_matmul_output_mode' asks to see.
Result<Tensor> seen_scores(const NodeContext& node, const Intermediates& made, const AttentionOptions& options) {
  VKF_TRY(mode, node.attributes().integer("qk_matmul_output_mode", 0));
  if (mode == 3) return made.weights.cast(made.q.dtype());
  if (mode == 2) return made.scores;
  if (mode != 0 && mode != 1) return invalid("Attribute 'qk_matmul_output_mode' is {}; it must be 0 to 3.", mode);
  AttentionOptions bare;
  bare.scale = options.scale;
  bare.softcap = mode == 1 ? options.softcap : 0;
  return attention_scores(made.q, made.k, bare);
}

}  // namespace

Result<Outputs> import_attention(const NodeContext& node) {
  VKF_TRY(q, with_heads(node, kQuery, "q_num_heads"));
  VKF_TRY(own_k, with_heads(node, kKey, "kv_num_heads"));
  VKF_TRY(own_v, with_heads(node, kValue, "kv_num_heads"));
  VKF_TRY(k, with_past(node, kPastKey, own_k));
  VKF_TRY(v, with_past(node, kPastValue, own_v));
  if (!k.valid() || !v.valid()) return Outputs{k.valid() ? v : k};
  VKF_TRY(options, options_of(node, q, k));
  const Tensor scores = attention_scores(q, k, options);
  Tensor weights = softmax(scores.cast(options.softmax_dtype.value_or(q.dtype())));
  if ((options.mask || options.bias || options.window_before || options.window_after) && scores.valid() &&
      scores.shape().back() != Dim(0)) {
    // A query that is left without a key gets zeros.
    const Tensor largest = scores.max({-1}, true);
    const Tensor none = op("eq", largest, -std::numeric_limits<double>::infinity());
    weights = select(none, Tensor::scalar(weights.dtype(), 0), weights);
  }
  Tensor result = attention_output(weights.cast(v.dtype()), v);
  if (!result.valid()) return Outputs{result};
  if (node.tensor(kQuery).shape().size() == 3) {
    const Shape& shape = result.shape();
    VKF_TRY(size, static_count({shape[1], shape[3]}, 0, 2));
    result = result.permute({0, 2, 1, 3}).reshape({shape[0], shape[2], size});
  }
  if (node.outputs() <= 3) return Outputs{result, k, v};
  VKF_TRY(seen, seen_scores(node, {q, k, scores, weights}, options));
  return Outputs{result, k, v, seen};
}

}  // namespace vkfuse::onnx

// Recurrences of linear attention, and causal convolutions that carry their last inputs along.
#include <cmath>
#include <optional>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// Each step of a recurrence with a gate or a delta becomes nodes of its own.
constexpr std::int64_t kMostSteps = 512;

enum Operand { kQuery, kKey, kValue, kState, kDecay, kBeta };

/// What the attributes and shapes say: heads, their sizes, and which parts the update has.
struct Recurrence {
  std::int64_t heads = 0, key_heads = 0;
  std::int64_t key_size = 0, value_size = 0;
  double scale = 0;
  bool decays = false, corrects = false;  ///< "gated", "delta"; both: "gated_delta"; neither: "linear"
  DType out = DType::f32;                 ///< of the results; what is between is f32, or f64
  DType inside = DType::f32;
};

/// [batch, steps, heads * size] as [batch, heads, steps, size] in the dtype that is computed in.
Tensor by_head(const Tensor& x, std::int64_t heads, std::int64_t size, const Recurrence& how) {
  return x.reshape({x.shape()[0], x.shape()[1], heads, size}).permute({0, 2, 1, 3}).cast(how.inside);
}

Result<std::int64_t> head_size(const NodeContext& node, int operand, std::int64_t heads) {
  if (node.tensor(operand).shape().size() != 3) {
    return invalid("Operand {} of operator {} has rank {}; it must be 3.", operand, in_quotes(node.row().name),
                   node.tensor(operand).shape().size());
  }
  VKF_TRY(width, static_size(node.tensor(operand).shape(), 2));
  if (heads < 1 || width % heads != 0)
    return invalid("Operand {} has {} elements in its last axis, which {} heads do not divide.", operand, width, heads);
  return width / heads;
}

Result<void> take_rule(const NodeContext& node, Recurrence& how) {
  VKF_TRY(rule, node.attributes().text("update_rule", "gated_delta"));
  how.decays = rule == "gated" || rule == "gated_delta";
  how.corrects = rule == "delta" || rule == "gated_delta";
  if (!how.decays && !how.corrects && rule != "linear") {
    return invalid("Attribute 'update_rule' is {}; it must be 'linear', 'gated', 'delta' or 'gated_delta'.",
                   in_quotes(rule));
  }
  if (how.decays && !node.has(kDecay))
    return invalid("The update rule {} needs operand 4, the decay.", in_quotes(rule));
  if (how.corrects && !node.has(kBeta)) return invalid("The update rule {} needs operand 5, beta.", in_quotes(rule));
  return {};
}

Result<Recurrence> recurrence_of(const NodeContext& node) {
  Recurrence how;
  VKF_TRY(heads, node.attributes().integer("q_num_heads", 0));
  VKF_TRY(key_heads, node.attributes().integer("kv_num_heads", 0));
  VKF_TRY(query_size, head_size(node, kQuery, heads));
  VKF_TRY(key_size, head_size(node, kKey, key_heads));
  VKF_TRY(value_size, head_size(node, kValue, key_heads));
  VKF_TRY(scale, node.attributes().real("scale", 0));
  VKF_CHECK_OK(take_rule(node, how));
  if (node.has(kState)) VKF_CHECK_OK(check_rank(node, kState, 4));
  if (heads % key_heads != 0 || query_size != key_size) {
    return invalid("{} query heads of {} elements do not go with {} key heads of {}.", heads, query_size, key_heads,
                   key_size);
  }
  how.heads = heads;
  how.key_heads = key_heads;
  how.key_size = key_size;
  how.value_size = value_size;
  how.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(key_size));
  how.out = node.dtype();
  how.inside = node.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return how;
}

/// The state before the first step, [batch, key heads, key size, value size].
Tensor first_state(const NodeContext& node, const Recurrence& how) {
  if (node.has(kState)) return node.tensor(kState).cast(how.inside);
  const Shape shape{node.tensor(kQuery).shape()[0], how.key_heads, how.key_size, how.value_size};
  return filled(shape, Tensor::scalar(how.inside, 0));
}

/// Each key head's matrix [batch, key heads, a, b] for its query heads.
Tensor for_queries(const Tensor& x, const Recurrence& how) {
  if (how.heads == how.key_heads || !x.valid()) return x;
  const Shape& shape = x.shape();
  return x.unsqueeze(2)
      .broadcast_to({shape[0], shape[1], how.heads / how.key_heads, shape[2], shape[3]})
      .reshape({shape[0], how.heads, shape[2], shape[3]});
}

struct Made {
  Tensor output, state;
};

/// Without gate and delta the state is a sum: all steps at once.
Made summed(const NodeContext& node, const Recurrence& how) {
  const Tensor q = by_head(node.tensor(kQuery), how.heads, how.key_size, how);
  const Tensor k = by_head(node.tensor(kKey), how.key_heads, how.key_size, how);
  const Tensor v = by_head(node.tensor(kValue), how.key_heads, how.value_size, how);
  const Tensor state = first_state(node, how);
  const Tensor scores = matmul(q, for_queries(k, how).transpose());
  if (!scores.valid()) return {scores, scores};
  const Dim& steps = scores.shape()[3];
  const Tensor is_past = op("le", Tensor::iota(DType::i32, {1, steps}, 1), Tensor::iota(DType::i32, {steps, 1}, 0));
  const Tensor masked = select(is_past, scores, Tensor::scalar(how.inside, 0));
  const Tensor read = matmul(masked, for_queries(v, how)) + matmul(q, for_queries(state, how));
  return {read * how.scale, state + matmul(k.transpose(), v)};
}

/// A gate or rate [batch, steps, heads or heads * size] at one step, to go with [batch, key heads, size, 1].
Result<Tensor> at_step(const NodeContext& node, int operand, const Recurrence& how, std::int64_t step) {
  const Tensor& all = node.tensor(operand);
  if (all.shape().size() != 3) return invalid("Operand {} has rank {}; it must be 3.", operand, all.shape().size());
  VKF_TRY(width, static_size(all.shape(), 2));
  const Tensor one = all.select(1, step).cast(how.inside);
  if (width == 1 || width == how.key_heads) return one.reshape({all.shape()[0], width, 1, 1});
  if (width == how.key_heads * how.key_size) return one.reshape({all.shape()[0], how.key_heads, how.key_size, 1});
  return invalid("Operand {} has {} elements in its last axis; {} key heads of {} ask for {}, {} or 1.", operand, width,
                 how.key_heads, how.key_size, how.key_heads, how.key_heads * how.key_size);
}

Result<Made> stepped(const NodeContext& node, const Recurrence& how) {
  VKF_TRY(steps, static_size(node.tensor(kQuery).shape(), 1));
  if (steps < 1 || steps > kMostSteps)
    return unsupported("Operator 'LinearAttention' has {} steps; 1 to {} are supported.", steps, kMostSteps);
  const Tensor q = by_head(node.tensor(kQuery), how.heads, how.key_size, how);
  const Tensor k = by_head(node.tensor(kKey), how.key_heads, how.key_size, how);
  const Tensor v = by_head(node.tensor(kValue), how.key_heads, how.value_size, how);
  Tensor state = first_state(node, how);
  std::vector<Tensor> read;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor key = k.slice(2, step, step + 1).transpose();  // [batch, key heads, key size, 1]
    Tensor value = v.slice(2, step, step + 1);                  // [batch, key heads, 1, value size]
    if (how.decays) {
      VKF_TRY(decay, at_step(node, kDecay, how, step));
      state = state * op("exp", decay);
    }
    if (how.corrects) {
      VKF_TRY(beta, at_step(node, kBeta, how, step));
      value = (value - (state * key).sum({2}, true)) * beta;
    }
    state = state + key * value;
    read.push_back(matmul(q.slice(2, step, step + 1), for_queries(state, how)));
  }
  return Made{(steps == 1 ? read[0] : concat(read, 2)) * how.scale, state};
}

/// The convolution, in f32 for 16-bit floats as an activation follows it there.
Result<Tensor> activated(const NodeContext& node, const Tensor& x) {
  VKF_TRY(activation, node.attributes().text("activation", "none"));
  if (activation == "none") return x;
  if (activation == "silu" || activation == "swish") return x * op("sigmoid", x);
  return invalid("Attribute 'activation' is {}; it must be 'silu', 'swish' or 'none'.", in_quotes(activation));
}

}  // namespace

Result<Outputs> import_linear_attention(const NodeContext& node) {
  VKF_TRY(how, recurrence_of(node));
  Made made{node.tensor(kQuery), node.tensor(kQuery)};
  if (how.decays || how.corrects) {
    VKF_TRY(unrolled, stepped(node, how));
    made = unrolled;
  } else {
    made = summed(node, how);
  }
  if (!made.output.valid() || !made.state.valid()) return Outputs{made.output.valid() ? made.state : made.output};
  const Shape& shape = made.output.shape();
  const Tensor output =
      made.output.permute({0, 2, 1, 3}).reshape({shape[0], shape[2], how.heads * how.value_size}).cast(how.out);
  return Outputs{output, made.state.cast(how.out)};
}

Result<Outputs> import_causal_conv(const NodeContext& node) {
  enum Operand { kInput, kWeight, kBias, kPast };
  const Tensor& x = node.tensor(kInput);
  const Tensor& weight = node.tensor(kWeight);
  if (x.shape().size() != 3 || weight.shape().size() != 3) {
    return invalid("Operator 'CausalConvWithState' has operands {} and {}; both must have rank 3.", to_text(x.shape()),
                   to_text(weight.shape()));
  }
  VKF_TRY(channels, static_size(weight.shape(), 0));
  VKF_TRY(taps, static_size(weight.shape(), 2));
  VKF_TRY(length, static_size(x.shape(), 2));
  Tensor all = x;
  if (node.has(kPast)) {
    all = concat({node.tensor(kPast), x}, 2);
  } else if (taps > 1) {
    all = x.pad({0, 0, taps - 1}, {0, 0, 0});
  }
  Tensor result = conv(all, weight, {.groups = channels});
  if (node.has(kBias)) result = result + node.tensor(kBias).reshape({channels, 1});
  VKF_TRY(output, activated(node, result));
  return Outputs{output, all.slice(2, length, length + taps - 1)};
}

}  // namespace vkfuse::onnx

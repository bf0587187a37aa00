// Operators of com.microsoft that are one of ONNX's and what follows it.
#include <cmath>

#include "onnx/compose.hpp"
#include "onnx/named_activations.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::onnx {
namespace {

/// The function of attribute 'activation', where it is stated.
Result<Tensor> activated(const NodeContext& node, const Tensor& x, const std::vector<double>& numbers) {
  VKF_TRY(name, node.attributes().text("activation", ""));
  if (name.empty() || !x.valid()) return x;
  VKF_TRY(activation, activation_with(name, "activation", numbers));
  return activation(x);
}

/// Normalised over the last axis, scaled and shifted.
Result<Tensor> layer_normalised(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon) {
  if (!x.valid()) return x;
  return layer_norm(x, -1, {.epsilon = epsilon, .scale = scale, .bias = bias});
}

/// Rows of a table at known or computed ids.
Tensor rows_at(const Tensor& table, const Tensor& ids) { return table.gather(ids, 0); }

/// Where embeddings of positions are read: at operand 8, or at each position in turn.
Tensor position_rows(const NodeContext& node, const Tensor& ids) {
  const Tensor& table = node.tensor(3);
  if (node.has(8)) return rows_at(table, node.tensor(8));
  return rows_at(table, Tensor::iota(DType::i32, {ids.shape()[1]}, 0)).unsqueeze(0);
}

}  // namespace

Result<Outputs> import_fused_conv(const NodeContext& node) {
  VKF_TRY(outputs, import_conv(node));
  VKF_TRY(numbers, node.attributes().reals("activation_params"));
  const Tensor sum = node.has(3) ? outputs[0].tensor + node.tensor(3) : outputs[0].tensor;
  VKF_TRY(result, activated(node, sum, numbers));
  return Outputs{result};
}

Result<Outputs> import_fused_gemm(const NodeContext& node) {
  VKF_TRY(outputs, import_gemm(node));
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (!node.attributes().has(name)) break;
    VKF_TRY(number, node.attributes().real(name, 0));
    numbers.push_back(number);
  }
  VKF_TRY(result, activated(node, outputs[0].tensor, numbers));
  return Outputs{result};
}

Result<Outputs> import_bias_split_gelu(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  const Tensor sum = node.tensor(0) + node.tensor(1);
  VKF_TRY(size, static_size(node.tensor(0).shape(), node.tensor(0).shape().size() - 1));
  if (size % 2 != 0) return invalid("Operator 'BiasSplitGelu' splits {} elements in halves.", size);
  return Outputs{sum.slice(-1, 0, size / 2) * gelu(sum.slice(-1, size / 2, size))};
}

Result<Outputs> import_contrib_group_norm(const NodeContext& node) {
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  VKF_TRY(groups, node.attributes().integer("groups", 0));
  VKF_TRY(activation, node.attributes().integer("activation", 0));
  VKF_TRY(channels_last, node.attributes().integer("channels_last", 1));
  const Shape& shape = node.tensor(0).shape();
  if (shape.size() != 4)
    return invalid("Operator 'GroupNorm' takes images of rank 4; the input is {}.", to_text(shape));
  VKF_TRY(channels, static_size(shape, channels_last != 0 ? 3 : 1));
  if (groups < 1 || channels % groups != 0)
    return invalid("Attribute 'groups' is {}; it must divide {} channels.", groups, channels);
  const std::int64_t each = channels / groups;
  const Tensor wide = node.tensor(0).cast(node.dtype() == DType::f64 ? DType::f64 : DType::f32);
  Shape lined_up(channels_last != 0 ? 1 : 3, Dim(1));
  lined_up[0] = channels;
  const Tensor apart = channels_last != 0 ? wide.reshape({shape[0], shape[1], shape[2], groups, each})
                                          : wide.reshape({shape[0], groups, each, shape[2], shape[3]});
  const std::vector<int> axes = channels_last != 0 ? std::vector<int>{1, 2, 4} : std::vector<int>{2, 3, 4};
  const Tensor normalised = normalize(apart, axes, epsilon).reshape(shape);
  Tensor result = normalised * node.tensor(1).cast(wide.dtype()).reshape(lined_up) +
                  node.tensor(2).cast(wide.dtype()).reshape(lined_up);
  if (activation == 1) result = result * op("sigmoid", result);
  if (activation != 0 && activation != 1)
    return invalid("Attribute 'activation' is {}; it must be 0, or 1 for SiLU.", activation);
  return Outputs{result.cast(node.dtype())};
}

Result<Outputs> import_embed_layer_normalization(const NodeContext& node) {
  enum Operand { kIds, kSegments, kWords, kPositions, kSegmentTable, kScale, kBias, kMask };
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-12));
  const Tensor& ids = node.tensor(kIds);
  if (ids.shape().size() != 2)
    return invalid("The ids of operator 'EmbedLayerNormalization' are {}; they must have rank 2.",
                   to_text(ids.shape()));
  for (const int operand : {kWords, kPositions, kScale, kBias}) {
    if (!node.has(operand))
      return invalid("Operand {} of operator 'EmbedLayerNormalization' is left out, but is not optional.", operand);
  }
  Tensor sum = rows_at(node.tensor(kWords), ids) + position_rows(node, ids);
  if (node.has(kSegments) && node.has(kSegmentTable))
    sum = sum + rows_at(node.tensor(kSegmentTable), node.tensor(kSegments));
  VKF_TRY(result, layer_normalised(sum, node.tensor(kScale), node.tensor(kBias), epsilon));
  // How many ids of each sequence count.
  const Tensor counts = node.has(kMask) ? op("ne", node.tensor(kMask), 0).cast(DType::i32).sum({1})
                                        : filled({ids.shape()[0]}, Tensor::scalar(DType::i32, 0));
  return Outputs{result, counts, sum};
}

}  // namespace vkfuse::onnx

// Normalisations: a tensor centred and scaled by its own moments, or by moments that are given.
#include <algorithm>
#include <numeric>

#include "api/composites.hpp"
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {
namespace {

std::vector<int> axes_from(std::size_t first, std::size_t rank) {
  std::vector<int> axes(rank - std::min(first, rank));
  std::iota(axes.begin(), axes.end(), static_cast<int>(first));
  return axes;
}

/// The dtype in which statistics are computed; 16-bit floats have too few bits for them.
DType wide(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

Result<DType> stash_dtype(const NodeContext& node) {
  VKF_TRY(stated, node.attributes().integer("stash_type", pb::TensorProto::FLOAT));
  VKF_TRY(dtype, dtype_from(static_cast<int>(stated), "Attribute 'stash_type'"));
  if (is_float(dtype)) return dtype;
  return invalid("Attribute 'stash_type' is {}; it must be a float type.", name_of(dtype));
}

/// Of operand 1, and operand 2 if it is given.
NormOptions norm_options(const NodeContext& node, double epsilon, DType statistics) {
  NormOptions options{.epsilon = epsilon, .scale = node.tensor(1), .bias = {}, .statistics = statistics};
  if (node.has(2)) options.bias = node.tensor(2);
  return options;
}

struct Channels {
  Tensor scale, bias, mean, variance;
};

/// Per-channel operands 1 to 4 of BatchNormalization, lined up with axis 1.
Result<Channels> channels_of(const NodeContext& node) {
  if (node.tensor(0).shape().size() < 2) {
    // A vector is a batch of one channel.
    return Channels{node.tensor(1), node.tensor(2), node.tensor(3), node.tensor(4)};
  }
  VKF_TRY(scale, along_axis(node, 1, 1));
  VKF_TRY(bias, along_axis(node, 2, 1));
  VKF_TRY(mean, along_axis(node, 3, 1));
  VKF_TRY(variance, along_axis(node, 4, 1));
  return Channels{scale, bias, mean, variance};
}

Tensor batch_normalised(const Tensor& deviation, const Channels& channels, const Tensor& variance, double epsilon,
                        DType dtype) {
  return api::batch_normalised(deviation, variance,
                               {.epsilon = epsilon, .scale = channels.scale, .bias = channels.bias, .statistics = {}})
      .cast(dtype);
}

Outputs batch_normalised_by_given(const NodeContext& node, const Channels& channels, double epsilon) {
  const DType dtype = wide(node.dtype());
  const Tensor deviation = node.tensor(0).cast(dtype) - channels.mean.cast(dtype);
  return {batch_normalised(deviation, channels, channels.variance.cast(dtype), epsilon, node.dtype())};
}

/// The batch's own moments normalise, and are mixed into the running ones.
Outputs batch_normalised_by_own(const NodeContext& node, const Channels& channels, double epsilon, double momentum) {
  const DType dtype = wide(node.dtype());
  std::vector<int> axes = axes_from(2, node.tensor(0).shape().size());
  axes.insert(axes.begin(), 0);
  const Moments own = moments(node.tensor(0).cast(dtype), axes);
  const auto running = [&](int operand, const Tensor& current) {
    const Tensor& old = node.tensor(operand);
    const Tensor mixed = old.cast(dtype) * momentum + current.reshape(old.shape()) * (1 - momentum);
    return mixed.cast(old.dtype());
  };
  return {batch_normalised(own.deviation, channels, own.variance, epsilon, node.dtype()), running(3, own.mean),
          running(4, own.variance)};
}

}  // namespace

Result<Outputs> import_batch_normalization(const NodeContext& node) {
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  VKF_TRY(momentum, node.attributes().real("momentum", 0.9));
  VKF_TRY(spatial, node.attributes().integer("spatial", 1));
  if (spatial == 0) return unsupported("Statistics per element (attribute 'spatial' is 0) are not supported.");
  VKF_TRY(channels, channels_of(node));
  VKF_TRY(training, node.attributes().integer("training_mode", 0));
  // Before opset 14 training showed in the outputs, and in opset 6 in an attribute as well.
  VKF_TRY(is_test, node.attributes().integer("is_test", node.outputs() > 1 ? 0 : 1));
  if (node.opset() < 14 && (is_test == 0 || node.outputs() > 1)) {
    return unsupported("BatchNormalization in training mode is not supported before opset 14.");
  }
  if (training == 0) return batch_normalised_by_given(node, channels, epsilon);
  return batch_normalised_by_own(node, channels, epsilon, momentum);
}

Result<Outputs> import_layer_normalization(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, -1));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  VKF_TRY(stash, stash_dtype(node));
  const LayerNorm made = layer_norm_and_statistics(node.tensor(0), axis, norm_options(node, epsilon, stash));
  return Outputs{made.result, made.mean, made.inverse_deviation};
}

Result<Outputs> import_rms_normalization(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, -1));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  VKF_TRY(stash, stash_dtype(node));
  return Outputs{rms_norm(node.tensor(0), axis, norm_options(node, epsilon, stash))};
}

Result<Outputs> import_instance_normalization(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  for (const int operand : {1, 2}) VKF_CHECK_OK(along_axis(node, operand, 1));
  return Outputs{instance_norm(node.tensor(0), norm_options(node, epsilon, wide(node.dtype())))};
}

Result<Outputs> import_group_normalization(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  if (!node.attributes().has("num_groups")) return invalid("Attribute 'num_groups' is missing.");
  VKF_TRY(groups, node.attributes().integer("num_groups", 1));
  VKF_TRY(epsilon, node.attributes().real("epsilon", 1e-5));
  VKF_TRY(stash, stash_dtype(node));
  const Tensor& x = node.tensor(0);
  const Shape& shape = x.shape();
  VKF_TRY(channels, static_size(shape, 1));
  if (groups < 1 || channels % groups != 0) {
    return invalid("Attribute 'num_groups' is {}; it must divide the {} channels.", groups, channels);
  }
  if (node.opset() >= 21) {
    for (const int operand : {1, 2}) VKF_CHECK_OK(along_axis(node, operand, 1));
    return Outputs{group_norm(x, groups, norm_options(node, epsilon, stash))};
  }
  // Opsets 18 to 20 have one scale per group.
  const Tensor normalised = group_norm(x, groups, {.epsilon = epsilon, .scale = {}, .bias = {}, .statistics = stash})
                                .reshape({shape[0], groups, Dim(-1)});
  const Tensor scale = node.tensor(1).reshape({groups, 1});
  const Tensor bias = node.tensor(2).reshape({groups, 1});
  return Outputs{(normalised * scale + bias).reshape(shape)};
}

Result<Outputs> import_mean_variance_normalization(const NodeContext& node) {
  VKF_TRY(stated, node.attributes().integers("axes"));
  if (!node.attributes().has("axes")) stated = {0, 2, 3};
  VKF_TRY(axes, checked_axes(stated, node.tensor(0).shape().size(), "An axis of attribute 'axes'"));
  const Tensor& x = node.tensor(0);
  const Moments own = moments(x.cast(wide(x.dtype())), axes);
  constexpr double kEpsilon = 1e-9;  // of the deviation, not the variance: ONNX's own definition
  return Outputs{(own.deviation / (op("sqrt", own.variance) + kEpsilon)).cast(x.dtype())};
}

Result<Outputs> import_lp_normalization(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, -1));
  VKF_TRY(p, node.attributes().integer("p", 2));
  if (p != 1 && p != 2) return invalid("Attribute 'p' is {}; it must be 1 or 2.", p);
  const Tensor& x = node.tensor(0);
  const Tensor norm = p == 1 ? op("abs", x).sum({axis}, true) : op("sqrt", (x * x).sum({axis}, true));
  // A vector of zeros stays one.
  return Outputs{x / select(op("eq", norm, 0), Tensor::scalar(x.dtype(), 1), norm)};
}

Result<Outputs> import_lrn(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  if (!node.attributes().has("size")) return invalid("Attribute 'size' is missing.");
  VKF_TRY(size, node.attributes().integer("size", 1));
  VKF_TRY(alpha, node.attributes().real("alpha", 1e-4));
  VKF_TRY(beta, node.attributes().real("beta", 0.75));
  VKF_TRY(bias, node.attributes().real("bias", 1));
  constexpr std::int64_t kMost = 1 << 24;
  if (size < 1 || size > kMost) return invalid("Attribute 'size' is {}; it must be 1 to {}.", size, kMost);
  const Tensor& x = node.tensor(0);
  std::vector<std::int64_t> low(x.shape().size()), high(x.shape().size());
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  const Tensor squares = (x * x).pad(low, high).unfold(1, size).sum({-1});
  return Outputs{x / op("pow", squares * (alpha / static_cast<double>(size)) + bias, beta)};
}

}  // namespace vkfuse::onnx

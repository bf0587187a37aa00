// Activation functions, written so that no intermediate overflows where the result does not.
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::onnx {
namespace {

Tensor is_negative(const Tensor& x) { return op("lt", x, 0); }

}  // namespace

Result<Outputs> import_celu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  if (alpha == 0) return invalid("Attribute 'alpha' is 0; Celu divides by it.");
  const Tensor& x = node.tensor(0);
  // What is not taken has a finite slope, as in elu().
  const Tensor below = alpha > 0 ? op("min", x / alpha, 0) : x / alpha;
  return Outputs{op("max", x, 0) + op("min", op("expm1", below) * alpha, 0)};
}

Result<Outputs> import_elu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  return Outputs{elu(node.tensor(0), alpha)};
}

Result<Outputs> import_gelu(const NodeContext& node) {
  VKF_TRY(approximate, node.attributes().text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return invalid("Attribute 'approximate' is {}; it must be 'none' or 'tanh'.", in_quotes(approximate));
  }
  return Outputs{gelu(node.tensor(0), approximate == "tanh" ? GeluForm::tanh : GeluForm::erf)};
}

Result<Outputs> import_hard_sigmoid(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 0.2));
  VKF_TRY(beta, node.attributes().real("beta", 0.5));
  return Outputs{hard_sigmoid(node.tensor(0), alpha, beta)};
}

Result<Outputs> import_hard_swish(const NodeContext& node) { return Outputs{hard_swish(node.tensor(0))}; }

Result<Outputs> import_leaky_relu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 0.01));
  return Outputs{leaky_relu(node.tensor(0), alpha)};
}

Result<Outputs> import_mish(const NodeContext& node) { return Outputs{mish(node.tensor(0))}; }

Result<Outputs> import_prelu(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  const Tensor& slope = node.tensor(1);
  if (slope.valid() && x.valid() && slope.shape().size() > x.shape().size()) {
    return invalid("The slope has rank {}, more than the input's rank {}: it cannot stretch the input.",
                   slope.shape().size(), x.shape().size());
  }
  if (is_integer(x.dtype()) && !is_signed_integer(x.dtype())) return Outputs{x};  // never below zero
  return Outputs{select(is_negative(x), x * slope, x)};
}

Result<Outputs> import_prelu_6(const NodeContext& node) {
  // One slope for all, or one per channel.
  const Tensor& x = node.tensor(0);
  const bool is_shared = node.tensor(1).shape().empty() || node.tensor(1).shape() == Shape{1};
  if (is_shared || x.shape().size() < 2) return Outputs{select(is_negative(x), x * node.tensor(1), x)};
  VKF_TRY(slope, along_axis(node, 1, 1));
  return Outputs{select(is_negative(x), x * slope, x)};
}

Result<Outputs> import_selu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1.67326319217681884765625));
  VKF_TRY(gamma, node.attributes().real("gamma", 1.05070102214813232421875));
  const Tensor& x = node.tensor(0);
  return Outputs{elu(x, alpha) * gamma};
}

Result<Outputs> import_shrink(const NodeContext& node) {
  VKF_TRY(bias, node.attributes().real("bias", 0));
  VKF_TRY(lambda, node.attributes().real("lambd", 0.5));
  const Tensor& x = node.tensor(0);
  const Tensor inside_or_low = select(op("lt", x, -lambda), x + bias, Tensor::scalar(x.dtype(), 0));
  return Outputs{select(op("gt", x, lambda), x - bias, inside_or_low)};
}

Result<Outputs> import_softplus(const NodeContext& node) { return Outputs{softplus(node.tensor(0))}; }

Result<Outputs> import_softsign(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  return Outputs{x / (1.0 + op("abs", x))};
}

Result<Outputs> import_swish(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  const Tensor& x = node.tensor(0);
  return Outputs{x * op("sigmoid", x * alpha)};
}

Result<Outputs> import_swiglu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  if (node.tensor(0).shape() != node.tensor(1).shape()) {
    return invalid("The operands of operator 'SwiGLU' are {} and {}; they must be equal.",
                   to_text(node.tensor(0).shape()), to_text(node.tensor(1).shape()));
  }
  const Tensor& x = node.tensor(0);
  return Outputs{x * op("sigmoid", x * alpha) * node.tensor(1)};
}

Result<Outputs> import_thresholded_relu(const NodeContext& node) {
  VKF_TRY(alpha, node.attributes().real("alpha", 1));
  const Tensor& x = node.tensor(0);
  return Outputs{select(op("gt", x, alpha), x, Tensor::scalar(x.dtype(), 0))};
}

}  // namespace vkfuse::onnx

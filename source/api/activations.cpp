// Activation functions, written so that no intermediate overflows where the result does not.
#include <numbers>

#include "api/composites.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

using api::with_number;

Tensor gelu(const Tensor& x, GeluForm form) {
  if (form == GeluForm::erf) return 0.5 * x * (1.0 + erf(x * (0.5 * std::numbers::sqrt2)));
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  return 0.5 * x * (1.0 + tanh((x + x * x * x * 0.044715) * scale));
}

Tensor softplus(const Tensor& x) {
  // The exponential of a negative number only. Both terms have a kink at 0, where the sum has none.
  return with_gradient(with_number("max", x, 0) + log1p(exp(-abs(x))), {x}, [](const GradientCall& call) {
    return std::vector{call.cotangent * sigmoid(call.operands[0])};
  });
}

Tensor mish(const Tensor& x) { return x * tanh(softplus(x)); }

Tensor hard_sigmoid(const Tensor& x, double alpha, double beta) {
  return with_number("min", with_number("max", x * alpha + beta, 0), 1);
}

Tensor hard_swish(const Tensor& x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }

Tensor elu(const Tensor& x, double alpha) {
  // Of numbers below 0 only: a slope that is infinite, times the 0 of what is not taken, would be NaN.
  return select(with_number("lt", x, 0), expm1(with_number("min", x, 0)) * alpha, x);
}

Tensor leaky_relu(const Tensor& x, double slope) { return select(with_number("lt", x, 0), x * slope, x); }

}  // namespace vkfuse

// Gradients, from graph to graph: the result is tensors like any others, which are compiled, fused and run together
// with what they were taken of. docs/gradients.md says what the gradient of each op is, also where there is no
// derivative.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// The product of a cotangent for each output with the Jacobian of the outputs: the gradient of
/// sum(cotangents[0] * outputs[0]) + sum(cotangents[1] * outputs[1]) + ... with respect to each of `wrt`, in its dtype
/// and shape.
///
///     Tensor loss = cross_entropy(linear(x, w), labels).mean();
///     std::vector<Tensor> g = gradients({loss}, {w});       // g[0] is a f32[in, out]
///     compile(device, {loss, w - g[0] * 0.1});
///
/// Outputs are floats; `wrt` are floats too, inputs or values on the way, and what does not lead to an output has zeros
/// for a gradient. Integers and booleans have no gradient, and none passes through them. `cotangents` has one tensor of
/// each output's dtype and shape; where it is empty they are ones, so that a scalar has its gradient and other outputs
/// that of the sum of their elements.
///
/// Gradients of gradients are taken the same way. Symbolic dimensions stay symbolic where the ops of the rules do.
/// Contributions are added up in the dtype of the value, sums inside a rule as the forward's are (16-bit floats in
/// f32). A tensor whose elements a stream has computed has forgotten its operands: nothing flows through it.
///
/// On a mistake every gradient is an invalid tensor whose error is one sentence: an output or a `wrt` that is no float,
/// a cotangent of another type, an op on the way without a gradient, by its name.
std::vector<Tensor> gradients(std::span<const Tensor> outputs, std::span<const Tensor> wrt,
                              std::span<const Tensor> cotangents = {});
std::vector<Tensor> gradients(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> wrt,
                              std::initializer_list<Tensor> cotangents = {});

/// x, but a constant to gradients(). Free: no kernel copies it.
Tensor stop_gradient(const Tensor& x);

/// What a rule of the user's is asked: for the gradient of each operand, given that of the result. Tensors are valid;
/// the cotangent has the dtype and shape of the result.
struct GradientCall {
  std::span<const Tensor> operands;
  const Tensor& result;
  const Tensor& cotangent;
};

/// One tensor for each operand, of its dtype and shape; what is returned for integers and booleans is not looked at.
/// The rule lives as long as a tensor that it was given to: it must not hold that tensor, or both live for ever.
using GradientRule = std::function<std::vector<Tensor>(const GradientCall& call)>;

/// `value`, which gradients() takes for a function of `operands` with this rule: how `value` was computed is not looked
/// at. For values that are computed in one way and differentiated in another.
///
///     // Rounded in the forward pass, the identity in the backward pass.
///     with_gradient(round(x), {x}, [](const GradientCall& call) { return std::vector{call.cotangent}; });
Tensor with_gradient(const Tensor& value, std::vector<Tensor> operands, GradientRule rule);

/// `value` with the gradient of x: straight through whatever made `value` of x, as rounding. Both have one dtype and
/// shape. With it, weights that are quantised and dequantised again are trained.
Tensor straight_through(const Tensor& value, const Tensor& x);

}  // namespace VKFUSE_PUBLIC

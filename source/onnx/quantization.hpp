// Linear quantisation: integers that stand for (integer - zero point) * scale.
#pragma once

#include "onnx/node_context.hpp"

namespace vkfuse::onnx {

/// Scale or zero point `operand` as a tensor that broadcasts against an integer tensor of `shape`: one number, one
/// per index of `axis`, or, where `block` is above 0, one for every `block` neighbours along the axis.
Result<Tensor> quantisation_operand(const NodeContext& node, int operand, const Shape& shape, std::int64_t axis,
                                    std::int64_t block = 0);

/// The integers of operand `integers` less their zero point (operand `zero_point`, may be absent), in i32: whole
/// numbers of steps. The zero point is one number, or one per index of `axis`.
Result<Tensor> steps_above_zero(const NodeContext& node, int integers, int zero_point, std::int64_t axis);

/// round(quotient) as i32; what is far beyond any 16-bit integer is clamped, so that a zero point can be added.
Tensor whole_steps(const Tensor& quotient);

/// An i32 clamped to an 8- or 16-bit dtype.
Tensor saturated(const Tensor& value, DType dtype);

/// Numbers as u8, by a scale and a zero point that their range decides.
struct DynamicSteps {
  Tensor integers, scale, zero_point;
};
DynamicSteps dynamic_steps(const Tensor& x);
/// By the range of all numbers, of which `x` are some.
DynamicSteps dynamic_steps(const Tensor& x, const Tensor& least, const Tensor& largest);
/// `x` as its steps stand for it, in its own dtype.
Tensor in_dynamic_steps(const Tensor& x, const DynamicSteps& steps);

}  // namespace vkfuse::onnx

// Shorthand for writing operators as formulas over vkfuse primitives.
#pragma once

#include <string_view>

#include "onnx/value.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::onnx {

inline Tensor op(std::string_view name, const Tensor& a) { return Tensor::apply(name, {a}); }
inline Tensor op(std::string_view name, const Tensor& a, const Tensor& b) { return Tensor::apply(name, {a, b}); }
/// The number is rounded to the tensor's dtype.
inline Tensor op(std::string_view name, const Tensor& a, double b) {
  return Tensor::apply(name, {a, Tensor::scalar(a.dtype(), b)});
}

/// A scalar stretched over a shape.
inline Tensor filled(const Shape& shape, const Tensor& scalar) { return scalar.broadcast_to(shape); }

}  // namespace vkfuse::onnx

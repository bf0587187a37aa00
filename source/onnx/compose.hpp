// Shorthand for writing operators as formulas over vkfuse primitives.
#pragma once

#include <string_view>

#include "onnx/value.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

inline Tensor op(std::string_view name, const Tensor& a) { return Tensor::apply(name, {a}); }
inline Tensor op(std::string_view name, const Tensor& a, const Tensor& b) { return Tensor::apply(name, {a, b}); }
/// The number is rounded to the tensor's dtype.
inline Tensor op(std::string_view name, const Tensor& a, double b) {
  return Tensor::apply(name, {a, Tensor::scalar(a.dtype(), b)});
}
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return Tensor::apply("select", {condition, a, b});
}

/// True at every position of a shape, without storing it. As the condition of `select` it stretches
/// any value over the shape bit-exactly, NaN included, which a product with ones would not.
Tensor everywhere(const Shape& shape);

/// A scalar stretched over a shape.
Tensor filled(const Shape& shape, const Tensor& scalar);

}  // namespace vkfuse::onnx

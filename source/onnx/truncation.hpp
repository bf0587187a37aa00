// Floats that become integers by cutting off what follows the point, as ONNX's operators on integers do.
#pragma once

#include "onnx/compose.hpp"

namespace vkfuse::onnx {

/// Computed floats in the operator's dtype. A cast truncates, so an exact integer that kernels miss from below by their
/// own error would lose 1: what is that close to an integer is that integer. `terms` is how large the numbers are that
/// the result is a sum of, as the error is one of theirs.
inline Tensor truncated_to(DType dtype, const Tensor& x, double terms = 1) {
  if (is_float(dtype) || !is_float(x.dtype())) return x.cast(dtype);
  const double slack = x.dtype() == DType::f64 ? 0x1p-48 : 0x1p-18;
  const Tensor nearest = op("round", x);
  const Tensor size = op("max", op("abs", nearest), terms);
  return select(op("le", op("abs", x - nearest), size * slack), nearest, x).cast(dtype);
}

/// Elements of images: as large as a byte.
inline constexpr double kLargestByte = 256;

}  // namespace vkfuse::onnx

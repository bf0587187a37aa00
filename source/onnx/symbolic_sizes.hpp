// Sizes that only a run tells, as values: what a model computes from the shapes of its inputs stays symbolic.
#pragma once

#include <optional>
#include <vector>

#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

/// A dimension as a scalar of i64. Of a symbol it is a program that counts, which runs only where somebody reads the
/// number.
Tensor size_tensor(const Dim& dim);

/// The elements of an integer tensor of rank 0 or 1 as dimensions: numbers, which may be negative, and symbols. Nothing
/// for an element that is neither, such as a product of symbols, and for whatever is not computed from sizes alone.
std::vector<std::optional<Dim>> symbolic_elements(const Tensor& tensor);

}  // namespace vkfuse::onnx

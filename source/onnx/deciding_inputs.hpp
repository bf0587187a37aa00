// Inputs whose elements decide shapes, conditions or counts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "vkfuse/tensor.hpp"

namespace vkfuse::onnx {

/// The inputs that these tensors are computed from, by name, of those that may become constants so that the tensors are
/// known: integers and booleans, and floats that are one number, or are read as they are; up to kMaxComputedElements.
/// Floats that something was computed from are data, which is the device's.
std::vector<std::string> inputs_that_decide(std::span<const Tensor> asked);

/// Whether elements of this shape may be as few as those of shapes and conditions are: up to kMaxComputedElements. Of
/// symbolic sizes the smallest may be: elements are counted where they are given.
bool may_be_few(const Shape& shape);

}  // namespace vkfuse::onnx

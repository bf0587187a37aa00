// Constant folding while the graph is being imported: what depends on no input is computed on the host,
// so that shapes, axes and bounds that a model computes are there when an operator asks for them.
#pragma once

#include "onnx/value.hpp"

namespace vkfuse::onnx {

/// The value itself, or, where it is small and computed from constants alone, a constant with its
/// elements known. Whatever the operator: the reference evaluates the graph that its import wrote down.
Value folded(Value value);

}  // namespace vkfuse::onnx

// Constant folding while the graph is being imported: what depends on no input is computed on the host,
// so that shapes, axes and bounds that a model computes are there when an operator asks for them.
#pragma once

#include <span>

#include "onnx/value.hpp"

namespace vkfuse::onnx {

/// The value itself, or, where it is small and computed from constants alone, a constant with its
/// elements known. Whatever the operator: the reference evaluates the graph that its import wrote down.
/// `operands` (null where one is left out) are what the value was computed from: those that are not known
/// are not looked behind.
Value folded(Value value, std::span<const Value* const> operands = {});

}  // namespace vkfuse::onnx

// What a name in the model stands for while the graph is being imported.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "onnx/narrow_types.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Larger constants are weights, which no operator needs to read on the host: keeping them a second
/// time would double the memory of a model.
inline constexpr std::size_t kMaxKnownElements = 1 << 16;
/// The same for values computed during import: a node of a few bytes must not be able to take
/// megabytes. Shapes, axes and bounds are far smaller.
inline constexpr std::size_t kMaxComputedElements = 1024;

/// Not of one part: constants are wherever they are read.
inline constexpr int kFixed = -1;

/// A tensor of the program, and its elements where they are known at import: initialisers,
/// Constant nodes, static shapes and what is computed from them. Shape operands are read from there.
struct Value {
  Tensor tensor;
  std::shared_ptr<const TensorData> known;
  /// The model's type, where the tensor holds elements of it; null where its dtype is the model's.
  const NarrowType* narrow = nullptr;
  bool is_none = false;  ///< an optional without an element: whoever reads it finds no operand
  bool pending = false;  ///< waits for what the host computes; `tensor` is then invalid
  /// The part of the model whose kernels compute the tensor; kFixed for what depends on no input.
  int part = kFixed;
  /// The elements, where the name stands for a sequence; `tensor` is then invalid.
  std::shared_ptr<const std::vector<Value>> sequence;

  Value(Tensor value) : tensor(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(Tensor value, std::optional<TensorData> elements) : tensor(std::move(value)) {
    if (elements) known = std::make_shared<const TensorData>(*std::move(elements));
  }
};

/// A sequence of tensors; an error where one of them is none, or where there are too many.
Result<Value> sequence_value(std::vector<Value> elements);
Result<void> check_sequence_length(std::size_t length);

/// An optional without an element.
Value none_value();

/// What stands for a value that only comes to be once the host has run.
Value pending_value();

/// Whether elements only come to be when the program runs.
bool varies(const Value& value);

/// A constant as a value; its elements stay known unless there are too many.
Value constant_value(TensorData data);

}  // namespace vkfuse::onnx

// Reading the operands and attributes that decide axes, sizes and positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/shape.hpp"
#include "onnx/node_context.hpp"

namespace vkfuse::onnx {

/// An axis counted from 0; `what` says whose it is where it lies outside the rank.
Result<int> checked_axis(std::int64_t axis, std::size_t rank, std::string_view what);
/// The same for a list; an axis that is listed twice is an error.
Result<std::vector<int>> checked_axes(const std::vector<std::int64_t>& axes, std::size_t rank, std::string_view what);
/// The integer attribute 'axis' as an axis of the first operand.
Result<int> axis_attribute(const NodeContext& node, std::int64_t otherwise);

/// A list that older opsets state as an attribute and newer ones as an operand, whose value must then be
/// known; nothing where neither is given. The row of the opset says which of the two it takes.
Result<std::optional<std::vector<std::int64_t>>> stated_list(const NodeContext& node, std::string_view attribute,
                                                             int operand);
/// The only element of a known integer operand.
Result<std::int64_t> known_integer(const NodeContext& node, int operand, std::string_view what);

/// One dimension as a number; a symbol is an error that says how to give it a size.
Result<std::int64_t> static_size(const Shape& shape, std::size_t axis);
Result<Sizes> static_sizes(const Shape& shape);
/// The product of the sizes from axis `first` up to `last`, exclusive.
Result<std::int64_t> static_count(const Shape& shape, std::size_t first, std::size_t last);

/// Those dimensions as one: a number, the only symbol among ones, or -1 for Tensor::reshape to work out.
Dim merged(const Shape& shape, std::size_t first, std::size_t last);

Result<void> check_rank(const NodeContext& node, int operand, std::size_t least);

/// A vector operand with one number per index of `axis` of the first operand, shaped so that it lines up
/// with that axis when it broadcasts.
Result<Tensor> along_axis(const NodeContext& node, int operand, int axis);

/// Sizes from a shape operand, refused where they cannot be sizes.
Result<Sizes> known_sizes(const NodeContext& node, int operand);

/// The same where symbols may stand among the sizes.
Result<Shape> known_shape(const NodeContext& node, int operand);

inline Shape to_shape(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

}  // namespace vkfuse::onnx

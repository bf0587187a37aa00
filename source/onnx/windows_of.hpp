// Sliding windows over the spatial axes: what pooling operators and convolutions state about them.
#pragma once

#include <vector>

#include "api/windows.hpp"
#include "onnx/node_context.hpp"

namespace vkfuse::onnx {

using api::AxisWindows;
using api::in_windows;
using api::kFarthest;
using api::last_axes;

/// Windows over axes 2, 3, ... of the first operand, from the attributes kernel_shape, strides,
/// dilations, pads, auto_pad and ceil_mode.
Result<std::vector<AxisWindows>> windows_of(const NodeContext& node);

/// The same for windows of these sizes, which kernel_shape must repeat where it is stated. The first operand has two
/// more axes.
Result<std::vector<AxisWindows>> windows_over(const NodeContext& node, const std::vector<std::int64_t>& sizes);

/// The sizes that pooling with these windows would have had as its input: what MaxUnpool makes.
Result<std::vector<std::int64_t>> unpooled_sizes(const NodeContext& node);

/// Col2Im's blocks (operand 2), as windows over an image of these sizes.
Result<std::vector<AxisWindows>> blocks_of(const NodeContext& node, const std::vector<std::int64_t>& image);

}  // namespace vkfuse::onnx

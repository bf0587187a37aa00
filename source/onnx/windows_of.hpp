// Sliding windows over the spatial axes: what pooling operators and convolutions state about them.
#pragma once

#include <vector>

#include "onnx/node_context.hpp"

namespace vkfuse::onnx {

/// Sizes and distances are no larger: products and sums of a few stay far from overflow.
inline constexpr std::int64_t kFarthest = std::int64_t{1} << 30;

/// The windows along one axis of `input` elements.
struct AxisWindows {
  std::int64_t input = 0;
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t low = 0;    ///< elements of padding before the axis
  std::int64_t high = 0;   ///< and after it, as stated
  std::int64_t count = 0;  ///< how many windows there are

  /// Elements from the first to the last of one window, both included.
  [[nodiscard]] std::int64_t extent() const { return (size - 1) * dilation + 1; }
  /// Padding after the axis such that exactly `count` windows fit; negative where the last elements are
  /// in no window, more than `high` where rounding up lets the last window hang over.
  [[nodiscard]] std::int64_t overhang() const { return (count - 1) * stride + extent() - input - low; }
};

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

/// The tensor padded with `fill` and cut into these windows: the window's axes come last, in order.
Tensor in_windows(const Tensor& x, const std::vector<AxisWindows>& windows, double fill);

/// The last `count` axes, counted from -1 backwards.
std::vector<int> last_axes(std::size_t count);

}  // namespace vkfuse::onnx

// Sliding windows over spatial axes, and what pooling makes of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::api {

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

/// As many windows as fit the axis with its padding, the last one hanging over where they are rounded up: sets `count`,
/// which stays 0 where none fits.
void place(AxisWindows& axis, bool round_up);

/// The tensor padded with `fill` and cut into these windows: the window's axes come last, in order.
Tensor in_windows(const Tensor& x, const std::vector<AxisWindows>& windows, double fill);

/// The last `count` axes, counted from -1 backwards.
std::vector<int> last_axes(std::size_t count);

/// The largest elements of windows over axes 2, 3, ... of x, and where the first of each is in x, as i64.
Result<MaxPool> max_pooled(const Tensor& x, const std::vector<AxisWindows>& windows, bool column_major,
                           bool with_positions);
Result<Tensor> average_pooled(const Tensor& x, const std::vector<AxisWindows>& windows, bool count_padding);

}  // namespace vkfuse::api

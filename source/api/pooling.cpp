// Pooling: a reduction over windows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "api/composites.hpp"
#include "api/known_positions.hpp"
#include "api/windows.hpp"
#include "base/shape.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::api {

namespace {

Result<std::vector<std::int64_t>> sizes_of(const Tensor& x) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : x.shape()) {
    if (dim.is_symbol())
      return unsupported("Positions in {} are counted through it, whose sizes are not all numbers.", text_of_type(x));
    sizes.push_back(dim.size());
  }
  return sizes;
}

/// What padding holds, so that it is never the largest.
double lowest(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return is_signed_integer(dtype) ? -std::ldexp(1.0, 8 * size_of(dtype) - 1) : 0;
}

/// A shape of ones with one size in it.
Shape only(std::size_t rank, std::size_t axis, Dim size) {
  Shape shape(rank, Dim(1));
  shape[axis] = std::move(size);
  return shape;
}

/// How far apart neighbours along each axis are in the numbering of MaxPool's indices: row-major, or
/// with the spatial axes the other way round.
std::vector<std::int64_t> index_strides(const std::vector<std::int64_t>& sizes, bool column_major) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (column_major) std::reverse(order.begin() + 2, order.end());
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= sizes[*axis];
  }
  return strides;
}

/// Where in the input the largest element of each window is.
Result<Tensor> largest_positions(const Tensor& x, const std::vector<AxisWindows>& windows, bool column_major,
                                 const Tensor& elements) {
  VKF_TRY(sizes, sizes_of(x));
  VKF_TRY(count, vkfuse::element_count(sizes));
  const std::size_t rank = sizes.size();
  const DType dtype = position_dtype(count);
  const std::vector<std::int64_t> strides = index_strides(sizes, column_major);
  std::int64_t window = 1;
  Shape flat{sizes[0], sizes[1]};
  for (const AxisWindows& axis : windows) {
    window *= axis.size;
    flat.push_back(axis.count);
  }
  flat.push_back(window);
  const auto number = [dtype](std::int64_t value) { return Tensor::scalar_int(dtype, value); };
  Tensor element = elements.reshape(flat).argmax(-1).cast(dtype);
  Tensor position = Tensor::iota(dtype, only(rank, 0, sizes[0]), 0) * number(strides[0]) +
                    Tensor::iota(dtype, only(rank, 1, sizes[1]), 1) * number(strides[1]);
  for (std::size_t i = windows.size(); i-- > 0;) {
    const AxisWindows& axis = windows[i];
    const Tensor first =
        Tensor::iota(dtype, only(rank, i + 2, axis.count), static_cast<int>(i) + 2) * number(axis.stride) -
        number(axis.low);
    const Tensor at = first + mod(element, number(axis.size)) * number(axis.dilation);
    // A window of nothing but -infinity may find its largest in the padding.
    const Tensor inside = min(max(at, number(0)), number(axis.input - 1));
    position = position + inside * number(strides[i + 2]);
    element = element / number(axis.size);
  }
  return position.cast(DType::i64);
}

/// How many elements each window averages over, along one axis; one number if it is the same everywhere.
Result<std::vector<double>> averaged(const AxisWindows& axis, bool count_padding) {
  const std::int64_t begin = count_padding ? -axis.low : 0;
  const std::int64_t end = axis.input + (count_padding ? axis.high : 0);
  const auto rounded_up = [&](std::int64_t distance) {
    return distance <= 0 ? 0 : std::min((distance + axis.dilation - 1) / axis.dilation, axis.size);
  };
  const auto inside = [&](std::int64_t window) {
    const std::int64_t first = window * axis.stride - axis.low;
    return static_cast<double>(std::max<std::int64_t>(rounded_up(end - first) - rounded_up(begin - first), 1));
  };
  const bool is_inside = begin <= -axis.low && axis.overhang() <= end - axis.input;
  if (is_inside) return std::vector<double>{inside(0)};
  if (axis.count > kMostPositions) {
    return unsupported("There are {} windows along one axis, more than the {} that are supported where some hang over.",
                       axis.count, kMostPositions);
  }
  std::vector<double> counts;
  for (std::int64_t window = 0; window < axis.count; ++window) counts.push_back(inside(window));
  return counts;
}

}  // namespace

void place(AxisWindows& axis, bool round_up) {
  const std::int64_t room = axis.input + axis.low + axis.high - axis.extent();
  if (room < 0) return;  // no window fits
  axis.count = (round_up ? (room + axis.stride - 1) / axis.stride : room / axis.stride) + 1;
  // A window that would start in the padding behind the axis holds nothing of it.
  if (round_up && (axis.count - 1) * axis.stride >= axis.input + axis.low) --axis.count;
}

Tensor in_windows(const Tensor& x, const std::vector<AxisWindows>& windows, double fill) {
  std::vector<std::int64_t> low(windows.size() + 2), high(windows.size() + 2);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    low[i + 2] = windows[i].low;
    high[i + 2] = windows[i].overhang();
  }
  const bool pads = std::ranges::any_of(low, [](std::int64_t n) { return n != 0; }) ||
                    std::ranges::any_of(high, [](std::int64_t n) { return n != 0; });
  Tensor result = pads ? x.pad(low, high, fill) : x;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    result = result.unfold(static_cast<int>(i) + 2, windows[i].size, windows[i].stride, windows[i].dilation);
  }
  return result;
}

std::vector<int> last_axes(std::size_t count) {
  std::vector<int> axes;
  for (int axis = -static_cast<int>(count); axis < 0; ++axis) axes.push_back(axis);
  return axes;
}

Result<MaxPool> max_pooled(const Tensor& x, const std::vector<AxisWindows>& windows, bool column_major,
                           bool with_positions) {
  const Tensor elements = in_windows(x, windows, lowest(x.dtype()));
  MaxPool made{elements.max(last_axes(windows.size())), elements};
  if (!with_positions) return made;
  VKF_TRY(positions, largest_positions(x, windows, column_major, elements));
  made.positions = std::move(positions);
  return made;
}

Result<Tensor> average_pooled(const Tensor& x, const std::vector<AxisWindows>& windows, bool count_padding) {
  const DType dtype = x.dtype() == DType::f64 ? x.dtype() : DType::f32;
  Tensor result = in_windows(x.cast(dtype), windows, 0).sum(last_axes(windows.size()));
  double everywhere = 1;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    VKF_TRY(counts, averaged(windows[i], count_padding));
    if (counts.size() == 1) {
      everywhere *= counts[0];
    } else {
      const Shape shape = only(windows.size() - i, 0, static_cast<std::int64_t>(counts.size()));
      result = result / real_constant(counts, shape, dtype);
    }
  }
  return (result / everywhere).cast(x.dtype());
}

namespace {

Result<std::int64_t> entry_of(std::string_view name, const std::vector<std::int64_t>& list, std::size_t axis,
                              std::size_t count, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  if (list.size() != count)
    return invalid("A pool over {} spatial axes has {} {}, not one for each.", count, list.size(), name);
  if (list[axis] < otherwise || list[axis] > kFarthest)
    return invalid("A pool has {} in its {}, where entries are {} to {}.", list[axis], name, otherwise, kFarthest);
  return list[axis];
}

Result<std::vector<AxisWindows>> windows_of_pool(const Tensor& x, const PoolOptions& options) {
  if (!x.valid()) return Error(x.error());
  const std::size_t count = options.sizes.size();
  if (count == 0 || x.shape().size() != count + 2) {
    return invalid(
        "A pool takes a tensor of [batch, channels, spatial...] with a window's size for each spatial axis, "
        "but it is given {} and {} sizes.",
        text_of_type(x), count);
  }
  std::vector<AxisWindows> windows;
  for (std::size_t i = 0; i < count; ++i) {
    AxisWindows axis;
    const Dim& input = x.shape()[i + 2];
    if (input.is_symbol() || input.size() > kFarthest)
      return invalid("A pool needs a number up to {} for axis {} of {}.", kFarthest, i + 2, text_of_type(x));
    axis.input = input.size();
    VKF_TRY(size, entry_of("sizes", options.sizes, i, count, 1));
    VKF_TRY(stride, entry_of("strides", options.strides, i, count, 1));
    VKF_TRY(dilation, entry_of("dilations", options.dilations, i, count, 1));
    VKF_TRY(low, entry_of("elements of padding before an axis", options.low, i, count, 0));
    VKF_TRY(high, entry_of("elements of padding after an axis", options.high, i, count, 0));
    axis.size = size;
    axis.stride = stride;
    axis.dilation = dilation;
    axis.low = low;
    axis.high = high;
    place(axis, options.round_up);
    if (axis.count == 0) {
      return invalid("A window over {} elements does not fit axis {} of {} elements and {} of padding.", axis.extent(),
                     i + 2, axis.input, low + high);
    }
    windows.push_back(axis);
  }
  return windows;
}

Result<MaxPool> largest_of(const Tensor& x, const PoolOptions& options, bool with_positions) {
  VKF_TRY(windows, windows_of_pool(x, options));
  return max_pooled(x, windows, options.column_major, with_positions);
}

Result<Tensor> average_of(const Tensor& x, const PoolOptions& options) {
  VKF_TRY(windows, windows_of_pool(x, options));
  if (!is_float(x.dtype())) return invalid("'average_pool' takes floats, but it is given {}.", text_of_type(x));
  return average_pooled(x, windows, options.count_padding);
}

}  // namespace

}  // namespace vkfuse::api

namespace vkfuse {

MaxPool max_pool_and_positions(const Tensor& x, const PoolOptions& options) {
  Result<MaxPool> made = api::largest_of(x, options, true);
  if (made) return *std::move(made);
  const Tensor none = Tensor::failed(std::move(made).error());
  return {none, none};
}

Tensor max_pool(const Tensor& x, const PoolOptions& options) {
  Result<MaxPool> made = api::largest_of(x, options, false);
  return made ? made->result : Tensor::failed(std::move(made).error());
}

Tensor average_pool(const Tensor& x, const PoolOptions& options) { return api::or_failed(api::average_of(x, options)); }

}  // namespace vkfuse

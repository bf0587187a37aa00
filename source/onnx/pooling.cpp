// Pooling: a reduction over windows, or over all spatial axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/windows_of.hpp"

namespace vkfuse::onnx {
namespace {

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
std::vector<std::int64_t> index_strides(const Sizes& sizes, bool column_major) {
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
Result<Tensor> largest_positions(const NodeContext& node, const std::vector<AxisWindows>& windows,
                                 const Tensor& elements) {
  VKF_TRY(column_major, node.attributes().integer("storage_order", 0));
  VKF_TRY(sizes, static_sizes(node.tensor(0).shape()));
  VKF_TRY(count, vkfuse::element_count(sizes));
  const std::size_t rank = sizes.size();
  const DType dtype = position_dtype(count);
  const std::vector<std::int64_t> strides = index_strides(sizes, column_major != 0);
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
    const Tensor at = first + op("mod", element, number(axis.size)) * number(axis.dilation);
    // A window of nothing but -infinity may find its largest in the padding.
    const Tensor inside = op("min", op("max", at, number(0)), number(axis.input - 1));
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

Tensor powered(const Tensor& x, double p) {
  const Tensor magnitude = op("abs", x);
  return p == 1 ? magnitude : p == 2 ? x * x : op("pow", magnitude, p);
}

Tensor root(const Tensor& sum, double p) { return p == 1 ? sum : p == 2 ? op("sqrt", sum) : op("pow", sum, 1 / p); }

Result<double> norm_order(const NodeContext& node) {
  VKF_TRY(p, node.attributes().integer("p", 2));
  if (p < 1) return invalid("Attribute 'p' is {}; it must be at least 1.", p);
  return static_cast<double>(p);
}

/// Axes 2, 3, ... of the input.
Result<std::vector<int>> spatial_axes(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  std::vector<int> axes(node.tensor(0).shape().size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

}  // namespace

Result<Outputs> import_max_pool(const NodeContext& node) {
  VKF_TRY(windows, windows_of(node));
  const Tensor elements = in_windows(node.tensor(0), windows, lowest(node.dtype()));
  Outputs outputs{elements.max(last_axes(windows.size()))};
  if (node.outputs() > 1) {
    VKF_TRY(positions, largest_positions(node, windows, elements));
    outputs.emplace_back(std::move(positions));
  }
  return outputs;
}

Result<Outputs> import_average_pool(const NodeContext& node) {
  VKF_TRY(windows, windows_of(node));
  VKF_TRY(count_padding, node.attributes().integer("count_include_pad", 0));
  const Tensor& x = node.tensor(0);
  const DType dtype = x.dtype() == DType::f64 ? x.dtype() : DType::f32;
  Tensor result = in_windows(x.cast(dtype), windows, 0).sum(last_axes(windows.size()));
  double everywhere = 1;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    VKF_TRY(counts, averaged(windows[i], count_padding != 0));
    if (counts.size() == 1) {
      everywhere *= counts[0];
    } else {
      const Shape shape = only(windows.size() - i, 0, static_cast<std::int64_t>(counts.size()));
      result = result / real_constant(counts, shape, dtype);
    }
  }
  return Outputs{(result / everywhere).cast(x.dtype())};
}

Result<Outputs> import_lp_pool(const NodeContext& node) {
  VKF_TRY(windows, windows_of(node));
  VKF_TRY(p, norm_order(node));
  return Outputs{root(in_windows(powered(node.tensor(0), p), windows, 0).sum(last_axes(windows.size())), p)};
}

Result<Outputs> import_global_pool(const NodeContext& node) {
  VKF_TRY(axes, spatial_axes(node));
  if (axes.empty()) return Outputs{node.value(0)};
  return Outputs{node.tensor(0).reduce(node.row().primitive, axes, true)};
}

Result<Outputs> import_global_lp_pool(const NodeContext& node) {
  VKF_TRY(axes, spatial_axes(node));
  VKF_TRY(p, norm_order(node));
  const Tensor powers = powered(node.tensor(0), p);
  return Outputs{root(axes.empty() ? powers : powers.sum(axes, true), p)};
}

Result<Outputs> import_max_unpool(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  if (node.tensor(1).shape() != x.shape()) {
    return invalid("The input is {} and the indices {}; they must be equal.", to_text(x.shape()),
                   to_text(node.tensor(1).shape()));
  }
  VKF_TRY(sizes, unpooled_sizes(node));
  VKF_TRY(count, vkfuse::element_count(sizes));
  VKF_TRY(indices, positions(node.value(1), count));
  const Tensor zeros = filled({count}, Tensor::scalar(x.dtype(), 0));
  const Tensor result = zeros.scatter(indices.reshape({Dim(-1)}), x.reshape({Dim(-1)})).reshape(to_shape(sizes));
  if (!node.has(2)) return Outputs{result};
  // The indices count in the shape that the windows give; a larger one is filled up behind it.
  VKF_TRY(stated, known_sizes(node, 2));
  std::vector<std::int64_t> more;
  for (std::size_t i = 0; i < stated.size() && i < sizes.size(); ++i) more.push_back(stated[i] - sizes[i]);
  const bool is_larger = stated.size() == sizes.size() && std::ranges::all_of(more, [](auto n) { return n >= 0; });
  if (!is_larger) {
    return invalid("The output shape is [{}]; the windows make [{}], which it must hold.", fmt::join(stated, ", "),
                   fmt::join(sizes, ", "));
  }
  return Outputs{result.pad(std::vector<std::int64_t>(sizes.size()), more)};
}

}  // namespace vkfuse::onnx

// Operators of images that are neither pooling nor resizing.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/known_values.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/windows_of.hpp"

namespace vkfuse::onnx {
namespace {

/// Position `axis` of an index space of this rank.
Tensor ramp(std::size_t rank, std::size_t axis, std::int64_t size) {
  Shape shape(rank, Dim(1));
  shape[axis] = size;
  return Tensor::iota(DType::i32, shape, static_cast<int>(axis));
}

/// The pixel that each element of each block belongs to, [block..., windows...]; behind the last pixel,
/// where scatter drops it, for those in the padding.
Tensor block_pixels(const std::vector<AxisWindows>& axes, std::int64_t pixels) {
  const std::size_t rank = 2 * axes.size();
  Tensor pixel = Tensor::scalar(DType::i32, 0);
  Tensor inside = Tensor::scalar(DType::boolean, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const AxisWindows& axis = axes[i];
    const auto number = [](std::int64_t value) { return Tensor::scalar_int(DType::i32, value); };
    const Tensor at = ramp(rank, i, axis.size) * number(axis.dilation) +
                      ramp(rank, axes.size() + i, axis.count) * number(axis.stride) - number(axis.low);
    inside = op("and", inside, op("and", op("ge", at, number(0)), op("lt", at, number(axis.input))));
    pixel = pixel * number(axis.input) + at;
  }
  return select(inside, pixel, Tensor::scalar_int(DType::i32, pixels));
}

/// Coordinates from -1 to 1 along one axis: of the corner pixels' centres, or of the image's edges.
Tensor coordinates(std::size_t rank, std::size_t axis, std::int64_t size, bool align_corners, DType dtype) {
  Shape shape(rank, Dim(1));
  shape[axis] = size;
  const Tensor index = Tensor::iota(dtype, shape, static_cast<int>(axis));
  const auto length = static_cast<double>(size);
  if (align_corners) return index * (size > 1 ? 2 / (length - 1) : 0) - 1.0;
  return index * (2 / length) + (1 / length - 1);
}

}  // namespace

Result<Outputs> import_col2im(const NodeContext& node) {
  VKF_TRY(image, known_sizes(node, 1));
  VKF_TRY(axes, blocks_of(node, image));
  std::int64_t block = 1, count = 1;
  for (const AxisWindows& axis : axes) {
    block *= axis.size;
    count *= axis.count;
  }
  VKF_TRY(pixels, vkfuse::element_count(image));
  const Shape& shape = node.tensor(0).shape();
  const bool fits =
      shape.size() == 3 && shape[2] == Dim(count) && !shape[1].is_symbol() && shape[1].size() % block == 0;
  if (!fits || pixels >= INT32_MAX) {
    return invalid("The input is {}; {} blocks of {} elements ask for [n, channels * {}, {}].", to_text(shape), count,
                   block, block, count);
  }
  const Dim channels = shape[1].size() / block;
  const Tensor rows = node.tensor(0).reshape({shape[0], channels, block, count}).permute({2, 3, 0, 1});
  Shape stretched;
  for (const AxisWindows& axis : axes) stretched.push_back(axis.size);
  for (const AxisWindows& axis : axes) stretched.push_back(axis.count);
  const Tensor pixel = block_pixels(axes, pixels).broadcast_to(stretched).reshape({block * count});
  const Tensor zeros = filled({pixels, shape[0], channels}, Tensor::scalar(node.dtype(), 0));
  const Tensor sums = zeros.scatter(folded(pixel).tensor, rows.reshape({block * count, shape[0], channels}), "add");
  Shape result{shape[0], channels};
  result.insert(result.end(), image.begin(), image.end());
  return Outputs{sums.permute({1, 2, 0}).reshape(result)};
}

Result<Outputs> import_affine_grid(const NodeContext& node) {
  VKF_TRY(size, known_sizes(node, 1));
  VKF_TRY(align_corners, node.attributes().integer("align_corners", 0));
  const std::size_t axes = std::max<std::size_t>(size.size(), 3) - 2;
  const Shape requested{Dim(size.empty() ? 0 : size[0]), static_cast<int>(axes), static_cast<int>(axes) + 1};
  if (size.size() < 4 || node.tensor(0).shape() != requested) {
    return invalid("Theta is {}; a grid for [{}] asks for {}.", to_text(node.tensor(0).shape()), fmt::join(size, ", "),
                   to_text(requested));
  }
  // Theta's rows along the last axis of the grid, its columns one by one: [n, 1..., axes].
  Shape lined_up(axes + 2, Dim(1));
  lined_up.front() = size[0];
  lined_up.back() = static_cast<int>(axes);
  const auto column = [&](std::size_t i) {
    return node.tensor(0).select(2, static_cast<std::int64_t>(i)).reshape(lined_up);
  };
  Tensor grid = column(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    // The first number of a position belongs to the innermost axis.
    const std::size_t axis = axes - 1 - i;
    grid = grid + coordinates(axes + 2, axis + 1, size[axis + 2], align_corners != 0, node.dtype()) * column(i);
  }
  return Outputs{grid};
}

}  // namespace vkfuse::onnx

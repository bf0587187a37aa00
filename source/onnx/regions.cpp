// Reading images at positions that are data: regions of interest and deformed convolutions.
#include <cmath>
#include <limits>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"
#include "onnx/windows_of.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

Tensor number(DType dtype, std::int64_t value) { return Tensor::scalar_int(dtype, value); }

/// Operands and attributes of RoiAlign.
struct RoiAlign {
  std::int64_t height = 1, width = 1;  ///< of the output
  std::int64_t samples = 0;            ///< along each side of a bin; 0: as many as the bin has pixels
  double scale = 1;
  bool half_pixel = true, takes_largest = false;
};

Result<RoiAlign> roi_align_of(const NodeContext& node) {
  constexpr std::int64_t kMost = 1 << 12;
  VKF_TRY(height, node.attributes().integer("output_height", 1));
  VKF_TRY(width, node.attributes().integer("output_width", 1));
  VKF_TRY(samples, node.attributes().integer("sampling_ratio", 0));
  VKF_TRY(scale, node.attributes().real("spatial_scale", 1));
  VKF_TRY(mode, node.attributes().text("mode", "avg"));
  VKF_TRY(transform, node.attributes().text("coordinate_transformation_mode",
                                            node.opset() < 16 ? "output_half_pixel" : "half_pixel"));
  if (height < 1 || height > kMost || width < 1 || width > kMost || samples < 0 || samples > kMost)
    return invalid("Regions of {} by {} with {} samples are not possible.", height, width, samples);
  if (mode != "avg" && mode != "max")
    return invalid("Attribute 'mode' is {}; it must be 'avg' or 'max'.", in_quotes(mode));
  if (transform != "half_pixel" && transform != "output_half_pixel") {
    return invalid("Attribute 'coordinate_transformation_mode' is {}; it must be 'half_pixel' or 'output_half_pixel'.",
                   in_quotes(transform));
  }
  return RoiAlign{height, width, samples, scale, transform == "half_pixel", mode == "max"};
}

/// The samples along one side of every region, [regions, bins * samples].
struct Side {
  Tensor low, high;   ///< i32, the neighbours of each sample within the image
  Tensor share;       ///< of the higher one
  Tensor counts;      ///< false outside the image, and for samples that a region does not have
  Tensor taken;       ///< how many samples of a bin a region has, [regions]
  std::int64_t each;  ///< how many there are room for
};

struct Along {
  std::int64_t bins, size;  ///< of the output, and of the image
  int first, last;          ///< where the region's ends stand among its four numbers
};

Side side_of(const NodeContext& node, const RoiAlign& how, const Along& along) {
  const Tensor rois = node.tensor(1).cast(DType::f32) * how.scale - (how.half_pixel ? 0.5 : 0.0);
  const Tensor begin = rois.slice(1, along.first, along.first + 1);  // [regions, 1]
  Tensor size = rois.slice(1, along.last, along.last + 1) - begin;
  if (!how.half_pixel) size = op("max", size, 1);
  const Tensor bin = size / static_cast<double>(along.bins);
  const std::int64_t each = how.samples > 0 ? how.samples : (along.size + along.bins - 1) / along.bins;
  const Shape ramp{1, along.bins * each};
  const Tensor index = Tensor::iota(DType::i32, ramp, 1);
  const Tensor in_bin = op("mod", index, number(DType::i32, each)).cast(DType::f32);
  Tensor taken = Tensor::scalar(DType::f32, static_cast<double>(each)).broadcast_to(begin.shape());
  // A region larger than the image would need more samples than there is room for: it has no result.
  if (how.samples == 0) {
    const Tensor needed = op("max", op("ceil", bin), 0);
    taken = select(op("le", needed, static_cast<double>(each)), needed,
                   Tensor::scalar(DType::f32, std::numeric_limits<double>::quiet_NaN()));
  }
  const Tensor which = (index / number(DType::i32, each)).cast(DType::f32);
  const Tensor at = begin + which * bin + (in_bin + 0.5) * bin / op("max", taken, 1);
  const auto last = static_cast<double>(along.size - 1);
  const Tensor is_near = op("and", op("ge", at, -1), op("le", at, static_cast<double>(along.size)));
  const Tensor inside = op("min", op("max", at, 0), last);
  const Tensor floor = op("floor", inside);
  const Tensor low = floor.cast(DType::i32);
  return {low,
          op("min", low + number(DType::i32, 1), number(DType::i32, along.size - 1)),
          inside - floor,
          op("and", is_near, op("lt", in_bin, taken)),
          taken,
          each};
}

/// [regions, bins * samples] of one side against [regions, channels, rows, samples, columns, samples].
Tensor laid_out(const Tensor& x, const Along& along, std::int64_t each, bool is_row) {
  const Dim& regions = x.shape()[0];
  return is_row ? x.reshape({regions, 1, along.bins, each, 1, 1}) : x.reshape({regions, 1, 1, 1, along.bins, each});
}

/// The sum, or the largest, of the four neighbours' shares at every sample.
Tensor sampled(const Tensor& image, const Tensor& first, const Side (&sides)[2], const Along (&alongs)[2],
               bool takes_largest) {
  const DType dtype = first.dtype();
  std::optional<Tensor> result;
  for (int corner = 0; corner < 4; ++corner) {
    Tensor position = first, weight = Tensor::scalar(DType::f32, 1);
    for (int i = 0; i < 2; ++i) {
      const bool is_high = (corner >> (1 - i) & 1) != 0;
      const Tensor at = laid_out(is_high ? sides[i].high : sides[i].low, alongs[i], sides[i].each, i == 0);
      const Tensor share = laid_out(sides[i].share, alongs[i], sides[i].each, i == 0);
      position = position + at.cast(dtype) * number(dtype, i == 0 ? alongs[1].size : 1);
      weight = weight * (is_high ? share : 1.0 - share);
    }
    const Tensor part = image.gather(position, 0) * weight;
    result = !result ? part : takes_largest ? op("max", *result, part) : *result + part;
  }
  return *result;
}

/// Which attributes a deformed convolution is made of: one entry per spatial axis.
struct Deformed {
  std::vector<AxisWindows> windows;
  std::int64_t groups = 1, offset_groups = 1;
  std::int64_t taps = 1;       ///< of the kernel
  std::int64_t positions = 1;  ///< of the output
  Sizes output;
};

Result<Deformed> deformed_of(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  VKF_TRY(sizes, static_sizes(node.tensor(1).shape()));
  if (sizes.size() != node.tensor(0).shape().size()) {
    return invalid("The kernel (operand 1) has the shape {} and the input {}; both must have as many axes.",
                   to_text(node.tensor(1).shape()), to_text(node.tensor(0).shape()));
  }
  Deformed result;
  VKF_TRY(windows, windows_over(node, {sizes.begin() + 2, sizes.end()}));
  VKF_TRY(groups, node.attributes().integer("group", 1));
  VKF_TRY(offset_groups, node.attributes().integer("offset_group", 1));
  VKF_TRY(channels, static_size(node.tensor(0).shape(), 1));
  if (groups < 1 || offset_groups < 1 || channels % groups != 0 || channels % offset_groups != 0 ||
      sizes[0] % groups != 0 || sizes[1] != channels / groups) {
    return invalid("{} channels do not go with a kernel {} in {} groups and {} groups of offsets.", channels,
                   to_text(node.tensor(1).shape()), groups, offset_groups);
  }
  for (const AxisWindows& axis : windows) {
    result.taps *= axis.size;
    result.positions *= axis.count;
    result.output.push_back(axis.count);
  }
  result.windows = std::move(windows);
  result.groups = groups;
  result.offset_groups = offset_groups;
  return result;
}

/// What a corner of the neighbours of a sample is: where it lies in the image, what it counts.
struct Corner {
  Tensor position, weight, counts;
};

/// The samples' positions along one axis: [batch, offset groups, taps, output...] as f32.
Tensor sample_positions(const NodeContext& node, const Deformed& how, std::size_t axis) {
  const std::size_t axes = how.windows.size();
  const AxisWindows& window = how.windows[axis];
  Shape taps(2 + 2 * axes, Dim(1)), outputs = taps, shape{node.tensor(0).shape()[0], how.offset_groups};
  taps[2 + axis] = window.size;
  outputs[2 + axes + axis] = window.count;
  for (const AxisWindows& one : how.windows) shape.push_back(one.size);
  shape.push_back(static_cast<std::int64_t>(axes));
  for (const std::int64_t size : how.output) shape.push_back(size);
  const Tensor offset =
      node.tensor(2).reshape(shape).select(static_cast<int>(2 + axes), static_cast<std::int64_t>(axis));
  const Tensor tap = Tensor::iota(DType::f32, taps, static_cast<int>(2 + axis)) * static_cast<double>(window.dilation);
  const Tensor output =
      Tensor::iota(DType::f32, outputs, static_cast<int>(2 + axes + axis)) * static_cast<double>(window.stride);
  return offset.cast(DType::f32) + tap + (output - static_cast<double>(window.low));
}

std::vector<Corner> corners_of(const NodeContext& node, const Deformed& how) {
  std::vector<Corner> corners{
      {number(DType::i32, 0), Tensor::scalar(DType::f32, 1), Tensor::scalar(DType::boolean, 1)}};
  for (std::size_t axis = 0; axis < how.windows.size(); ++axis) {
    const std::int64_t size = how.windows[axis].input;
    const auto far = static_cast<double>(size);
    const Tensor at = op("min", op("max", sample_positions(node, how, axis), -2), far + 1);
    const Tensor floor = op("floor", at);
    const Tensor share = at - floor;
    const Tensor low = floor.cast(DType::i32);
    std::vector<Corner> next;
    for (const Corner& corner : corners) {
      for (const bool is_high : {false, true}) {
        const Tensor neighbour = is_high ? low + number(DType::i32, 1) : low;
        const Tensor inside =
            op("and", op("ge", neighbour, number(DType::i32, 0)), op("lt", neighbour, number(DType::i32, size)));
        next.push_back({corner.position * number(DType::i32, size) + neighbour,
                        corner.weight * (is_high ? share : 1.0 - share), op("and", corner.counts, inside)});
      }
    }
    corners = std::move(next);
  }
  return corners;
}

/// The samples of every channel, [batch, groups, channels / groups * taps, positions].
Result<Tensor> columns_of(const NodeContext& node, const Deformed& how) {
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(pixels, static_count(shape, 2, shape.size()));
  VKF_TRY(channels, static_size(shape, 1));
  if (pixels < 1 || pixels > INT32_MAX) return invalid("The input {} has {} pixels.", to_text(shape), pixels);
  const Tensor image =
      node.tensor(0).reshape({shape[0], how.offset_groups, channels / how.offset_groups, pixels}).cast(DType::f32);
  const Shape by_group{shape[0], how.offset_groups, 1, how.taps * how.positions};
  std::optional<Tensor> sum;
  for (const Corner& corner : corners_of(node, how)) {
    const Tensor read = image.take_along(corner.position.reshape(by_group), 3) * corner.weight.reshape(by_group);
    const Tensor part = select(corner.counts.reshape(by_group), read, Tensor::scalar(DType::f32, 0));
    sum = sum ? *sum + part : part;
  }
  if (node.has(4)) sum = *sum * node.tensor(4).cast(DType::f32).reshape(by_group);
  return sum->cast(node.dtype()).reshape({shape[0], how.groups, channels / how.groups * how.taps, how.positions});
}

}  // namespace

Result<Outputs> import_roi_align(const NodeContext& node) {
  VKF_TRY(how, roi_align_of(node));
  const Tensor& x = node.tensor(0);
  VKF_TRY(sizes, static_sizes(x.shape()));
  const Shape& rois = node.tensor(1).shape();
  if (sizes.size() != 4 || rois.size() != 2 || rois[1] != Dim(4) || node.tensor(2).shape() != Shape{rois[0]}) {
    return invalid(
        "Operator 'RoiAlign' takes images of rank 4, regions of 4 numbers and an image for each; it has {}, "
        "{} and {}.",
        to_text(x.shape()), to_text(rois), to_text(node.tensor(2).shape()));
  }
  VKF_TRY(count, vkfuse::element_count(sizes));
  const DType dtype = position_dtype(count);
  const Along alongs[2] = {{how.height, sizes[2], 1, 3}, {how.width, sizes[3], 0, 2}};
  const Side sides[2] = {side_of(node, how, alongs[0]), side_of(node, how, alongs[1])};
  const Tensor batch = node.tensor(2).cast(dtype).reshape({rois[0], 1, 1, 1, 1, 1}) * number(dtype, sizes[1]);
  const Tensor channel = Tensor::iota(dtype, {1, sizes[1], 1, 1, 1, 1}, 1);
  const Tensor first = (batch + channel) * number(dtype, sizes[2] * sizes[3]);
  const Tensor image = x.reshape({count}).cast(DType::f32);
  const Tensor samples = sampled(image, first, sides, alongs, how.takes_largest);
  const Tensor counts = op("and", laid_out(sides[0].counts, alongs[0], sides[0].each, true),
                           laid_out(sides[1].counts, alongs[1], sides[1].each, false));
  const Tensor zero = Tensor::scalar(DType::f32, 0);
  if (how.takes_largest) {
    // Samples outside the image count as 0, samples that a region does not have not at all.
    const Tensor none = Tensor::scalar(DType::f32, how.samples > 0 ? 0 : -std::numeric_limits<double>::infinity());
    return Outputs{select(counts, samples, none).max({3, 5}).cast(x.dtype())};
  }
  const Tensor taken = op("max", (sides[0].taken * sides[1].taken).reshape({rois[0], 1, 1, 1}), 1);
  return Outputs{(select(counts, samples, zero).sum({3, 5}) / taken).cast(x.dtype())};
}

Result<Outputs> import_deform_conv(const NodeContext& node) {
  VKF_TRY(how, deformed_of(node));
  VKF_TRY(columns, columns_of(node, how));
  VKF_TRY(channels, static_size(node.tensor(1).shape(), 0));
  if (!columns.valid()) return Outputs{columns};
  const Shape grouped{1, how.groups, channels / how.groups, columns.shape()[2]};
  const Tensor product = matmul(node.tensor(1).reshape(grouped), columns);
  Shape shape{node.tensor(0).shape()[0], channels};
  shape.insert(shape.end(), how.output.begin(), how.output.end());
  const Tensor result = product.reshape(shape);
  if (!node.has(3)) return Outputs{result};
  Shape bias(how.output.size() + 1, Dim(1));
  bias[0] = channels;
  return Outputs{result + node.tensor(3).reshape(bias)};
}

}  // namespace vkfuse::onnx

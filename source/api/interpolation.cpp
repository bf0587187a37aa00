#include "api/interpolation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/composites.hpp"
#include "api/known_positions.hpp"
#include "api/tensor_node.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::api {
namespace {

/// The position in the input that position `x` of the output stands for, by ONNX's formulas.
double source_position(const AxisResize& axis, double x) {
  const auto input = static_cast<double>(axis.input);
  const auto output = static_cast<double>(axis.output);
  // Where the scale is stated, the length that it would give: ONNX's reference does not round it here.
  const double length = axis.scale * input;
  switch (axis.coordinates) {
    case Coordinates::asymmetric: return x / axis.scale;
    case Coordinates::align_corners: return length == 1 ? 0 : x * (input - 1) / (length - 1);
    case Coordinates::pytorch_half_pixel:
      if (axis.single_at_zero && axis.output == 1) return 0;
      return length == 1 ? -0.5 : (x + 0.5) / axis.scale - 0.5;
    case Coordinates::tf_half_pixel_for_nn: return (x + 0.5) / axis.scale;
    case Coordinates::half_pixel_symmetric: {
      const double offset = input / 2 * (1 - output / length);
      return offset + (x + 0.5) / axis.scale - 0.5;
    }
    case Coordinates::tf_crop_and_resize: {
      const double extent = (axis.end - axis.begin) * (input - 1);
      return axis.begin * (input - 1) + (length == 1 ? extent / 2 : x * extent / (length - 1));
    }
    case Coordinates::half_pixel: break;
  }
  return (x + 0.5) / axis.scale - 0.5;
}

double nearest(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::prefer_floor: return std::ceil(x - 0.5);
    case Rounding::prefer_ceil: return std::floor(x + 0.5);
    case Rounding::floor: return std::floor(x);
    case Rounding::ceil: break;
  }
  return std::ceil(x);
}

/// The kernel's weight at a distance, in elements of the input.
double kernel(const AxisResize& axis, double distance) {
  const double x = std::abs(distance);
  if (axis.mode == Interpolation::linear) return std::max(1 - x, 0.0);
  const double a = axis.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The taps of one element: positions may lie outside the axis, weights add up to 1.
struct Neighbours {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Neighbours neighbours(const AxisResize& axis, double x, double stretch, std::int64_t reach) {
  const double floor = std::floor(x);
  Neighbours result{static_cast<std::int64_t>(floor) - reach + 1, {}};
  for (std::int64_t i = 0; i < 2 * reach; ++i) {
    const std::int64_t position = result.first + i;
    const bool counts = !axis.exclude_outside || (position >= 0 && position < axis.input);
    result.weights.push_back(counts ? kernel(axis, (static_cast<double>(position) - x) * stretch) : 0);
  }
  const double sum = std::accumulate(result.weights.begin(), result.weights.end(), 0.0);
  if (axis.exclude_outside || axis.antialias) {
    for (double& weight : result.weights) weight /= sum;
  }
  return result;
}

void resize(Taps& taps, std::size_t count, std::int64_t output) {
  taps.positions.assign(count, std::vector<std::int64_t>(static_cast<std::size_t>(output)));
  taps.weights.assign(count, std::vector<double>(static_cast<std::size_t>(output), 1.0));
  taps.outside.assign(static_cast<std::size_t>(output), false);
}

bool is_identity(const AxisResize& axis) {
  return axis.scale == 1 && axis.output == axis.input && axis.coordinates != Coordinates::tf_crop_and_resize;
}

/// The weighted sum over taps along one axis of a tensor of this rank.
Tensor interpolated(const Tensor& x, int axis, std::size_t rank, const Taps& taps) {
  Shape lined_up(rank - static_cast<std::size_t>(axis), Dim(1));
  lined_up[0] = static_cast<std::int64_t>(taps.positions[0].size());
  if (taps.positions.size() == 2) {
    return take(x, axis, taps.positions[0]) * real_constant(taps.weights[0], lined_up, x.dtype()) +
           take(x, axis, taps.positions[1]) * real_constant(taps.weights[1], lined_up, x.dtype());
  }
  std::vector<std::int64_t> positions;
  std::vector<double> weights;
  for (std::size_t tap = 0; tap < taps.positions.size(); ++tap) {
    positions.insert(positions.end(), taps.positions[tap].begin(), taps.positions[tap].end());
    weights.insert(weights.end(), taps.weights[tap].begin(), taps.weights[tap].end());
  }
  const auto count = static_cast<std::int64_t>(taps.positions.size());
  const Tensor gathered = x.gather(position_constant(positions, {count, lined_up[0]}), axis);
  lined_up.insert(lined_up.begin(), Dim(count));
  return (gathered * real_constant(weights, lined_up, x.dtype())).sum({axis});
}

/// The value that stands for what lies outside the cropped axis.
Tensor extrapolated(const Tensor& x, int axis, std::size_t rank, const Taps& taps, double value) {
  if (std::ranges::none_of(taps.outside, [](bool is_outside) { return is_outside; })) return x;
  std::vector<std::byte> bytes;
  for (const bool is_outside : taps.outside) bytes.push_back(std::byte{is_outside});
  Shape lined_up(rank - static_cast<std::size_t>(axis), Dim(1));
  lined_up[0] = static_cast<std::int64_t>(bytes.size());
  const Tensor outside = Tensor::constant(DType::boolean, lined_up, bytes);
  return select(outside, Tensor::scalar(x.dtype(), value), x);
}

}  // namespace

Taps taps_of(const AxisResize& axis) {
  const double stretch = axis.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = axis.mode == Interpolation::cubic ? 2 : 1;
  const auto reach = static_cast<std::int64_t>(std::ceil(radius / stretch));
  const bool is_nearest = axis.mode == Interpolation::nearest;
  const auto last = static_cast<double>(axis.input - 1);
  Taps taps;
  resize(taps, is_nearest ? 1 : static_cast<std::size_t>(2 * reach), axis.output);
  for (std::int64_t i = 0; i < axis.output; ++i) {
    const auto o = static_cast<std::size_t>(i);
    const double x = source_position(axis, static_cast<double>(i));
    taps.outside[o] = axis.coordinates == Coordinates::tf_crop_and_resize && (x < 0 || x > last);
    if (is_nearest) {
      taps.positions[0][o] = static_cast<std::int64_t>(std::clamp(nearest(x, axis.rounding), 0.0, last));
      continue;
    }
    const Neighbours found = neighbours(axis, std::clamp(x, -0.5, last + 0.5), stretch, reach);
    for (std::size_t tap = 0; tap < found.weights.size(); ++tap) {
      const std::int64_t position = found.first + static_cast<std::int64_t>(tap);
      taps.positions[tap][o] = std::clamp<std::int64_t>(position, 0, axis.input - 1);
      taps.weights[tap][o] = found.weights[tap];
    }
  }
  return taps;
}

Result<Tensor> resized(const Tensor& x, const std::vector<int>& axes, const std::vector<AxisResize>& resizes,
                       double extrapolation) {
  const std::size_t rank = x.shape().size();
  const bool is_nearest = resizes.empty() || resizes[0].mode == Interpolation::nearest;
  const DType dtype = x.dtype();
  const bool widens = !is_nearest && dtype != DType::f64;
  Tensor result = widens ? x.cast(DType::f32) : x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (is_identity(resizes[i])) continue;
    if (resizes[i].input == 0 && resizes[i].output > 0) {
      return invalid("Axis {} is empty; it cannot become {} elements.", axes[i], resizes[i].output);
    }
    if (resizes[i].output == 0) {  // whatever the scale, which may be too small for a number of taps
      result = result.slice(axes[i], 0, 0);
      continue;
    }
    if (resizes[i].antialias && resizes[i].input > kMostPositions) {
      return unsupported("Axis {} has {} elements, more than the {} that are supported with antialiasing.", axes[i],
                         resizes[i].input, kMostPositions);
    }
    const Taps taps = taps_of(resizes[i]);
    result = is_nearest ? take(result, axes[i], taps.positions[0]) : interpolated(result, axes[i], rank, taps);
    result = extrapolated(result, axes[i], rank, taps, extrapolation);
  }
  return result.cast(dtype);
}

namespace {

Result<Tensor> interpolated_to(const Tensor& x, const std::vector<int>& axes, const std::vector<std::int64_t>& sizes,
                               const InterpolateOptions& options) {
  if (!x.valid()) return Error(x.error());
  if (options.coordinates == Coordinates::tf_crop_and_resize)
    return unsupported("'interpolate' has no part of an axis to crop to, as 'tf_crop_and_resize' does.");
  if (axes.size() != sizes.size())
    return invalid("'interpolate' takes a size for each axis, but there are {} axes and {} sizes.", axes.size(),
                   sizes.size());
  std::vector<int> counted;
  std::vector<AxisResize> resizes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = counted_axis(axes[i], x.shape().size());
    const bool is_there = axis >= 0 && axis < static_cast<int>(x.shape().size());
    if (!is_there || x.shape()[static_cast<std::size_t>(axis)].is_symbol() || std::ranges::count(counted, axis) > 0) {
      return invalid("'interpolate' takes axes of {} once, whose sizes are numbers, but axis {} is not one.",
                     text_of_type(x), axes[i]);
    }
    if (sizes[i] < 0 || sizes[i] > kMostPositions)
      return invalid("'interpolate' makes axes of 0 to {} elements, but {} are asked for.", kMostPositions, sizes[i]);
    AxisResize resize;
    resize.input = x.shape()[static_cast<std::size_t>(axis)].size();
    resize.output = sizes[i];
    if (resize.input > 0) resize.scale = static_cast<double>(sizes[i]) / static_cast<double>(resize.input);
    resize.mode = options.mode;
    resize.coordinates = options.coordinates;
    resize.rounding = options.rounding;
    resize.cubic = options.cubic;
    resize.exclude_outside = options.exclude_outside;
    resize.antialias = options.antialias && options.mode != Interpolation::nearest;
    counted.push_back(axis);
    resizes.push_back(resize);
  }
  if (options.mode != Interpolation::nearest && !is_float(x.dtype()))
    return invalid("'interpolate' weighs floats, but it is given {}.", text_of_type(x));
  return resized(x, counted, resizes, 0);
}

}  // namespace
}  // namespace vkfuse::api

namespace vkfuse {

Tensor interpolate(const Tensor& x, const std::vector<int>& axes, const std::vector<std::int64_t>& sizes,
                   const InterpolateOptions& options) {
  return api::or_failed(api::interpolated_to(x, axes, sizes, options));
}

}  // namespace vkfuse

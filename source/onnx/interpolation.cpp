#include "onnx/interpolation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vkfuse::onnx {
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

}  // namespace vkfuse::onnx

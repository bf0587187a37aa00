// Which elements of an axis a resized axis reads, and with what weights: computed on the host, once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::api {

/// How one axis of `input` elements becomes one of `output` elements.
struct AxisResize {
  std::int64_t input = 0, output = 0;
  double scale = 1;           ///< stated, or output / input
  double begin = 0, end = 1;  ///< the part that is cropped, of the axis's length (tf_crop_and_resize)
  Interpolation mode = Interpolation::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  /// With pytorch_half_pixel: one element of output stands for position 0, as the standard's text and ONNX Runtime say.
  /// False: for -0.5 where the scale makes exactly one, and for the middle where it makes a little more, as ONNX's
  /// reference says.
  bool single_at_zero = true;
  Rounding rounding = Rounding::prefer_floor;
  double cubic = -0.75;          ///< the free coefficient of the cubic kernel
  bool exclude_outside = false;  ///< taps outside the axis have no weight, instead of that of its edge
  bool antialias = false;        ///< kernels are stretched when the axis shrinks
};

/// Element o of the result is the sum over taps t of weights[t][o] * element positions[t][o].
struct Taps {
  std::vector<std::vector<std::int64_t>> positions;
  std::vector<std::vector<double>> weights;
  std::vector<bool> outside;  ///< where tf_crop_and_resize reads beyond the axis
};

Taps taps_of(const AxisResize& axis);

/// A tensor resized along these axes, counted from 0, one after another. Sums of linear and cubic are in f32 (f64 for
/// f64), and rounded to its dtype. `extrapolation` stands where tf_crop_and_resize reads beyond the axis.
Result<Tensor> resized(const Tensor& x, const std::vector<int>& axes, const std::vector<AxisResize>& resizes,
                       double extrapolation);

}  // namespace vkfuse::api

// Resize and Upsample: one axis after another, each a weighted sum of gathers at known positions.
#include <algorithm>
#include <cmath>

#include "api/interpolation.hpp"
#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"
#include "onnx/truncation.hpp"

namespace vkfuse::onnx {
namespace {

using api::AxisResize;

template <typename Choice>
struct Named {
  std::string_view name;
  Choice choice;
};

constexpr Named<Interpolation> kModes[] = {
    {"nearest", Interpolation::nearest}, {"linear", Interpolation::linear}, {"cubic", Interpolation::cubic}};
constexpr Named<Rounding> kRoundings[] = {{"round_prefer_floor", Rounding::prefer_floor},
                                          {"round_prefer_ceil", Rounding::prefer_ceil},
                                          {"floor", Rounding::floor},
                                          {"ceil", Rounding::ceil}};
constexpr Named<Coordinates> kCoordinates[] = {{"half_pixel", Coordinates::half_pixel},
                                               {"half_pixel_symmetric", Coordinates::half_pixel_symmetric},
                                               {"pytorch_half_pixel", Coordinates::pytorch_half_pixel},
                                               {"tf_half_pixel_for_nn", Coordinates::tf_half_pixel_for_nn},
                                               {"align_corners", Coordinates::align_corners},
                                               {"asymmetric", Coordinates::asymmetric},
                                               {"tf_crop_and_resize", Coordinates::tf_crop_and_resize}};

template <typename Choice, std::size_t count>
Result<Choice> choice(const NodeContext& node, std::string_view attribute, std::string_view otherwise,
                      const Named<Choice> (&choices)[count]) {
  VKF_TRY(name, node.attributes().text(attribute, otherwise));
  for (const Named<Choice>& one : choices) {
    if (one.name == name) return one.choice;
  }
  return invalid("Attribute {} is {}, which is not one of its values.", in_quotes(attribute), in_quotes(name));
}

/// What the attributes say of every axis.
Result<AxisResize> method_of(const NodeContext& node) {
  AxisResize method;
  VKF_TRY(mode, choice(node, "mode", "nearest", kModes));
  // Before opset 11 there was no choice.
  const bool is_old = node.opset() < 11;
  VKF_TRY(coordinates,
          choice(node, "coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel", kCoordinates));
  VKF_TRY(rounding, choice(node, "nearest_mode", is_old ? "floor" : "round_prefer_floor", kRoundings));
  VKF_TRY(cubic, node.attributes().real("cubic_coeff_a", -0.75));
  VKF_TRY(exclude_outside, node.attributes().integer("exclude_outside", 0));
  VKF_TRY(antialias, node.attributes().integer("antialias", 0));
  method.mode = mode;
  method.coordinates = coordinates;
  // Of cubic kernels ONNX Runtime has those of two axes, of images by themselves or in a batch: what others do is known
  // from ONNX's reference.
  const std::size_t rank = node.tensor(0).shape().size();
  method.single_at_zero = mode != Interpolation::cubic || rank == 2 || rank == 4;
  method.rounding = rounding;
  method.cubic = cubic;
  method.exclude_outside = exclude_outside != 0;
  method.antialias = antialias != 0 && mode != Interpolation::nearest;
  return method;
}

/// A known list of numbers; empty where the operand is left out, or given without elements.
Result<std::vector<double>> known_reals(const NodeContext& node, int operand, std::string_view what) {
  std::vector<double> values;
  if (!node.has(operand)) return values;
  VKF_TRY(data, node.known(operand, what));
  for (std::size_t i = 0; i < element_count(data); ++i) values.push_back(element_real(data, i));
  return values;
}

/// The axes that scales, sizes and roi have entries for.
Result<std::vector<int>> resized_axes(const NodeContext& node) {
  const std::size_t rank = node.tensor(0).shape().size();
  VKF_TRY(stated, node.attributes().integers("axes"));
  if (!node.attributes().has("axes")) {
    for (std::size_t axis = 0; axis < rank; ++axis) stated.push_back(static_cast<std::int64_t>(axis));
  }
  return checked_axes(stated, rank, "An axis of attribute 'axes'");
}

Result<void> check_length(std::string_view what, const std::vector<double>& list, std::size_t length) {
  if (list.size() == length) return {};
  return invalid("The list of {} has {} entries; it must have {}.", what, list.size(), length);
}

Result<void> set_scales(std::vector<AxisResize>& axes, const std::vector<double>& scales) {
  VKF_CHECK_OK(check_length("scales", scales, axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double output = std::floor(static_cast<double>(axes[i].input) * scales[i]);
    // An infinite scale of an empty axis makes no number.
    if (!(scales[i] > 0) || !(output <= static_cast<double>(kMostPositions))) {
      return invalid("A scale is {}; it must be positive, and make at most {} elements of an axis of {}.", scales[i],
                     kMostPositions, axes[i].input);
    }
    axes[i].scale = scales[i];
    axes[i].output = static_cast<std::int64_t>(output);
  }
  return {};
}

Result<void> set_sizes(const NodeContext& node, std::vector<AxisResize>& axes, const std::vector<double>& sizes) {
  VKF_CHECK_OK(check_length("sizes", sizes, axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!(sizes[i] >= 0 && sizes[i] <= static_cast<double>(kMostPositions))) {
      return invalid("A size is {}; it must be 0 to {}.", sizes[i], kMostPositions);
    }
    axes[i].output = static_cast<std::int64_t>(sizes[i]);
    if (axes[i].input > 0) axes[i].scale = sizes[i] / static_cast<double>(axes[i].input);
  }
  VKF_TRY(policy, node.attributes().text("keep_aspect_ratio_policy", "stretch"));
  if (policy == "stretch" || axes.empty()) return {};
  if (policy != "not_larger" && policy != "not_smaller") {
    return invalid("Attribute 'keep_aspect_ratio_policy' is {}; it must be 'stretch', 'not_larger' or 'not_smaller'.",
                   in_quotes(policy));
  }
  const auto by_scale = [](const AxisResize& a, const AxisResize& b) { return a.scale < b.scale; };
  const double scale =
      (policy == "not_larger" ? std::ranges::min_element(axes, by_scale) : std::ranges::max_element(axes, by_scale))
          ->scale;
  for (AxisResize& axis : axes) {
    const double output = std::floor(scale * static_cast<double>(axis.input) + 0.5);
    if (!(output <= static_cast<double>(kMostPositions)))
      return invalid("The common scale is {}, which is too large.", scale);
    axis.output = static_cast<std::int64_t>(output);
    axis.scale = scale;
  }
  return {};
}

/// All starts come before the ends; both are parts of the axis.
Result<void> set_crop(const NodeContext& node, std::vector<AxisResize>& axes) {
  if (axes.empty() || axes[0].coordinates != Coordinates::tf_crop_and_resize) return {};
  VKF_TRY(roi, known_reals(node, 1, "region of interest"));
  VKF_CHECK_OK(check_length("the region of interest", roi, 2 * axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].begin = roi[i];
    axes[i].end = roi[i + axes.size()];
  }
  return {};
}

Result<Outputs> resized(const NodeContext& node, const std::vector<int>& axes, const std::vector<AxisResize>& resizes) {
  VKF_TRY(extrapolation, node.attributes().real("extrapolation_value", 0));
  const Tensor& x = node.tensor(0);
  const bool weighs_integers = !is_float(x.dtype()) && !resizes.empty() && resizes[0].mode != Interpolation::nearest;
  VKF_TRY(result, api::resized(weighs_integers ? x.cast(DType::f32) : x, axes, resizes, extrapolation));
  return Outputs{truncated_to(x.dtype(), result, kLargestByte)};
}

Result<std::vector<AxisResize>> resizes_of(const NodeContext& node, const std::vector<int>& axes) {
  VKF_TRY(method, method_of(node));
  std::vector<AxisResize> resizes(axes.size(), method);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    VKF_TRY(size, static_size(node.tensor(0).shape(), static_cast<std::size_t>(axes[i])));
    resizes[i].input = resizes[i].output = size;
  }
  return resizes;
}

}  // namespace

Result<Outputs> import_resize(const NodeContext& node) {
  VKF_TRY(axes, resized_axes(node));
  VKF_TRY(resizes, resizes_of(node, axes));
  VKF_TRY(scales, known_reals(node, 2, "scales"));
  VKF_TRY(sizes, known_reals(node, 3, "sizes"));
  if (scales.empty() == sizes.empty() && !axes.empty()) {
    return invalid("Resize has {} scales and {} sizes; exactly one of the two lists is given.", scales.size(),
                   sizes.size());
  }
  if (!scales.empty()) {
    VKF_CHECK_OK(set_scales(resizes, scales));
  } else {
    VKF_CHECK_OK(set_sizes(node, resizes, sizes));
  }
  VKF_CHECK_OK(set_crop(node, resizes));
  return resized(node, axes, resizes);
}

Result<Outputs> import_upsample(const NodeContext& node) {
  VKF_TRY(axes, resized_axes(node));
  VKF_TRY(resizes, resizes_of(node, axes));
  VKF_TRY(scales, node.attributes().reals("scales"));
  if (!node.attributes().has("scales")) {
    VKF_TRY(given, known_reals(node, 1, "scales"));
    scales = std::move(given);
  }
  VKF_CHECK_OK(set_scales(resizes, scales));
  return resized(node, axes, resizes);
}

}  // namespace vkfuse::onnx

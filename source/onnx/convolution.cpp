// Convolutions of floats and of quantised integers.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/quantization.hpp"
#include "onnx/windows_of.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// The sizes that a kernel operand has along its spatial axes.
Result<std::vector<std::int64_t>> kernel_sizes(const NodeContext& node, int kernel) {
  const Shape& shape = node.tensor(kernel).shape();
  if (shape.size() != node.tensor(0).shape().size() || shape.size() < 3) {
    return invalid(
        "The kernel (operand {}) has the shape {} and the input {}; both must have as many axes, and at least 3.",
        kernel, to_text(shape), to_text(node.tensor(0).shape()));
  }
  VKF_TRY(sizes, static_sizes(shape));
  const std::int64_t largest = *std::ranges::max_element(sizes);
  if (largest > kFarthest) return unsupported("A kernel with {} elements along one axis is not supported.", largest);
  return std::vector<std::int64_t>(sizes.begin() + 2, sizes.end());
}

Result<ConvOptions> options_of(const NodeContext& node, int kernel) {
  VKF_TRY(sizes, kernel_sizes(node, kernel));
  VKF_TRY(windows, windows_over(node, sizes));
  VKF_TRY(groups, node.attributes().integer("group", 1));
  ConvOptions options;
  options.groups = groups;
  for (const AxisWindows& axis : windows) {
    options.strides.push_back(axis.stride);
    options.dilations.push_back(axis.dilation);
    options.low.push_back(axis.low);
    options.high.push_back(axis.overhang());
  }
  return options;
}

/// A vector with one number per channel, against [batch, channels, spatial...]; one number as it is.
Result<Tensor> by_channel(const NodeContext& node, int operand, const Tensor& result) {
  if (!result.valid()) return result;
  return quantisation_operand(node, operand, result.shape(), 1);
}

Result<Tensor> with_bias(const NodeContext& node, int operand, const Tensor& result) {
  if (!node.has(operand)) return result;
  VKF_TRY(bias, by_channel(node, operand, result));
  return result + bias;
}

/// What cuts or fills the result of ConvTranspose along one axis.
struct Ends {
  std::int64_t low = 0, high = 0;
};

/// `all` elements to be cut, shared between both ends. Where there are fewer than asked for, zeros are appended.
Ends shared(std::int64_t all, bool more_behind) {
  if (all < 0) return {0, all};
  return more_behind ? Ends{all / 2, all - all / 2} : Ends{all - all / 2, all / 2};
}

Result<std::vector<std::int64_t>> list_of(const NodeContext& node, std::string_view name, std::size_t count,
                                          std::int64_t otherwise) {
  VKF_TRY(list, node.attributes().integers(name));
  if (list.empty()) return std::vector<std::int64_t>(count, otherwise);
  if (list.size() == count && std::ranges::all_of(list, [](std::int64_t n) { return n >= 0 && n <= kFarthest; }))
    return list;
  return invalid("Attribute '{}' is [{}]; it must hold {} numbers from 0 to {}.", name, fmt::join(list, ", "), count,
                 kFarthest);
}

Result<ConvOptions> transposed_options_of(const NodeContext& node) {
  VKF_TRY(sizes, kernel_sizes(node, 1));
  const std::size_t count = sizes.size();
  VKF_TRY(groups, node.attributes().integer("group", 1));
  VKF_TRY(strides, list_of(node, "strides", count, 1));
  VKF_TRY(dilations, list_of(node, "dilations", count, 1));
  VKF_TRY(pads, list_of(node, "pads", 2 * count, 0));
  VKF_TRY(more, list_of(node, "output_padding", count, 0));
  VKF_TRY(requested, node.attributes().integers("output_shape"));
  VKF_TRY(automatic, node.attributes().text("auto_pad", "NOTSET"));
  if (!requested.empty() && requested.size() != count) {
    return invalid("Attribute 'output_shape' is [{}]; there are {} spatial axes.", fmt::join(requested, ", "), count);
  }
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!is_same && automatic != "NOTSET" && automatic != "VALID") {
    return invalid("Attribute 'auto_pad' is not 'NOTSET', 'VALID', 'SAME_UPPER' or 'SAME_LOWER'.");
  }
  ConvOptions options;
  options.groups = groups;
  options.strides = strides;
  options.dilations = dilations;
  for (std::size_t i = 0; i < count; ++i) {
    VKF_TRY(input, static_size(node.tensor(0).shape(), i + 2));
    const std::int64_t whole =
        strides[i] * (std::min(input, kFarthest) - 1) + more[i] + (sizes[i] - 1) * dilations[i] + 1;
    Ends ends{automatic == "VALID" ? 0 : pads[i], automatic == "VALID" ? 0 : pads[i + count]};
    if (!requested.empty() || is_same)
      ends = shared(whole - (requested.empty() ? input * strides[i] : requested[i]), automatic == "SAME_UPPER");
    options.low.push_back(ends.low);
    options.high.push_back(ends.high - more[i]);
  }
  return options;
}

}  // namespace

Result<Outputs> import_conv(const NodeContext& node) {
  VKF_TRY(options, options_of(node, 1));
  VKF_TRY(result, with_bias(node, 2, conv(node.tensor(0), node.tensor(1), options)));
  return Outputs{result};
}

Result<Outputs> import_conv_transpose(const NodeContext& node) {
  VKF_TRY(options, transposed_options_of(node));
  VKF_TRY(result, with_bias(node, 2, conv_transpose(node.tensor(0), node.tensor(1), options)));
  return Outputs{result};
}

Result<Outputs> import_conv_integer(const NodeContext& node) {
  VKF_TRY(options, options_of(node, 1));
  // Padding holds the zero point, which is 0 from here on.
  VKF_TRY(x, steps_above_zero(node, 0, 2, 1));
  VKF_TRY(w, steps_above_zero(node, 1, 3, 0));
  return Outputs{conv(x, w, options)};
}

Result<Outputs> import_qlinear_conv(const NodeContext& node) {
  VKF_TRY(options, options_of(node, 3));
  VKF_TRY(x, steps_above_zero(node, 0, 2, 1));
  VKF_TRY(w, steps_above_zero(node, 3, 5, 0));
  const DType dtype = node.dtype(7);
  if (!is_integer(dtype) || size_of(dtype) > 2)
    return unsupported("Quantisation to {} is not supported.", name_of(dtype));
  VKF_TRY(sum, with_bias(node, 8, conv(x, w, options)));
  VKF_TRY(scale_x, by_channel(node, 1, sum));
  VKF_TRY(scale_w, by_channel(node, 4, sum));
  VKF_TRY(scale, by_channel(node, 6, sum));
  VKF_TRY(zero_point, by_channel(node, 7, sum));
  const Tensor factor = scale_x.cast(DType::f32) * scale_w.cast(DType::f32) / scale.cast(DType::f32);
  return Outputs{saturated(whole_steps(sum.cast(DType::f32) * factor) + zero_point.cast(DType::i32), dtype)};
}

}  // namespace vkfuse::onnx

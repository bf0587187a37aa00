#include "onnx/windows_of.hpp"

#include <algorithm>

#include "onnx/operands.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// Products and sums of a few of these stay far from overflow.
constexpr std::int64_t kFar = kFarthest;

using api::place;

/// A list attribute with one entry per spatial axis (or two, for pads), each in low .. kFar.
Result<std::vector<std::int64_t>> spatial_list(const NodeContext& node, std::string_view name, std::size_t length,
                                               std::int64_t low, std::int64_t otherwise) {
  VKF_TRY(list, node.attributes().integers(name));
  if (!node.attributes().has(name)) return std::vector<std::int64_t>(length, otherwise);
  if (list.size() != length) {
    return invalid("Attribute {} has {} entries; the spatial axes ask for {}.", in_quotes(name), list.size(), length);
  }
  for (const std::int64_t value : list) {
    if (value < low || value > kFar) {
      return invalid("Attribute {} holds {}; it must be {} to {}.", in_quotes(name), value, low, kFar);
    }
  }
  return list;
}

/// As many windows as cover the axis (SAME), with the padding that takes, or as fit without any (VALID).
Result<void> place_automatically(AxisWindows& axis, std::string_view mode) {
  if (mode == "VALID") {
    axis.low = axis.high = 0;
    axis.count = axis.input < axis.extent() ? 0 : (axis.input - axis.extent()) / axis.stride + 1;
    return {};
  }
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return invalid("Attribute 'auto_pad' is {}; it must be 'NOTSET', 'VALID', 'SAME_UPPER' or 'SAME_LOWER'.",
                   in_quotes(mode));
  }
  axis.count = (axis.input + axis.stride - 1) / axis.stride;
  const std::int64_t all = std::max<std::int64_t>((axis.count - 1) * axis.stride + axis.extent() - axis.input, 0);
  axis.low = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
  axis.high = all - axis.low;
  return {};
}

}  // namespace

Result<std::vector<AxisWindows>> windows_of(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  const std::size_t rank = node.tensor(0).shape().size() - 2;
  if (!node.attributes().has("kernel_shape")) return invalid("Attribute 'kernel_shape' is missing.");
  VKF_TRY(sizes, spatial_list(node, "kernel_shape", rank, 1, 1));
  return windows_over(node, sizes);
}

Result<std::vector<AxisWindows>> windows_over(const NodeContext& node, const std::vector<std::int64_t>& sizes) {
  const Shape& shape = node.tensor(0).shape();
  const std::size_t rank = sizes.size();
  VKF_TRY(stated, node.attributes().integers("kernel_shape"));
  if (!stated.empty() && stated != sizes) {
    return invalid("Attribute 'kernel_shape' is [{}]; the kernel is [{}].", fmt::join(stated, ", "),
                   fmt::join(sizes, ", "));
  }
  VKF_TRY(strides, spatial_list(node, "strides", rank, 1, 1));
  VKF_TRY(dilations, spatial_list(node, "dilations", rank, 1, 1));
  VKF_TRY(pads, spatial_list(node, "pads", 2 * rank, 0, 0));
  VKF_TRY(automatic, node.attributes().text("auto_pad", "NOTSET"));
  VKF_TRY(round_up, node.attributes().integer("ceil_mode", 0));
  std::vector<AxisWindows> windows;
  for (std::size_t i = 0; i < rank; ++i) {
    VKF_TRY(input, static_size(shape, i + 2));
    AxisWindows axis{input, sizes[i], strides[i], dilations[i], pads[i], pads[i + rank], 0};
    if (automatic == "NOTSET") {
      place(axis, round_up != 0);
    } else {
      VKF_CHECK_OK(place_automatically(axis, automatic));
    }
    if (axis.count == 0) {
      return invalid("A window over {} elements does not fit axis {} of {} elements and {} of padding.", axis.extent(),
                     i + 2, input, axis.low + axis.high);
    }
    windows.push_back(axis);
  }
  return windows;
}

Result<std::vector<std::int64_t>> unpooled_sizes(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 3));
  VKF_TRY(result, static_sizes(node.tensor(0).shape()));
  const std::size_t rank = result.size() - 2;
  if (!node.attributes().has("kernel_shape")) return invalid("Attribute 'kernel_shape' is missing.");
  VKF_TRY(sizes, spatial_list(node, "kernel_shape", rank, 1, 1));
  VKF_TRY(strides, spatial_list(node, "strides", rank, 1, 1));
  VKF_TRY(pads, spatial_list(node, "pads", 2 * rank, 0, 0));
  for (std::size_t i = 0; i < rank; ++i) {
    const std::optional<std::int64_t> steps = checked_mul(std::max<std::int64_t>(result[i + 2] - 1, 0), strides[i]);
    if (!steps || *steps > kFar) return invalid("Axis {} becomes longer than {} elements.", i + 2, kFar);
    result[i + 2] = std::max<std::int64_t>(*steps + sizes[i] - pads[i] - pads[i + rank], 0);
  }
  return result;
}

Result<std::vector<AxisWindows>> blocks_of(const NodeContext& node, const std::vector<std::int64_t>& image) {
  const std::size_t rank = image.size();
  VKF_TRY(sizes, node.known_list(2, "block shape"));
  VKF_TRY(strides, spatial_list(node, "strides", rank, 1, 1));
  VKF_TRY(dilations, spatial_list(node, "dilations", rank, 1, 1));
  VKF_TRY(pads, spatial_list(node, "pads", 2 * rank, 0, 0));
  if (sizes.size() != rank || rank == 0) {
    return invalid("The block shape is [{}]; the image is [{}].", fmt::join(sizes, ", "), fmt::join(image, ", "));
  }
  std::vector<AxisWindows> blocks;
  for (std::size_t i = 0; i < rank; ++i) {
    AxisWindows axis{image[i], sizes[i], strides[i], dilations[i], pads[i], pads[i + rank], 0};
    if (sizes[i] >= 1 && sizes[i] <= kFar && image[i] <= kFar) place(axis, false);
    if (axis.count == 0) {
      return invalid("A block of {} elements does not fit axis {} of {} elements and {} of padding.", sizes[i], i,
                     image[i], axis.low + axis.high);
    }
    blocks.push_back(axis);
  }
  return blocks;
}

}  // namespace vkfuse::onnx

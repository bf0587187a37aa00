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
  VKF_TRY(column_major, node.attributes().integer("storage_order", 0));
  const bool with_positions = node.outputs() > 1;
  VKF_TRY(made, api::max_pooled(node.tensor(0), windows, column_major != 0, with_positions));
  return with_positions ? Outputs{made.result, made.positions} : Outputs{made.result};
}

Result<Outputs> import_average_pool(const NodeContext& node) {
  VKF_TRY(windows, windows_of(node));
  VKF_TRY(count_padding, node.attributes().integer("count_include_pad", 0));
  VKF_TRY(result, api::average_pooled(node.tensor(0), windows, count_padding != 0));
  return Outputs{result};
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

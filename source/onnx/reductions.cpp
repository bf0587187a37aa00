// Reductions over axes, positions of extremes, and running sums.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/truncation.hpp"

namespace vkfuse::onnx {
namespace {

/// What a reduction folds away; no axes means that it changes no shape.
struct ReducedAxes {
  std::vector<int> axes;
  bool keep_dims = true;
};

Result<ReducedAxes> reduced_axes_of(const NodeContext& node) {
  const std::size_t rank = node.tensor(0).shape().size();
  VKF_TRY(keep_dims, node.attributes().integer("keepdims", 1));
  VKF_TRY(is_nothing, node.attributes().integer("noop_with_empty_axes", 0));
  VKF_TRY(stated, stated_list(node, "axes", 1));
  VKF_TRY(axes, checked_axes(stated.value_or(std::vector<std::int64_t>{}), rank, "A reduced axis"));
  if (axes.empty() && is_nothing == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  return ReducedAxes{std::move(axes), keep_dims != 0};
}

Tensor reduced(const Tensor& x, std::string_view reduction, const ReducedAxes& reduced_axes) {
  // An empty list would mean all axes.
  return reduced_axes.axes.empty() ? x : x.reduce(reduction, reduced_axes.axes, reduced_axes.keep_dims);
}

bool reduces_nothing_together(const Shape& shape, const ReducedAxes& reduced_axes) {
  return std::ranges::any_of(reduced_axes.axes,
                             [&](int axis) { return shape[static_cast<std::size_t>(axis)] == Dim(0); });
}

Tensor without(Tensor tensor, const ReducedAxes& reduced_axes) {
  if (reduced_axes.keep_dims) return tensor;
  for (auto axis = reduced_axes.axes.rbegin(); axis != reduced_axes.axes.rend(); ++axis) tensor = tensor.squeeze(*axis);
  return tensor;
}

/// log(sum(exp(x))) about the largest element, so that no exponential overflows.
Tensor log_sum_exp(const Tensor& x, const ReducedAxes& reduced_axes) {
  // Of nothing there is no largest element; the logarithm of the empty sum is -infinity.
  if (reduces_nothing_together(x.shape(), reduced_axes)) return op("log", reduced(x, "reduce_sum", reduced_axes));
  const ReducedAxes kept{reduced_axes.axes, true};
  const Tensor largest = reduced(x, "reduce_max", kept);
  // An infinity minus itself is NaN: about 0 the sum is the infinity, or the zero, that it should be.
  const Tensor centre = select(op("is_finite", largest), largest, Tensor::scalar(x.dtype(), 0));
  return without(op("log", reduced(op("exp", x - centre), "reduce_sum", kept)) + centre, reduced_axes);
}

/// The largest of no elements is less than any other, the smallest greater.
Tensor extreme_of_nothing(const NodeContext& node, const ReducedAxes& reduced_axes) {
  const bool is_max = node.row().primitive == "reduce_max";
  const DType dtype = node.dtype();
  Shape shape = node.tensor(0).shape();
  for (auto axis = reduced_axes.axes.rbegin(); axis != reduced_axes.axes.rend(); ++axis) {
    if (reduced_axes.keep_dims) {
      shape[static_cast<std::size_t>(*axis)] = 1;
    } else {
      shape.erase(shape.begin() + *axis);
    }
  }
  if (is_float(dtype)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return filled(shape, Tensor::scalar(dtype, is_max ? -kInfinity : kInfinity));
  }
  if (dtype == DType::boolean) return filled(shape, Tensor::scalar(dtype, is_max ? 0 : 1));
  const int bits = 8 * size_of(dtype) - (is_signed_integer(dtype) ? 1 : 0);
  const auto greatest = static_cast<std::int64_t>(bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1);
  const std::int64_t least = is_signed_integer(dtype) ? -greatest - 1 : 0;
  return filled(shape, Tensor::scalar_int(dtype, is_max ? least : greatest));
}

/// Integers take part in roots and logarithms as f32, and come back as the integers they were.
template <typename Function>
Result<Outputs> through_floats(const NodeContext& node, Function function) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  const Tensor& x = node.tensor(0);
  const DType dtype = is_float(x.dtype()) ? x.dtype() : DType::f32;
  return Outputs{truncated_to(x.dtype(), function(x.cast(dtype), reduced_axes))};
}

Result<Outputs> import_arg(const NodeContext& node, bool largest) {
  const Tensor& x = node.tensor(0);
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, 0));
  VKF_TRY(keep_dims, node.attributes().integer("keepdims", 1));
  VKF_TRY(select_last, node.attributes().integer("select_last_index", 0));
  const auto position = [&](const Tensor& values) {
    return largest ? values.argmax(axis, keep_dims != 0) : values.argmin(axis, keep_dims != 0);
  };
  if (select_last == 0) return Outputs{position(x).cast(DType::i64)};
  VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
  return Outputs{(static_cast<double>(size - 1) - position(x.reverse({axis}))).cast(DType::i64)};
}

}  // namespace

Result<Outputs> import_reduce(const NodeContext& node) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  return Outputs{reduced(node.tensor(0), node.row().primitive, reduced_axes)};
}

Result<Outputs> import_reduce_extreme(const NodeContext& node) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  if (reduces_nothing_together(node.tensor(0).shape(), reduced_axes))
    return Outputs{extreme_of_nothing(node, reduced_axes)};
  if (node.dtype() != DType::boolean) return Outputs{reduced(node.tensor(0), node.row().primitive, reduced_axes)};
  return Outputs{
      reduced(node.tensor(0), node.row().primitive == "reduce_max" ? "reduce_any" : "reduce_all", reduced_axes)};
}

Result<Outputs> import_reduce_mean(const NodeContext& node) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  const Tensor& x = node.tensor(0);
  if (is_float(x.dtype())) return Outputs{reduced(x, "reduce_mean", reduced_axes)};
  std::int64_t count = 1;
  for (const int axis : reduced_axes.axes) {
    VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
    count *= size;
  }
  return Outputs{reduced(x, "reduce_sum", reduced_axes) / Tensor::scalar_int(x.dtype(), count)};
}

Result<Outputs> import_reduce_l1(const NodeContext& node) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  return Outputs{reduced(op("abs", node.tensor(0)), "reduce_sum", reduced_axes)};
}

Result<Outputs> import_reduce_sum_square(const NodeContext& node) {
  VKF_TRY(reduced_axes, reduced_axes_of(node));
  return Outputs{reduced(node.tensor(0) * node.tensor(0), "reduce_sum", reduced_axes)};
}

Result<Outputs> import_reduce_l2(const NodeContext& node) {
  return through_floats(node, [](const Tensor& x, const ReducedAxes& reduced_axes) {
    return op("sqrt", reduced(x * x, "reduce_sum", reduced_axes));
  });
}

Result<Outputs> import_reduce_log_sum(const NodeContext& node) {
  return through_floats(node, [](const Tensor& x, const ReducedAxes& reduced_axes) {
    return op("log", reduced(x, "reduce_sum", reduced_axes));
  });
}

Result<Outputs> import_reduce_log_sum_exp(const NodeContext& node) { return through_floats(node, log_sum_exp); }

Result<Outputs> import_arg_max(const NodeContext& node) { return import_arg(node, true); }

Result<Outputs> import_arg_min(const NodeContext& node) { return import_arg(node, false); }

Result<Outputs> import_cumulative(const NodeContext& node) {
  VKF_TRY(stated, known_integer(node, 1, "axis"));
  VKF_TRY(axis, checked_axis(stated, node.tensor(0).shape().size(), "The axis (operand 1)"));
  VKF_TRY(exclusive, node.attributes().integer("exclusive", 0));
  VKF_TRY(reverse, node.attributes().integer("reverse", 0));
  const Tensor& x = node.tensor(0);
  if (node.row().primitive == "cumprod") return Outputs{x.cumprod(axis, exclusive != 0, reverse != 0)};
  return Outputs{x.cumsum(axis, exclusive != 0, reverse != 0)};
}

}  // namespace vkfuse::onnx

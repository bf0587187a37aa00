// Reductions over axes, positions of extremes, and running sums.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

/// What a reduction folds away; no axes means that it changes no shape.
struct Folding {
  std::vector<int> axes;
  bool keep_dims = true;
};

Result<Folding> folding_of(const NodeContext& node) {
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
  return Folding{std::move(axes), keep_dims != 0};
}

Tensor folded(const Tensor& x, std::string_view reduction, const Folding& folding) {
  // An empty list would mean all axes.
  return folding.axes.empty() ? x : x.reduce(reduction, folding.axes, folding.keep_dims);
}

bool folds_nothing_together(const Shape& shape, const Folding& folding) {
  return std::ranges::any_of(folding.axes, [&](int axis) { return shape[static_cast<std::size_t>(axis)] == Dim(0); });
}

Tensor without(Tensor tensor, const Folding& folding) {
  if (folding.keep_dims) return tensor;
  for (auto axis = folding.axes.rbegin(); axis != folding.axes.rend(); ++axis) tensor = tensor.squeeze(*axis);
  return tensor;
}

/// log(sum(exp(x))) about the largest element, so that no exponential overflows.
Tensor log_sum_exp(const Tensor& x, const Folding& folding) {
  // Of nothing there is no largest element; the logarithm of the empty sum is -infinity.
  if (folds_nothing_together(x.shape(), folding)) return op("log", folded(x, "reduce_sum", folding));
  const Folding kept{folding.axes, true};
  const Tensor largest = folded(x, "reduce_max", kept);
  // An infinity minus itself is NaN: about 0 the sum is the infinity, or the zero, that it should be.
  const Tensor centre = select(op("is_finite", largest), largest, Tensor::scalar(x.dtype(), 0));
  return without(op("log", folded(op("exp", x - centre), "reduce_sum", kept)) + centre, folding);
}

/// The largest of no elements is less than any other, the smallest greater.
Tensor extreme_of_nothing(const NodeContext& node, const Folding& folding) {
  const bool is_max = node.row().primitive == "reduce_max";
  const DType dtype = node.dtype();
  Shape shape = node.tensor(0).shape();
  for (auto axis = folding.axes.rbegin(); axis != folding.axes.rend(); ++axis) {
    if (folding.keep_dims) {
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
  VKF_TRY(folding, folding_of(node));
  const Tensor& x = node.tensor(0);
  const DType dtype = is_float(x.dtype()) ? x.dtype() : DType::f32;
  return Outputs{function(x.cast(dtype), folding).cast(x.dtype())};
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
  VKF_TRY(folding, folding_of(node));
  return Outputs{folded(node.tensor(0), node.row().primitive, folding)};
}

Result<Outputs> import_reduce_extreme(const NodeContext& node) {
  VKF_TRY(folding, folding_of(node));
  if (folds_nothing_together(node.tensor(0).shape(), folding)) return Outputs{extreme_of_nothing(node, folding)};
  if (node.dtype() != DType::boolean) return Outputs{folded(node.tensor(0), node.row().primitive, folding)};
  return Outputs{folded(node.tensor(0), node.row().primitive == "reduce_max" ? "reduce_any" : "reduce_all", folding)};
}

Result<Outputs> import_reduce_mean(const NodeContext& node) {
  VKF_TRY(folding, folding_of(node));
  const Tensor& x = node.tensor(0);
  if (is_float(x.dtype())) return Outputs{folded(x, "reduce_mean", folding)};
  std::int64_t count = 1;
  for (const int axis : folding.axes) {
    VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
    count *= size;
  }
  return Outputs{folded(x, "reduce_sum", folding) / Tensor::scalar_int(x.dtype(), count)};
}

Result<Outputs> import_reduce_l1(const NodeContext& node) {
  VKF_TRY(folding, folding_of(node));
  return Outputs{folded(op("abs", node.tensor(0)), "reduce_sum", folding)};
}

Result<Outputs> import_reduce_sum_square(const NodeContext& node) {
  VKF_TRY(folding, folding_of(node));
  return Outputs{folded(node.tensor(0) * node.tensor(0), "reduce_sum", folding)};
}

Result<Outputs> import_reduce_l2(const NodeContext& node) {
  return through_floats(
      node, [](const Tensor& x, const Folding& folding) { return op("sqrt", folded(x * x, "reduce_sum", folding)); });
}

Result<Outputs> import_reduce_log_sum(const NodeContext& node) {
  return through_floats(
      node, [](const Tensor& x, const Folding& folding) { return op("log", folded(x, "reduce_sum", folding)); });
}

Result<Outputs> import_reduce_log_sum_exp(const NodeContext& node) { return through_floats(node, log_sum_exp); }

Result<Outputs> import_arg_max(const NodeContext& node) { return import_arg(node, true); }

Result<Outputs> import_arg_min(const NodeContext& node) { return import_arg(node, false); }

Result<Outputs> import_cum_sum(const NodeContext& node) {
  VKF_TRY(stated, known_integer(node, 1, "axis"));
  VKF_TRY(axis, checked_axis(stated, node.tensor(0).shape().size(), "The axis (operand 1)"));
  VKF_TRY(exclusive, node.attributes().integer("exclusive", 0));
  VKF_TRY(reverse, node.attributes().integer("reverse", 0));
  return Outputs{node.tensor(0).cumsum(axis, exclusive != 0, reverse != 0)};
}

}  // namespace vkfuse::onnx

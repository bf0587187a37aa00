// Reductions, scans and sorts.
#include <algorithm>

#include "api/tensor_node.hpp"

namespace vkfuse {

using api::build_tensor;
using api::counted_axis;

namespace {

Tensor scanned(const Tensor& x, std::string_view op, int axis, bool exclusive, bool reverse) {
  return build_tensor(ops::row(op), {x}, {}, ir::ScanPayload{counted_axis(axis, x.shape().size()), exclusive, reverse});
}

/// The only element of a scalar, if the reduction is offered on its dtype.
Tensor of_scalar(const Tensor& x, const ops::OpRow& op) {
  const DType dtypes[] = {x.dtype()};
  auto dtype = ops::infer_dtype(op, dtypes, {});
  return dtype ? x : Tensor::failed(std::move(dtype).error());
}

}  // namespace

Tensor Tensor::reduce(std::string_view op, std::vector<int> axes, bool keep_dims) const {
  const ops::OpRow* row = ops::find(op);
  if (!valid()) return *this;
  if (row == nullptr || row->cls != ops::OpClass::reduce)
    return failed(invalid("'{}' is not the name of a reduction.", op));
  const std::size_t rank = shape().size();
  if (rank == 0 && axes.empty() && row->reduction.kind != ops::Reduction::Kind::arg) return of_scalar(*this, *row);
  if (axes.empty()) {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int>(i));
  }
  for (int& axis : axes) axis = counted_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  const Tensor reduced = build_tensor(*row, {*this}, {}, ir::AxesPayload{axes});
  if (!reduced.valid() || !keep_dims) return reduced;
  Shape kept = shape();
  for (int axis : axes) kept[static_cast<std::size_t>(axis)] = Dim(1);
  return reduced.reshape(std::move(kept));
}

Tensor Tensor::sum(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_sum", std::move(axes), keep_dims);
}
Tensor Tensor::prod(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_prod", std::move(axes), keep_dims);
}
Tensor Tensor::mean(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_mean", std::move(axes), keep_dims);
}
Tensor Tensor::max(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_max", std::move(axes), keep_dims);
}
Tensor Tensor::min(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_min", std::move(axes), keep_dims);
}
Tensor Tensor::any(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_any", std::move(axes), keep_dims);
}
Tensor Tensor::all(std::vector<int> axes, bool keep_dims) const {
  return reduce("reduce_all", std::move(axes), keep_dims);
}
Tensor Tensor::argmax(int axis, bool keep_dims) const { return reduce("argmax", {axis}, keep_dims); }
Tensor Tensor::argmin(int axis, bool keep_dims) const { return reduce("argmin", {axis}, keep_dims); }

Tensor Tensor::cumsum(int axis, bool exclusive, bool reverse) const {
  return scanned(*this, "cumsum", axis, exclusive, reverse);
}
Tensor Tensor::cumprod(int axis, bool exclusive, bool reverse) const {
  return scanned(*this, "cumprod", axis, exclusive, reverse);
}
Tensor Tensor::cummax(int axis, bool exclusive, bool reverse) const {
  return scanned(*this, "cummax", axis, exclusive, reverse);
}
Tensor Tensor::cummin(int axis, bool exclusive, bool reverse) const {
  return scanned(*this, "cummin", axis, exclusive, reverse);
}

Tensor Tensor::argsort(int axis, bool descending, std::int64_t count) const {
  const int at = counted_axis(axis, shape().size());
  const bool exists = at >= 0 && at < static_cast<int>(shape().size());
  if (count == 0 && exists) count = shape()[static_cast<std::size_t>(at)].size();  // 0 of a symbol: all of it
  return build_tensor(ops::row("argsort"), {*this}, {}, ir::SortPayload{at, descending, count});
}

Tensor api::largest_along(const Tensor& x, int axis) {
  // Without the axis it is a new node; with it, a view, which may be another tensor itself.
  const Tensor largest = as_constant(x.max({axis}));
  if (!largest.valid()) return largest;
  return largest.unsqueeze(counted_axis(axis, x.shape().size()));
}

}  // namespace vkfuse

#include "onnx/positions.hpp"

#include <algorithm>

#include "ir/graph.hpp"
#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/known_values.hpp"
#include "onnx/operands.hpp"

namespace vkfuse::onnx {
namespace {

Shape ramp_along(std::size_t rank, std::size_t axis, std::int64_t size) {
  Shape shape(rank, Dim(1));
  shape[axis] = size;
  return shape;
}

/// Tuples of known indices, each within the axis it indexes.
Result<void> check_tuples(const TensorData& indices, const Shape& input, std::size_t batch, std::size_t axes) {
  for (std::size_t i = 0; i < element_count(indices); ++i) {
    const std::size_t axis = batch + i % axes;
    const std::int64_t index = element_int(indices, i);
    const std::int64_t size = input[axis].size();
    if (index >= -size && index < size) continue;
    return invalid("The index {} lies outside axis {} of {} elements.", index, axis, size);
  }
  return {};
}

/// Row of each tuple, in the shape of the indices without their last axis.
Tensor rows_of_tuples(const Tensor& indices, const FlatPositions& flat, const Shape& input) {
  const std::size_t rank = indices.shape().size() - 1;
  const DType dtype = position_dtype(flat.rows);
  Tensor row = Tensor::scalar_int(dtype, 0);
  std::int64_t stride = 1;
  for (std::size_t axis = flat.batch + flat.axes; axis-- > 0;) {
    const std::int64_t size = input[axis].size();
    Tensor coordinate = Tensor::scalar_int(dtype, 0);
    if (axis < flat.batch) {
      coordinate = Tensor::iota(dtype, ramp_along(rank, axis, size), static_cast<int>(axis));
    } else {
      const Tensor index = indices.select(-1, static_cast<std::int64_t>(axis - flat.batch)).cast(dtype);
      coordinate = select(op("lt", index, 0), index + Tensor::scalar_int(dtype, size), index);
    }
    row = row + coordinate * Tensor::scalar_int(dtype, stride);
    stride *= size;
  }
  return row;
}

}  // namespace

Tensor FlatPositions::rows_of(const Tensor& x) const {
  Shape shape{rows};
  shape.insert(shape.end(), x.shape().begin() + static_cast<int>(batch + axes), x.shape().end());
  return x.reshape(std::move(shape));
}

Result<FlatPositions> flat_positions(const Value& indices, const Shape& input, std::size_t batch) {
  const Shape& shape = indices.tensor.shape();
  VKF_TRY(axes, static_size(shape, shape.size() - 1));
  if (axes < 1 || batch + static_cast<std::size_t>(axes) > input.size()) {
    return invalid("The last dimension of the indices is {}; the input {} has {} axes to index.", axes, to_text(input),
                   input.size() - batch);
  }
  FlatPositions flat{indices.tensor, 0, static_cast<std::size_t>(axes), 0, batch};
  VKF_TRY(count, static_count(shape, 0, shape.size() - 1));
  VKF_TRY(rows, static_count(input, 0, batch + flat.axes));
  flat.count = count;
  flat.rows = rows;
  if (indices.known) VKF_CHECK_OK(check_tuples(*indices.known, input, batch, flat.axes));
  const Tensor row = rows_of_tuples(indices.tensor, flat, input);
  const Tensor stretched = row.broadcast_to(Shape(shape.begin(), shape.end() - 1));
  flat.positions = folded(stretched.reshape({count})).tensor;
  return flat;
}

Result<Tensor> positions(const Value& indices, std::int64_t size) {
  const DType dtype = position_dtype(size);
  if (!indices.known) {
    const Tensor index = indices.tensor.cast(dtype);
    return select(op("lt", index, 0), index + Tensor::scalar_int(dtype, size), index);
  }
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < element_count(*indices.known); ++i) {
    const std::int64_t value = element_int(*indices.known, i);
    if (value < -size || value >= size) {
      return invalid("The index {} lies outside an axis of {} elements.", value, size);
    }
    values.push_back(value < 0 ? value + size : value);
  }
  return position_constant(values, indices.tensor.shape(), dtype);
}

}  // namespace vkfuse::onnx

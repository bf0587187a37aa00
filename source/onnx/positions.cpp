#include "onnx/positions.hpp"

#include <algorithm>

#include "ir/graph.hpp"
#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/known_values.hpp"
#include "onnx/operands.hpp"

namespace vkfuse::onnx {
namespace {

/// More views than this in one concatenation cost more than loading an index per element.
constexpr std::size_t kMaxRuns = 4;

/// Positions start, start + step, ...; a step of 0 repeats one element.
struct Run {
  std::int64_t start = 0, step = 0, count = 0;
};

/// The fewest runs that a left-to-right reading finds; more than kMaxRuns are not worth finishing.
std::vector<Run> runs_of(const std::vector<std::int64_t>& requested) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < requested.size() && runs.size() <= kMaxRuns;) {
    Run run{requested[i], i + 1 < requested.size() ? requested[i + 1] - requested[i] : 1, 1};
    for (++i; i < requested.size() && requested[i] - requested[i - 1] == run.step; ++i) ++run.count;
    if (run.count == 1) run.step = 1;
    runs.push_back(run);
  }
  return runs;
}

/// How often each position is repeated, if all are equally often: 0,0,1,1,2,2.
std::int64_t times_each(const std::vector<std::int64_t>& requested) {
  std::size_t times = 1;
  while (times < requested.size() && requested[times] == requested[0]) ++times;
  if (requested.size() % times != 0) return 1;
  for (std::size_t i = 0; i < requested.size(); ++i) {
    if (requested[i] != requested[i / times * times]) return 1;
  }
  return static_cast<std::int64_t>(times);
}

Shape with_size(Shape shape, int axis, Dim size) {
  shape[static_cast<std::size_t>(axis)] = std::move(size);
  return shape;
}

Tensor run_of(const Tensor& x, int axis, const Run& run) {
  if (run.step == 0) {
    return x.slice(axis, run.start, run.start + 1).broadcast_to(with_size(x.shape(), axis, run.count));
  }
  const std::int64_t last = run.start + (run.count - 1) * run.step;
  // Before element 0 there is no element -1: NumPy counts that from the end.
  const std::int64_t end = run.step > 0 ? last + 1 : last == 0 ? INT64_MIN : last - 1;
  return x.slice(axis, run.start, end, run.step);
}

Tensor repeated(const Tensor& x, int axis, std::int64_t times, std::int64_t size) {
  if (!x.valid()) return x;
  const auto at = static_cast<std::size_t>(axis);
  Shape stretched = x.shape();
  stretched[at] = size;
  const Shape merged = with_size(x.shape(), axis, size * times);
  stretched.insert(stretched.begin() + axis + 1, Dim(times));
  return x.unsqueeze(axis + 1).broadcast_to(stretched).reshape(merged);
}

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

DType position_dtype(std::int64_t size) { return size <= INT32_MAX ? DType::i32 : DType::i64; }

Tensor position_constant(const std::vector<std::int64_t>& values, Shape shape, DType dtype) {
  std::vector<std::byte> bytes;
  for (const std::int64_t value : values) ir::encode_int(dtype, value, bytes);
  return Tensor::constant(dtype, std::move(shape), bytes);
}

Tensor real_constant(const std::vector<double>& values, Shape shape, DType dtype) {
  std::vector<std::byte> bytes;
  for (const double value : values) ir::encode(dtype, value, bytes);
  return Tensor::constant(dtype, std::move(shape), bytes);
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

Tensor take(const Tensor& x, int axis, const std::vector<std::int64_t>& requested) {
  if (!x.valid()) return x;
  if (requested.empty()) return x.slice(axis, 0, 0);
  const std::int64_t times = times_each(requested);
  if (times > 1 && static_cast<std::size_t>(times) < requested.size()) {
    std::vector<std::int64_t> once;
    for (std::size_t i = 0; i < requested.size(); i += static_cast<std::size_t>(times)) once.push_back(requested[i]);
    return repeated(take(x, axis, once), axis, times, static_cast<std::int64_t>(once.size()));
  }
  const std::vector<Run> runs = runs_of(requested);
  if (runs.size() > kMaxRuns) {
    const std::int64_t highest = *std::ranges::max_element(requested);
    return x.gather(
        position_constant(requested, {static_cast<std::int64_t>(requested.size())}, position_dtype(highest)), axis);
  }
  std::vector<Tensor> parts;
  for (const Run& run : runs) parts.push_back(run_of(x, axis, run));
  return parts.size() == 1 ? parts[0] : concat(parts, axis);
}

}  // namespace vkfuse::onnx

// Reading at positions that are data.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/symbolic_sizes.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::onnx {
namespace {

Result<void> check_integers(const NodeContext& node, int operand) {
  if (is_integer(node.dtype(operand))) return {};
  return invalid("The indices (operand {}) are {}; they must be integers.", operand, name_of(node.dtype(operand)));
}

/// A known list of positions, counted from 0.
std::vector<std::int64_t> counted_from_start(const TensorData& indices, std::int64_t size) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < element_count(indices); ++i) {
    const std::int64_t index = element_int(indices, i);
    result.push_back(index < 0 ? index + size : index);
  }
  return result;
}

/// Indices of an axis whose size only a run tells: those that are negative count from there.
Tensor positions_along_symbol(const Value& indices, const Dim& size) {
  const Tensor& index = indices.tensor;
  bool may_be_negative = !indices.known;
  for (std::size_t i = 0; indices.known && i < element_count(*indices.known); ++i)
    may_be_negative |= element_int(*indices.known, i) < 0;
  const Tensor narrow = index.dtype() == DType::i64 || index.dtype() == DType::u32 ? index : index.cast(DType::i32);
  if (!may_be_negative || !is_signed_integer(narrow.dtype())) return narrow;
  return select(op("lt", narrow, 0), narrow + size_tensor(size).cast(narrow.dtype()), narrow);
}

/// The same dimensions, for symbols too.
bool same_dims(const Shape& a, const Shape& b, std::size_t count) {
  return a.size() >= count && b.size() >= count &&
         std::equal(a.begin(), a.begin() + static_cast<int>(count), b.begin());
}

}  // namespace

Result<Outputs> import_gather(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_CHECK_OK(check_integers(node, 1));
  VKF_TRY(axis, axis_attribute(node, 0));
  const Tensor& x = node.tensor(0);
  if (x.shape()[static_cast<std::size_t>(axis)].is_symbol())
    return Outputs{x.gather(positions_along_symbol(node.value(1), x.shape()[static_cast<std::size_t>(axis)]), axis)};
  VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
  VKF_TRY(indices, positions(node.value(1), size));
  if (!node.value(1).known || node.value(1).known->sizes.size() > 1) return Outputs{x.gather(indices, axis)};
  const std::vector<std::int64_t> requested = counted_from_start(*node.value(1).known, size);
  if (node.value(1).known->sizes.empty()) return Outputs{x.select(axis, requested[0])};
  return Outputs{take(x, axis, requested)};
}

Result<Outputs> import_gather_elements(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_CHECK_OK(check_integers(node, 1));
  VKF_TRY(axis, axis_attribute(node, 0));
  const Shape& shape = node.tensor(0).shape();
  const Shape& requested = node.tensor(1).shape();
  VKF_TRY(size, static_size(shape, static_cast<std::size_t>(axis)));
  VKF_TRY(indices, positions(node.value(1), size));
  if (requested.size() != shape.size()) {
    return invalid("The indices have rank {}; the input has rank {}.", requested.size(), shape.size());
  }
  // Only the part of the input that the indices cover is read.
  Tensor x = node.tensor(0);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int>(i) == axis || requested[i] == shape[i]) continue;
    VKF_TRY(whole, static_size(shape, i));
    VKF_TRY(part, static_size(requested, i));
    if (part > whole) {
      return invalid("The indices are {}; outside axis {} they must not exceed the input {}.", to_text(requested), axis,
                     to_text(shape));
    }
    x = x.slice(static_cast<int>(i), 0, part);
  }
  return Outputs{x.take_along(indices, axis)};
}

Result<Outputs> import_gather_nd(const NodeContext& node) {
  VKF_CHECK_OK(check_integers(node, 1));
  VKF_TRY(batch, node.attributes().integer("batch_dims", 0));
  const Tensor& x = node.tensor(0);
  const Shape& indexed = node.tensor(1).shape();
  if (indexed.empty() || batch < 0 || static_cast<std::size_t>(batch) >= indexed.size() ||
      static_cast<std::size_t>(batch) > x.shape().size()) {
    return invalid("Attribute 'batch_dims' is {}; the input is {}, the indices {}.", batch, to_text(x.shape()),
                   to_text(indexed));
  }
  const auto skipped = static_cast<std::size_t>(batch);
  if (!same_dims(x.shape(), indexed, skipped)) {
    return invalid("The first {} dimensions of the input {} and of the indices {} must be equal.", batch,
                   to_text(x.shape()), to_text(indexed));
  }
  VKF_TRY(flat, flat_positions(node.value(1), x.shape(), skipped));
  Shape result(indexed.begin(), indexed.end() - 1);
  const std::size_t first_kept = skipped + flat.axes;
  result.insert(result.end(), x.shape().begin() + static_cast<int>(first_kept), x.shape().end());
  return Outputs{flat.rows_of(x).gather(flat.positions, 0).reshape(result)};
}

Result<Outputs> import_compress(const NodeContext& node) {
  VKF_TRY(condition, node.known(1, "condition"));
  if (condition.dtype != DType::boolean || condition.sizes.size() != 1) {
    return invalid("The condition (operand 1) is {} of rank {}; it must be a list of bool.", name_of(condition.dtype),
                   condition.sizes.size());
  }
  int axis = 0;
  Tensor x = node.tensor(0);
  VKF_TRY(size, static_count(x.shape(), 0, x.shape().size()));
  if (node.attributes().has("axis")) {
    VKF_TRY(stated, axis_attribute(node, 0));
    axis = stated;
    size = x.shape()[static_cast<std::size_t>(axis)].size();
  } else {
    x = x.reshape({size});
  }
  if (condition.sizes[0] > size) {
    return invalid("The condition has {} elements; the axis has {}.", condition.sizes[0], size);
  }
  std::vector<std::int64_t> requested;
  for (std::size_t i = 0; i < element_count(condition); ++i) {
    if (element_int(condition, i) != 0) requested.push_back(static_cast<std::int64_t>(i));
  }
  return Outputs{take(x, axis, requested)};
}

Result<Outputs> import_one_hot(const NodeContext& node) {
  VKF_TRY(depths, node.known(1, "depth"));
  const Shape& shape = node.tensor(0).shape();
  if (element_count(depths) != 1) return invalid("The depth (operand 1) has {} elements.", element_count(depths));
  const std::int64_t depth = element_int(depths, 0);
  if (depth < 0 || depth > INT32_MAX) return invalid("The depth (operand 1) is {}.", depth);
  if (node.tensor(2).shape() != Shape{2}) {
    return invalid("The values (operand 2) are {}; they must be the off and the on value.",
                   to_text(node.tensor(2).shape()));
  }
  VKF_TRY(stated, node.attributes().integer("axis", -1));
  VKF_TRY(axis, checked_axis(stated, shape.size() + 1, "Attribute 'axis' of the result"));
  const Tensor index = node.tensor(0).cast(DType::i32);
  return Outputs{one_hot(index, depth, node.tensor(2).select(0, 1), node.tensor(2).select(0, 0), axis)};
}

Result<Outputs> import_reverse_sequence(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Tensor& x = node.tensor(0);
  const std::size_t rank = x.shape().size();
  VKF_TRY(stated_batch, node.attributes().integer("batch_axis", 1));
  VKF_TRY(stated_time, node.attributes().integer("time_axis", 0));
  VKF_TRY(batch, checked_axis(stated_batch, rank, "Attribute 'batch_axis'"));
  VKF_TRY(time, checked_axis(stated_time, rank, "Attribute 'time_axis'"));
  if (batch == time) return invalid("Attributes 'batch_axis' and 'time_axis' are both {}.", batch);
  const Dim& count = x.shape()[static_cast<std::size_t>(batch)];
  if (node.tensor(1).shape() != Shape{count}) {
    return invalid("The sequence lengths (operand 1) are {}; the batch has {}.", to_text(node.tensor(1).shape()),
                   count.text());
  }
  Shape column(rank, Dim(1)), ramp(rank, Dim(1));
  column[static_cast<std::size_t>(batch)] = count;
  ramp[static_cast<std::size_t>(time)] = x.shape()[static_cast<std::size_t>(time)];
  const Tensor length = node.tensor(1).cast(DType::i32).reshape(column);
  const Tensor step = Tensor::iota(DType::i32, ramp, time);
  return Outputs{x.take_along(select(op("lt", step, length), length - step - 1.0, step), time)};
}

}  // namespace vkfuse::onnx

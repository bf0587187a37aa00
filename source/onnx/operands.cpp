#include "onnx/operands.hpp"

#include <algorithm>

#include "onnx/host_tensor.hpp"
#include "onnx/operator_table.hpp"

namespace vkfuse::onnx {

Result<int> checked_axis(std::int64_t axis, std::size_t rank, std::string_view what) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) return invalid("{} is {}; the input has rank {}.", what, axis, rank);
  return static_cast<int>(axis < 0 ? axis + count : axis);
}

Result<std::vector<int>> checked_axes(const std::vector<std::int64_t>& axes, std::size_t rank, std::string_view what) {
  std::vector<int> result;
  for (const std::int64_t stated : axes) {
    VKF_TRY(axis, checked_axis(stated, rank, what));
    if (std::ranges::find(result, axis) != result.end()) {
      return invalid("{} is {}, which is listed twice in [{}].", what, stated, fmt::join(axes, ", "));
    }
    result.push_back(axis);
  }
  return result;
}

Result<int> axis_attribute(const NodeContext& node, std::int64_t otherwise) {
  VKF_TRY(axis, node.attributes().integer("axis", otherwise));
  return checked_axis(axis, node.tensor(0).shape().size(), "Attribute 'axis'");
}

Result<std::optional<std::vector<std::int64_t>>> stated_list(const NodeContext& node, std::string_view attribute,
                                                             int operand) {
  using List = std::optional<std::vector<std::int64_t>>;
  if (node.attributes().has(attribute)) {
    VKF_TRY(list, node.attributes().integers(attribute));
    return List(std::move(list));
  }
  if (!node.has(operand)) return List();
  VKF_TRY(list, node.known_list(operand, attribute));
  return List(std::move(list));
}

Result<std::int64_t> known_integer(const NodeContext& node, int operand, std::string_view what) {
  VKF_TRY(data, node.known(operand, what));
  if (is_float(data.dtype) || element_count(data) != 1) {
    return invalid("The {} (operand {}) must be one integer; it is {} of {} elements.", what, operand,
                   name_of(data.dtype), element_count(data));
  }
  return element_int(data, 0);
}

Result<std::int64_t> static_size(const Shape& shape, std::size_t axis) {
  if (shape[axis].is_symbol()) {
    return unsupported("Dimension {} of {} is only known when the program runs; give it a size when importing.", axis,
                       to_text(shape));
  }
  return shape[axis].size();
}

Result<Sizes> static_sizes(const Shape& shape) {
  Sizes sizes;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    VKF_TRY(size, static_size(shape, axis));
    sizes.push_back(size);
  }
  return sizes;
}

Result<std::int64_t> static_count(const Shape& shape, std::size_t first, std::size_t last) {
  Sizes sizes;
  for (std::size_t axis = first; axis < last; ++axis) {
    VKF_TRY(size, static_size(shape, axis));
    sizes.push_back(size);
  }
  return vkfuse::element_count(sizes);
}

Dim merged(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t count = 1;
  std::optional<Dim> symbol;
  for (std::size_t axis = first; axis < last; ++axis) {
    if (!shape[axis].is_symbol()) {
      count *= shape[axis].size();
    } else if (symbol) {
      return -1;
    } else {
      symbol = shape[axis];
    }
  }
  if (!symbol) return count;
  return count == 1 ? *symbol : Dim(-1);
}

Result<void> check_rank(const NodeContext& node, int operand, std::size_t least) {
  const std::size_t rank = node.tensor(operand).shape().size();
  if (rank >= least) return {};
  return invalid("Operand {} of operator '{}' has rank {}; it must be at least {}.", operand, node.row().name, rank,
                 least);
}

Result<Tensor> along_axis(const NodeContext& node, int operand, int axis) {
  const Shape& input = node.tensor(0).shape();
  const Tensor& channels = node.tensor(operand);
  const Dim& size = input[static_cast<std::size_t>(axis)];
  if (channels.shape().size() != 1 || !(channels.shape()[0] == size)) {
    return invalid("Operand {} has the shape {}, but axis {} of the input {} asks for [{}].", operand,
                   to_text(channels.shape()), axis, to_text(input), size.text());
  }
  Shape shape(input.size() - static_cast<std::size_t>(axis), Dim(1));
  if (shape.size() == 1) return channels;  // broadcasting aligns the innermost axis by itself
  shape[0] = size;
  return channels.reshape(std::move(shape));
}

Result<Sizes> known_sizes(const NodeContext& node, int operand) {
  VKF_TRY(shape, known_shape(node, operand));
  return static_sizes(shape);
}

Result<Shape> known_shape(const NodeContext& node, int operand) {
  VKF_TRY(dims, node.known_dims(operand, "shape"));
  Shape shape;
  Sizes numbers;
  for (const std::optional<Dim>& dim : dims) {
    if (!dim) return unsupported("Entry {} of the shape operand is only known when the program runs.", shape.size());
    if (!dim->is_symbol()) {
      if (dim->size() < 0) return invalid("The shape operand holds {}; sizes are not negative.", dim->size());
      numbers.push_back(dim->size());
    }
    shape.push_back(*dim);
  }
  if (!byte_count(DType::f64, numbers)) {
    return invalid("The shape operand is {}, more elements than fit 64 bits.", to_text(shape));
  }
  return shape;
}

}  // namespace vkfuse::onnx

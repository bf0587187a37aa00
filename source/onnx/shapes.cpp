// Operators that give the same elements another shape or order.
#include <algorithm>
#include <functional>
#include <numeric>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// One entry of Reshape's operand: 0 copies the input's dimension, -1 takes what remains. So does what is neither a
/// number nor a symbol: the model is sound only if it comes to that.
Result<Dim> reshaped_dim(const Shape& input, std::size_t axis, const std::optional<Dim>& stated, bool zero_is_size) {
  if (!stated) return Dim(-1);
  if (stated->is_symbol()) return *stated;
  const std::int64_t size = stated->size();
  if (size < -1) return invalid("The shape operand holds {}; sizes are not negative, except for one -1.", size);
  if (size != 0 || zero_is_size) return Dim(size);
  if (axis < input.size()) return input[axis];
  return invalid("Entry {} of the shape operand copies a dimension of the input, which has rank {}.", axis,
                 input.size());
}

/// The block size, and that it divides what it must.
Result<std::int64_t> block_size(const NodeContext& node) {
  if (!node.attributes().has("blocksize")) return invalid("Attribute 'blocksize' is missing.");
  VKF_TRY(block, node.attributes().integer("blocksize", 0));
  constexpr std::int64_t kMost = 1 << 15;  // its square is still a size
  if (block < 1 || block > kMost) return invalid("Attribute 'blocksize' is {}; it must be 1 to {}.", block, kMost);
  if (node.tensor(0).shape().size() != 4) {
    return invalid("The input has rank {}; operator {} takes rank 4.", node.tensor(0).shape().size(),
                   in_quotes(node.row().name));
  }
  return block;
}

/// Whether the block is the outer part of the channels ("DCR") or the inner one ("CRD").
Result<bool> block_is_outer(const NodeContext& node) {
  VKF_TRY(mode, node.attributes().text("mode", "DCR"));
  if (mode == "DCR" || mode == "CRD") return mode == "DCR";
  return invalid("Attribute 'mode' is {}; it must be 'DCR' or 'CRD'.", in_quotes(mode));
}

Result<std::int64_t> divided(const Shape& shape, std::size_t axis, std::int64_t by) {
  VKF_TRY(size, static_size(shape, axis));
  if (size % by == 0) return size / by;
  return invalid("Dimension {} of {} is not a multiple of {}.", axis, to_text(shape), by);
}

}  // namespace

Result<Outputs> import_reshape(const NodeContext& node) {
  VKF_TRY(sizes, node.known_dims(1, "shape"));
  VKF_TRY(allow_zero, node.attributes().integer("allowzero", 0));
  Shape shape;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    VKF_TRY(dim, reshaped_dim(node.tensor(0).shape(), axis, sizes[axis], allow_zero != 0));
    shape.push_back(std::move(dim));
  }
  if (std::ranges::count(shape, Dim(-1)) > 1) {
    if (std::ranges::any_of(sizes, [](const std::optional<Dim>& dim) { return !dim; }))
      return unsupported("The shape operand is only known when the program runs, but for {}.", to_text(shape));
    return invalid("The shape operand is {}; only one entry may be -1.", to_text(shape));
  }
  return Outputs{node.tensor(0).reshape(std::move(shape))};
}

Result<Outputs> import_flatten(const NodeContext& node) {
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(stated, node.attributes().integer("axis", 1));
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (stated < -rank || stated > rank) return invalid("Attribute 'axis' is {}; the input has rank {}.", stated, rank);
  const auto axis = static_cast<std::size_t>(stated < 0 ? stated + rank : stated);
  return Outputs{node.tensor(0).reshape({merged(shape, 0, axis), merged(shape, axis, shape.size())})};
}

Result<Outputs> import_squeeze(const NodeContext& node) {
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(stated, stated_list(node, "axes", 1));
  std::vector<int> axes;
  if (stated) {
    VKF_TRY(checked, checked_axes(*stated, shape.size(), "An axis to squeeze"));
    axes = std::move(checked);
  } else {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == Dim(1)) axes.push_back(static_cast<int>(axis));
    }
  }
  std::ranges::sort(axes, std::greater<>());
  Tensor result = node.tensor(0);
  for (const int axis : axes) result = result.squeeze(axis);
  return Outputs{std::move(result)};
}

Result<Outputs> import_unsqueeze(const NodeContext& node) {
  VKF_TRY(stated, stated_list(node, "axes", 1));
  if (!stated) return invalid("Attribute 'axes' is missing.");
  const std::size_t rank = node.tensor(0).shape().size() + stated->size();
  VKF_TRY(axes, checked_axes(*stated, rank, "An axis of the unsqueezed result"));
  std::ranges::sort(axes);
  Tensor result = node.tensor(0);
  for (const int axis : axes) result = result.unsqueeze(axis);
  return Outputs{std::move(result)};
}

Result<Outputs> import_transpose(const NodeContext& node) {
  const std::size_t rank = node.tensor(0).shape().size();
  VKF_TRY(stated, node.attributes().integers("perm"));
  if (!node.attributes().has("perm")) {
    stated.resize(rank);
    std::iota(stated.rbegin(), stated.rend(), 0);
  }
  if (stated.size() != rank) {
    return invalid("Attribute 'perm' has {} entries; the input has rank {}.", stated.size(), rank);
  }
  VKF_TRY(axes, checked_axes(stated, rank, "An entry of attribute 'perm'"));
  return Outputs{node.tensor(0).permute(std::move(axes))};
}

Result<Outputs> import_expand(const NodeContext& node) {
  VKF_TRY(requested, known_shape(node, 1));
  VKF_TRY(shape, broadcast(node.tensor(0).shape(), requested));
  return Outputs{node.tensor(0).broadcast_to(std::move(shape))};
}

Result<Outputs> import_tile(const NodeContext& node) {
  VKF_TRY(times, node.known_list(1, "repeats"));
  const std::size_t rank = node.tensor(0).shape().size();
  if (times.size() != rank) {
    return invalid("The repeats (operand 1) have {} entries; the input has rank {}.", times.size(), rank);
  }
  for (const std::int64_t time : times) {
    if (time < 0) return invalid("The repeats (operand 1) hold {}; they are not negative.", time);
  }
  return Outputs{node.tensor(0).repeat(times)};
}

Result<Outputs> import_depth_to_space(const NodeContext& node) {
  VKF_TRY(block, block_size(node));
  VKF_TRY(is_outer, block_is_outer(node));
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(depth, divided(shape, 1, block * block));
  VKF_TRY(height, static_size(shape, 2));
  VKF_TRY(width, static_size(shape, 3));
  const Shape result{shape[0], depth, height * block, width * block};
  if (is_outer) {
    const Tensor parts = node.tensor(0).reshape({shape[0], block, block, depth, height, width});
    return Outputs{parts.permute({0, 3, 4, 1, 5, 2}).reshape(result)};
  }
  const Tensor parts = node.tensor(0).reshape({shape[0], depth, block, block, height, width});
  return Outputs{parts.permute({0, 1, 4, 2, 5, 3}).reshape(result)};
}

Result<Outputs> import_space_to_depth(const NodeContext& node) {
  VKF_TRY(block, block_size(node));
  const Shape& shape = node.tensor(0).shape();
  VKF_TRY(depth, static_size(shape, 1));
  VKF_TRY(height, divided(shape, 2, block));
  VKF_TRY(width, divided(shape, 3, block));
  VKF_TRY(is_outer, block_is_outer(node));
  const Tensor parts = node.tensor(0).reshape({shape[0], depth, height, block, width, block});
  const Tensor sorted = is_outer ? parts.permute({0, 3, 5, 1, 2, 4}) : parts.permute({0, 1, 3, 5, 2, 4});
  return Outputs{sorted.reshape({shape[0], depth * block * block, height, width})};
}

}  // namespace vkfuse::onnx

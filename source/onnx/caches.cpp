// Writing into a cache of keys or values.
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {

/// Every element of the cache asks which update it gets: a read of the update, and no order in which to write.
Result<Outputs> import_tensor_scatter(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 2));
  const Tensor &cache = node.tensor(0), &update = node.tensor(1);
  VKF_TRY(axis, axis_attribute(node, -2));
  VKF_TRY(mode, node.attributes().text("mode", "linear"));
  if (mode != "linear" && mode != "circular")
    return invalid("Attribute 'mode' is {}; it must be 'linear' or 'circular'.", in_quotes(mode));
  const auto along = static_cast<std::size_t>(axis);
  if (axis == 0 || update.shape().size() != cache.shape().size()) {
    return invalid("The cache is {}, the update {}, and attribute 'axis' is {}; it is not the first of equal axes.",
                   to_text(cache.shape()), to_text(update.shape()), axis);
  }
  VKF_TRY(size, static_size(cache.shape(), along));
  VKF_TRY(written, static_size(update.shape(), along));
  if (written > size) return invalid("The update has {} positions; the cache has {}.", written, size);
  Shape ramp(cache.shape().size(), Dim(1)), starts = ramp;
  ramp[along] = size;
  starts[0] = cache.shape()[0];
  const auto number = [](std::int64_t value) { return Tensor::scalar_int(DType::i32, value); };
  Tensor from = Tensor::iota(DType::i32, ramp, axis);
  if (node.has(2)) from = from - node.tensor(2).cast(DType::i32).reshape(starts);
  if (mode == "circular") from = op("mod", from, number(size));
  const Tensor is_written = op("and", op("ge", from, number(0)), op("lt", from, number(written)));
  return Outputs{select(is_written, update.take_along(from, axis), cache)};
}

}  // namespace vkfuse::onnx

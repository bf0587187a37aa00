// Writing into a cache of keys or values.
#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {

/// In place where past and present are bound to one buffer.
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
  const bool circular = mode == "circular";
  Tensor starts = Tensor::scalar_int(DType::i32, 0);
  if (node.has(2)) starts = node.tensor(2);
  if (circular && node.has(2)) starts = op("mod", starts, Tensor::scalar_int(starts.dtype(), size));
  return Outputs{cache.update_rows(starts, update, axis, circular)};
}

}  // namespace vkfuse::onnx

// Order along an axis.
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"

namespace vkfuse::onnx {
namespace {

/// How many elements: an attribute before opset 10, an operand since.
Result<std::int64_t> stated_count(const NodeContext& node) {
  if (node.has(1)) return known_integer(node, 1, "count");
  if (!node.attributes().has("k")) return invalid("Attribute 'k' is missing.");
  return node.attributes().integer("k", 0);
}

}  // namespace

Result<Outputs> import_top_k(const NodeContext& node) {
  VKF_CHECK_OK(check_rank(node, 0, 1));
  VKF_TRY(axis, axis_attribute(node, -1));
  VKF_TRY(count, stated_count(node));
  VKF_TRY(largest, node.attributes().integer("largest", 1));
  VKF_TRY(size, static_size(node.tensor(0).shape(), static_cast<std::size_t>(axis)));
  if (count < 0 || count > size) {
    return invalid("The count of elements to keep is {}; axis {} has {}.", count, axis, size);
  }
  if (count == 0) {
    const Tensor none = node.tensor(0).slice(axis, 0, 0);
    return Outputs{none, none.cast(DType::i64)};
  }
  // Whatever 'sorted' says: a sorted result is an unsorted one too.
  const TopK best = top_k(node.tensor(0), count, axis, largest != 0);
  return Outputs{best.values, best.positions.cast(DType::i64)};
}

}  // namespace vkfuse::onnx

#include "onnx/known_values.hpp"

#include <cmath>
#include <unordered_set>

#include "api/tensor_node.hpp"
#include "onnx/host_tensor.hpp"
#include "reference/reference.hpp"

namespace vkfuse::onnx {
namespace {

/// No operator writes more nodes than this for the small values that are folded.
constexpr std::size_t kMaxNodes = 256;

/// Scales and bounds are few; more floats than these are data, which is the device's to compute.
constexpr std::int64_t kMaxFloats = 16;

std::optional<Sizes> foldable_sizes(const Tensor& tensor) {
  Sizes sizes;
  for (const Dim& dim : tensor.shape()) {
    if (dim.is_symbol()) return std::nullopt;
    sizes.push_back(dim.size());
  }
  // Standard numerics keep 16-bit floats in f32 through a kernel: their rounding is not the importer's.
  const DType dtype = tensor.dtype();
  if (dtype == DType::f16 || dtype == DType::bf16) return std::nullopt;
  const auto most = is_float(dtype) ? kMaxFloats : static_cast<std::int64_t>(kMaxComputedElements);
  const Result<std::int64_t> count = vkfuse::element_count(sizes);
  if (!count || *count > most) return std::nullopt;
  return sizes;
}

bool is_small(const Tensor& tensor) {
  Sizes sizes;
  for (const Dim& dim : tensor.shape()) {
    if (dim.is_symbol()) return false;
    sizes.push_back(dim.size());
  }
  const Result<std::int64_t> count = vkfuse::element_count(sizes);
  return count && *count <= static_cast<std::int64_t>(kMaxKnownElements);
}

/// Whether nothing but small constants and what is computed from them lies behind the tensor: a sum
/// over a gigabyte of weights is small too, and still not the host's to compute.
bool is_computed_from_constants(const Tensor& root, std::span<const Value* const> operands) {
  std::unordered_set<const Tensor::Node*> unknown;
  for (const Value* operand : operands) {
    if (operand != nullptr && !operand->known) unknown.insert(operand->tensor.node().get());
  }
  std::vector<const Tensor*> pending{&root};
  std::unordered_set<const Tensor::Node*> seen;
  while (!pending.empty()) {
    const Tensor& tensor = *pending.back();
    pending.pop_back();
    const Tensor::Node& node = *tensor.node();
    if (!seen.insert(&node).second) continue;
    const bool varies = unknown.contains(&node) || std::holds_alternative<ir::InputPayload>(node.payload) ||
                        std::holds_alternative<ir::RandomPayload>(node.payload);
    if (varies || seen.size() > kMaxNodes || !is_small(tensor)) return false;
    for (const Tensor& operand : node.operands) pending.push_back(&operand);
  }
  return true;
}

/// The elements, unless a rounding error decides one of them: those are the device's.
std::optional<TensorData> encoded(DType dtype, Sizes sizes, const reference::Column& column) {
  TensorData data{{}, dtype, std::move(sizes), {}};
  for (std::size_t i = 0; i < column.bound.size(); ++i) {
    if (std::isinf(column.bound[i])) return std::nullopt;
    if (is_float(dtype)) {
      ir::encode(dtype, column.value[i], data.bytes);
    } else {
      ir::encode_int(dtype, column.integer[i], data.bytes);
    }
  }
  return data;
}

}  // namespace

Value folded(Value value, std::span<const Value* const> operands) {
  if (value.known || !value.tensor.valid()) return value;
  std::optional<Sizes> sizes = foldable_sizes(value.tensor);
  if (!sizes || !is_computed_from_constants(value.tensor, operands)) return value;
  const Result<ir::Graph> graph = api::to_graph({&value.tensor, 1}, {}, "known");
  if (!graph) return value;
  const Result<reference::Column> column = reference::evaluate(*graph, graph->outputs()[0].value, {});
  if (!column) return value;
  std::optional<TensorData> data = encoded(value.tensor.dtype(), *std::move(sizes), *column);
  return data ? constant_value(*std::move(data)) : value;
}

}  // namespace vkfuse::onnx

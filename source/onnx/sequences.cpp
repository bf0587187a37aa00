// Sequences of tensors. Their lengths and the positions in them are known at import, so that none is left in the graph.
#include <algorithm>

#include "onnx/compose.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/tensor_proto.hpp"

namespace vkfuse::onnx {
namespace {

using Sequence = std::vector<Value>;

const Sequence& sequence_of(const NodeContext& node) { return *node.value(0).sequence; }

Result<Outputs> one(Sequence sequence) {
  VKF_TRY(value, sequence_value(std::move(sequence)));
  return Outputs{std::move(value)};
}

/// A position counted from 0. An insertion may stand behind the last element.
Result<std::size_t> position(const NodeContext& node, int operand, std::size_t length, std::size_t end) {
  VKF_TRY(stated, known_integer(node, operand, "position"));
  const auto size = static_cast<std::int64_t>(length);
  if (stated < -size || stated >= static_cast<std::int64_t>(end)) {
    return invalid("The position (operand {}) is {}; the sequence has {} elements.", operand, stated, length);
  }
  return static_cast<std::size_t>(stated < 0 ? stated + size : stated);
}

/// The sizes of SplitToSequence's parts: a list, or one size for all but the last.
Result<Sizes> split_sizes(const NodeContext& node, std::int64_t size) {
  std::int64_t each = 1;
  if (node.has(1)) {
    VKF_TRY(stated, node.known_list(1, "split"));
    if (!node.tensor(1).shape().empty()) {
      std::int64_t left = size;
      for (const std::int64_t part : stated) left = part < 0 || part > left ? -1 : left - part;
      if (left == 0) return stated;
      return invalid("The parts are [{}]; they must add up to the {} elements of the axis.", fmt::join(stated, ", "),
                     size);
    }
    each = stated.front();
  }
  if (each < 1) return invalid("The split (operand 1) is {}; it must be positive.", each);
  VKF_CHECK_OK(check_sequence_length(static_cast<std::size_t>((size - 1) / each + 1)));
  Sizes sizes;
  for (std::int64_t start = 0; start < size; start += each) sizes.push_back(std::min(each, size - start));
  return sizes;
}

}  // namespace

Result<void> check_sequence_length(std::size_t length) {
  constexpr std::size_t kMostElements = 1024;
  if (length <= kMostElements) return {};
  return unsupported("A sequence has {} elements, more than the {} that are supported.", length, kMostElements);
}

Result<Value> sequence_value(std::vector<Value> elements) {
  VKF_CHECK_OK(check_sequence_length(elements.size()));
  for (const Value& element : elements) {
    if (element.sequence) return unsupported("A sequence of sequences is not supported.");
    if (!element.tensor.valid()) return Error(element.tensor.error());
  }
  Value value(Tensor::failed(invalid("A sequence is used as a tensor.")));
  value.sequence = std::make_shared<const std::vector<Value>>(std::move(elements));
  return value;
}

Result<Outputs> import_sequence_empty(const NodeContext& node) {
  VKF_TRY(type, node.attributes().integer("dtype", pb::TensorProto::FLOAT));
  VKF_CHECK_OK(dtype_from(static_cast<int>(type), "Attribute 'dtype'"));
  return one({});
}

Result<Outputs> import_sequence_construct(const NodeContext& node) {
  Sequence sequence;
  for (int i = 0; i < node.inputs(); ++i) {
    sequence.push_back(node.value(i));
    if (node.dtype(i) != node.dtype(0)) {
      return invalid("Operand {} of operator 'SequenceConstruct' is {}; the first is {}.", i, name_of(node.dtype(i)),
                     name_of(node.dtype(0)));
    }
  }
  return one(std::move(sequence));
}

Result<Outputs> import_sequence_insert(const NodeContext& node) {
  Sequence sequence = sequence_of(node);
  std::size_t at = sequence.size();
  if (node.has(2)) {
    VKF_TRY(stated, position(node, 2, sequence.size(), sequence.size() + 1));
    at = stated;
  }
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), node.value(1));
  return one(std::move(sequence));
}

Result<Outputs> import_sequence_erase(const NodeContext& node) {
  Sequence sequence = sequence_of(node);
  if (sequence.empty()) return invalid("Operator 'SequenceErase' takes from an empty sequence.");
  std::size_t at = sequence.size() - 1;
  if (node.has(1)) {
    VKF_TRY(stated, position(node, 1, sequence.size(), sequence.size()));
    at = stated;
  }
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(at));
  return one(std::move(sequence));
}

Result<Outputs> import_optional(const NodeContext& node) {
  if (node.has(0)) return Outputs{node.value(0)};
  if (node.attributes().has("type")) return Outputs{none_value()};
  return invalid("Operator 'Optional' has neither an element nor attribute 'type'.");
}

Result<Outputs> import_optional_has_element(const NodeContext& node) {
  const std::byte has{static_cast<std::uint8_t>(node.has(0) ? 1 : 0)};
  return Outputs{constant_value({{}, DType::boolean, {}, {has}})};
}

Result<Outputs> import_optional_get_element(const NodeContext& node) { return Outputs{node.value(0)}; }

Result<Outputs> import_sequence_at(const NodeContext& node) {
  const Sequence& sequence = sequence_of(node);
  VKF_TRY(at, position(node, 1, sequence.size(), sequence.size()));
  return Outputs{sequence[at]};
}

Result<Outputs> import_sequence_length(const NodeContext& node) {
  return Outputs{constant_value(int64_data({}, {static_cast<std::int64_t>(sequence_of(node).size())}))};
}

Result<Outputs> import_split_to_sequence(const NodeContext& node) {
  const Tensor& x = node.tensor(0);
  VKF_TRY(axis, axis_attribute(node, 0));
  VKF_TRY(keep, node.attributes().integer("keepdims", 1));
  VKF_TRY(size, static_size(x.shape(), static_cast<std::size_t>(axis)));
  VKF_TRY(sizes, split_sizes(node, size));
  Sequence sequence;
  std::int64_t start = 0;
  for (const std::int64_t part : sizes) {
    const Tensor cut = x.slice(axis, start, start + part);
    // keepdims says nothing about parts whose sizes are stated.
    sequence.emplace_back(keep == 0 && !node.has(1) ? cut.squeeze(axis) : cut);
    start += part;
  }
  return one(std::move(sequence));
}

Result<Outputs> import_concat_from_sequence(const NodeContext& node) {
  const Sequence& sequence = sequence_of(node);
  if (sequence.empty()) return invalid("Operator 'ConcatFromSequence' joins an empty sequence.");
  if (!node.attributes().has("axis")) return invalid("Attribute 'axis' is missing.");
  VKF_TRY(stated, node.attributes().integer("axis", 0));
  VKF_TRY(new_axis, node.attributes().integer("new_axis", 0));
  const std::size_t rank = sequence[0].tensor.shape().size() + (new_axis != 0 ? 1 : 0);
  VKF_TRY(axis, checked_axis(stated, rank, "Attribute 'axis'"));
  std::vector<Tensor> parts;
  for (const Value& element : sequence)
    parts.push_back(new_axis != 0 ? element.tensor.unsqueeze(axis) : element.tensor);
  return Outputs{parts.size() == 1 ? parts[0] : concat(parts, axis)};
}

}  // namespace vkfuse::onnx

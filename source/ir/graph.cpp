#include "ir/graph.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/structured.hpp"

namespace vkfuse::ir {

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> ids;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].op->cls == ops::OpClass::input) ids.push_back(id);
  }
  return ids;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> all(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    for (NodeId operand : nodes_[id].operands) {
      if (all[operand].empty() || all[operand].back() != id) all[operand].push_back(id);
    }
  }
  return all;
}

NodeId Graph::append(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

namespace {

/// Sizes and steps between them stay far from the end of 64 bits, so that the planner may choose a few that keep the
/// facts.
Result<void> check_symbol(std::string_view what, const Dim& dim) {
  constexpr std::int64_t kLargestMin = std::int64_t{1} << 62;
  constexpr std::int64_t kLargestMultiple = std::int64_t{1} << 30;
  const DimFacts facts = dim.facts();
  const bool in_range =
      facts.min >= 0 && facts.min <= kLargestMin && facts.multiple_of >= 1 && facts.multiple_of <= kLargestMultiple;
  if (in_range && facts.max >= facts.min && facts.max / facts.multiple_of * facts.multiple_of >= facts.min) return {};
  return invalid("{} has a dimension '{}' with impossible facts: min {}, max {}, multiple of {}.", what, dim.name(),
                 facts.min, facts.max, facts.multiple_of);
}

}  // namespace

Result<void> check_dims(std::string_view what, const Shape& shape) {
  Sizes fixed;
  for (const Dim& dim : shape) {
    if (dim.is_symbol()) {
      VKF_CHECK_OK(check_symbol(what, dim));
      continue;
    }
    if (dim.size() < 0)
      return invalid("{} has a negative dimension {} in its shape {}.", what, dim.size(), to_text(shape));
    fixed.push_back(dim.size());
  }
  VKF_TRY(count, element_count(fixed));
  static_cast<void>(count);
  return {};
}

Result<NodeId> Graph::add_input(std::string input_name, TensorType type) {
  if (input_name.empty()) return invalid("An input of type {} has an empty name.", to_text(type));
  if (input_names_.contains(input_name)) return invalid("Two inputs are named '{}'.", input_name);
  VKF_CHECK_OK(check_dims("Input '" + input_name + "'", type.shape));
  input_names_.insert(input_name);
  return append({&ops::row("input"), {}, std::move(type), InputPayload{std::move(input_name)}});
}

Result<NodeId> Graph::add_constant(TensorType type, Bytes bytes) {
  VKF_CHECK_OK(check_dims("A constant", type.shape));
  for (const Dim& dim : type.shape) {
    if (dim.is_symbol()) return invalid("A constant cannot have the symbolic dimension '{}'.", dim.name());
  }
  VKF_TRY(sizes, resolve(type.shape, {}));
  VKF_TRY(expected, byte_count(type.dtype, sizes));
  if (!bytes || static_cast<std::int64_t>(bytes->size()) != expected) {
    return invalid("A constant of type {} needs {} bytes, but {} were given.", to_text(type), expected,
                   bytes ? bytes->size() : 0);
  }
  if (type.dtype == DType::boolean) {
    for (std::byte value : *bytes) {
      if (std::to_integer<int>(value) > 1) {
        return invalid("A boolean constant holds the byte {}; booleans are 0 or 1.", std::to_integer<int>(value));
      }
    }
  }
  return append({&ops::row("constant"), {}, std::move(type), ConstantPayload{std::move(bytes)}});
}

NodeId Graph::add_scalar(DType dtype, double value) {
  auto id = add_constant({dtype, {}}, encode_scalar(dtype, value));
  check(id.ok(), "a scalar constant is always well formed");
  return *id;
}

Result<NodeId> Graph::add(const ops::OpRow& op, std::vector<NodeId> operands, std::optional<DType> dtype) {
  const bool computes = op.cls == ops::OpClass::elementwise || op.cls == ops::OpClass::convert;
  if (!computes) return invalid("'{}' is not an elementwise op, and cannot be applied to operands.", op.name);
  if (op.signature == ops::Signature::stated) return invalid("'{}' is nothing without its code.", op.name);
  if (static_cast<int>(operands.size()) != op.arity) {
    return invalid("'{}' takes {} operands, but {} were given.", op.name, op.arity, operands.size());
  }
  std::vector<DType> dtypes;
  Shape shape;
  for (NodeId operand : operands) {
    if (operand >= nodes_.size()) return invalid("'{}' reads %{}, which is not defined before it.", op.name, operand);
    dtypes.push_back(nodes_[operand].type.dtype);
    auto joined = broadcast(shape, nodes_[operand].type.shape);
    if (!joined) return std::move(joined).error().within(fmt::format("inferring the shape of '{}'", op.name));
    shape = *std::move(joined);
  }
  VKF_TRY(result, ops::infer_dtype(op, dtypes, dtype));
  return append({&op, std::move(operands), {result, std::move(shape)}, NoPayload{}});
}

Result<NodeId> Graph::add_iota(TensorType type, int axis) {
  if (axis < 0 || axis >= static_cast<int>(type.shape.size())) {
    return invalid("iota runs along axis {}, but its shape {} has {} axes.", axis, to_text(type.shape),
                   type.shape.size());
  }
  VKF_CHECK_OK(check_dims("iota", type.shape));
  const ops::OpRow& op = ops::row("iota");
  if ((op.types & ops::bit(type.dtype)) == 0) return invalid("iota does not produce {}.", name_of(type.dtype));
  return append({&op, {}, std::move(type), IotaPayload{axis}});
}

Result<NodeId> Graph::add_random(Shape shape, std::uint64_t seed) {
  VKF_CHECK_OK(check_dims("random", shape));
  return append({&ops::row("random"), {}, {DType::u32, std::move(shape)}, RandomPayload{seed}});
}

Result<void> Graph::add_output(std::string output_name, NodeId value) {
  if (output_name.empty()) return invalid("An output has an empty name.");
  if (value >= nodes_.size()) return invalid("Output '{}' names %{}, which does not exist.", output_name, value);
  if (!output_names_.insert(output_name).second) return invalid("Two outputs are named '{}'.", output_name);
  outputs_.push_back({std::move(output_name), value});
  return {};
}

Result<void> verify(const Graph& graph) {
  // Rebuilding through the checked builder is the verifier: one set of rules, stated once.
  Graph copy;
  for (NodeId id = 0; id < graph.size(); ++id) {
    auto added = append_copy(copy, graph.node(id), graph.node(id).operands);
    if (!added) return std::move(added).error().within(fmt::format("verifying %{}", id));
    if (!(copy.node(id).type == graph.node(id).type)) {
      return invalid("%{} is declared {}, but '{}' gives {}.", id, to_text(graph.node(id).type),
                     graph.node(id).op->name, to_text(copy.node(id).type));
    }
  }
  for (const Output& output : graph.outputs()) VKF_CHECK_OK(copy.add_output(output.name, output.value));
  if (graph.outputs().empty()) return invalid("The graph '{}' has no outputs.", graph.name);
  return {};
}

Result<NodeId> append_copy(Graph& graph, const Node& node, std::vector<NodeId> operands) {
  if (node.op->signature == ops::Signature::stated) {
    return graph.add_structured(*node.op, std::move(operands), node.payload,
                                node.op->shape_is_attribute ? node.type.shape : Shape{}, node.type.dtype);
  }
  switch (node.op->cls) {
    case ops::OpClass::input: return graph.add_input(std::get<InputPayload>(node.payload).name, node.type);
    case ops::OpClass::constant: return graph.add_constant(node.type, std::get<ConstantPayload>(node.payload).bytes);
    case ops::OpClass::generate:
      if (const auto* iota = std::get_if<IotaPayload>(&node.payload)) return graph.add_iota(node.type, iota->axis);
      return graph.add_random(node.type.shape, std::get<RandomPayload>(node.payload).seed);
    case ops::OpClass::convert: return graph.add(*node.op, std::move(operands), node.type.dtype);
    case ops::OpClass::elementwise: return graph.add(*node.op, std::move(operands));
    default: break;
  }
  return graph.add_structured(*node.op, std::move(operands), node.payload,
                              node.op->shape_is_attribute ? node.type.shape : Shape{});
}

namespace {

template <typename T>
void append_bytes(std::vector<std::byte>& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <typename T>
T read_bytes(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

void encode(DType dtype, double value, std::vector<std::byte>& bytes) {
  switch (dtype) {
    case DType::f32: return append_bytes(bytes, static_cast<float>(value));
    case DType::f64: return append_bytes(bytes, value);
    case DType::f16: return append_bytes(bytes, ops::f16_from(value));
    case DType::bf16: return append_bytes(bytes, ops::bf16_from(value));
    default: return encode_int(dtype, ops::saturate(dtype == DType::boolean ? DType::i64 : dtype, value), bytes);
  }
}

void encode_int(DType dtype, std::int64_t value, std::vector<std::byte>& bytes) {
  if (is_float(dtype)) return encode(dtype, static_cast<double>(value), bytes);
  if (dtype == DType::boolean) return append_bytes(bytes, static_cast<std::uint8_t>(value != 0));
  switch (size_of(dtype)) {
    case 1: return append_bytes(bytes, static_cast<std::uint8_t>(value));
    case 2: return append_bytes(bytes, static_cast<std::uint16_t>(value));
    case 4: return append_bytes(bytes, static_cast<std::uint32_t>(value));
    default: return append_bytes(bytes, value);
  }
}

double decode(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(read_bytes<float>(at));
    case DType::f64: return read_bytes<double>(at);
    case DType::f16: return ops::f16_to(read_bytes<std::uint16_t>(at));
    case DType::bf16: return ops::bf16_to(read_bytes<std::uint16_t>(at));
    case DType::u64: return static_cast<double>(read_bytes<std::uint64_t>(at));
    default: return static_cast<double>(decode_int(dtype, at));
  }
}

std::int64_t decode_int(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::boolean: return std::to_integer<int>(*at) != 0 ? 1 : 0;
    case DType::u8: return read_bytes<std::uint8_t>(at);
    case DType::i8: return read_bytes<std::int8_t>(at);
    case DType::u16: return read_bytes<std::uint16_t>(at);
    case DType::i16: return read_bytes<std::int16_t>(at);
    case DType::u32: return read_bytes<std::uint32_t>(at);
    case DType::i32: return read_bytes<std::int32_t>(at);
    case DType::u64:
    case DType::i64: return read_bytes<std::int64_t>(at);
    default: return ops::saturate(DType::i64, decode(dtype, at));
  }
}

Bytes encode_scalar(DType dtype, double value) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  encode(dtype, value, *bytes);
  return bytes;
}

}  // namespace vkfuse::ir

// The tensor graph: immutable SSA nodes by id, in an order where operands come first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/shape.hpp"
#include "ops/op.hpp"

namespace vkfuse::ir {

using NodeId = std::uint32_t;

/// Raw little-endian bytes of a dense tensor, shared between graphs.
using Bytes = std::shared_ptr<const std::vector<std::byte>>;

// What a node carries beyond its op and operands.
struct NoPayload {
  friend bool operator==(const NoPayload&, const NoPayload&) = default;
};
struct InputPayload {
  std::string name;
  friend bool operator==(const InputPayload&, const InputPayload&) = default;
};
struct ConstantPayload {
  Bytes bytes;
  friend bool operator==(const ConstantPayload& a, const ConstantPayload& b) { return *a.bytes == *b.bytes; }
};
struct IotaPayload {
  int axis = 0;
  friend bool operator==(const IotaPayload&, const IotaPayload&) = default;
};
struct RandomPayload {
  std::uint64_t seed = 0;
  friend bool operator==(const RandomPayload&, const RandomPayload&) = default;
};
using Payload = std::variant<NoPayload, InputPayload, ConstantPayload, IotaPayload, RandomPayload>;

struct Node {
  const ops::OpRow* op = nullptr;
  std::vector<NodeId> operands;
  TensorType type;
  Payload payload;
};

struct Output {
  std::string name;
  NodeId value = 0;
};

/// A graph is built by appending and then not changed: passes make new ones.
class Graph {
 public:
  std::string name = "graph";

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::span<const Output> outputs() const { return outputs_; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Ids of the input nodes, in order.
  [[nodiscard]] std::vector<NodeId> inputs() const;
  /// For each node, the nodes that read it, each once, in order.
  [[nodiscard]] std::vector<std::vector<NodeId>> users() const;

  /// A named input. Names are unique and not empty.
  Result<NodeId> add_input(std::string name, TensorType type);
  /// A literal; `bytes` holds exactly the dense tensor; the shape has no symbols.
  Result<NodeId> add_constant(TensorType type, Bytes bytes);
  /// A scalar literal from a number, rounded to `dtype` (integers: truncated to a whole number).
  NodeId add_scalar(DType dtype, double value);
  /// An elementwise or convert op: dtype and broadcast shape are inferred and checked.
  Result<NodeId> add(const ops::OpRow& op, std::vector<NodeId> operands, std::optional<DType> dtype = {});
  /// `iota` along an axis: element (i0, i1, ...) is i_axis.
  Result<NodeId> add_iota(TensorType type, int axis);
  /// Counter-based random u32 words, one per element: philox(seed, flat index).
  Result<NodeId> add_random(Shape shape, std::uint64_t seed);
  /// Names a result of the graph. Output names are unique.
  Result<void> add_output(std::string name, NodeId value);

 private:
  NodeId append(Node node);
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
};

/// Re-checks every rule the builder enforces; run after each pass in debug builds and tests.
Result<void> verify(const Graph& graph);

/// Appends a node like `node` with other operands: how a pass copies what it keeps.
Result<NodeId> append_copy(Graph& graph, const Node& node, std::vector<NodeId> operands);

// Elements as bytes, little-endian. `encode` rounds to the dtype (floats to the nearest, integers
// truncated and saturated); `decode` of an integer beyond 2^53 loses bits: use decode_int.
void encode(DType dtype, double value, std::vector<std::byte>& bytes);
void encode_int(DType dtype, std::int64_t value, std::vector<std::byte>& bytes);
double decode(DType dtype, const std::byte* at);
std::int64_t decode_int(DType dtype, const std::byte* at);
Bytes encode_scalar(DType dtype, double value);

/// The text form; parse(print(g)) prints the same bytes again.
std::string print(const Graph& graph);
/// Reads the text form; errors name the line and the token.
Result<Graph> parse(std::string_view text);

}  // namespace vkfuse::ir

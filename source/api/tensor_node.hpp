// The node behind a Tensor handle, and the way from handles to a graph.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse {

namespace api {

struct StreamValue;  // stream_memory.hpp

/// Who wants to know which tensors of a stream there are. Used by one thread at a time.
struct Recorder {
  struct Entry {
    std::weak_ptr<const Tensor::Node> node;
    int passed = 0;  ///< evaluations that it was held through without being asked for
  };
  std::vector<Entry> live;        ///< tensors without a value, and some that are gone
  std::size_t tidy_at = 1 << 12;  ///< entries from which on it is worth looking for those

  void note(const std::shared_ptr<const Tensor::Node>& node) {
    if (live.size() >= tidy_at) tidy();
    live.push_back({node});
  }
  /// Forgets tensors that are gone or have a value.
  void tidy();
};

/// What gradients() takes a node for, whatever it was computed from. Without operands: for a constant.
struct OwnGradient {
  std::vector<Tensor> operands;
  GradientRule rule;
};

}  // namespace api

struct Tensor::Node {
  const ops::OpRow* op = nullptr;
  std::vector<Tensor> operands;
  TensorType type;
  ir::Payload payload;
  std::optional<Error> error;                     ///< set: the tensor is invalid
  std::shared_ptr<const api::StreamValue> value;  ///< set: its elements are on a device, and it has no operands
  std::shared_ptr<api::Recorder> recorder;        ///< of the stream that it, or an operand, is of
  std::shared_ptr<const api::OwnGradient> gradient;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Frees long chains without recursion.
  ~Node();
};

namespace api {

/// A checked node: the type is completed by the graph builder's rules. The first invalid operand is
/// returned as it is, and what the rules refuse is an invalid tensor. `type` holds what the op takes as
/// attributes: the dtype of conversions and literals, the shape of inputs, literals and some views.
Tensor build_tensor(const ops::OpRow& op, std::vector<Tensor> operands, TensorType type, ir::Payload payload);

/// A tensor that was just built, which nothing else holds, with this gradient in place of its op's rule.
Tensor with_own_gradient(Tensor built, OwnGradient gradient);
/// The same, as a constant to gradients().
Tensor as_constant(Tensor built);

/// The largest along an axis, which stays as 1: what is subtracted so that no exponential overflows. The results do not
/// depend on it, and so it is a constant to gradients().
Tensor largest_along(const Tensor& x, int axis);

/// An axis of a tensor counted from -1 backwards, counted from 0; one that is out of range either way is
/// left as it is, so that the builder's error names what the caller wrote.
int counted_axis(int axis, std::size_t rank);

using NodeIds = std::unordered_map<const Tensor::Node*, ir::NodeId>;
/// Appends a tensor and what it needs, operands first, without recursion. Those in `ids` are there, and those that are
/// appended come in.
Result<ir::NodeId> append(ir::Graph& graph, const Tensor& root, NodeIds& ids);

/// The graph of these results, named as given (or "y", "y1", ... where names are missing).
/// The error of an invalid tensor is returned.
Result<ir::Graph> to_graph(std::span<const Tensor> outputs, std::span<const std::string> names,
                           const std::string& graph_name);

}  // namespace api
}  // namespace vkfuse

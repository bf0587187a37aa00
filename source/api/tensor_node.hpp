// The node behind a Tensor handle, and the way from handles to a graph.
#pragma once

#include <optional>

#include "ir/graph.hpp"
#include "vkfuse/tensor.hpp"

namespace vkfuse {

struct Tensor::Node {
  const ops::OpRow* op = nullptr;
  std::vector<Tensor> operands;
  TensorType type;
  ir::Payload payload;
  std::optional<Error> error;  ///< set: the tensor is invalid

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Frees long chains without recursion.
  ~Node();
};

namespace api {

/// The graph of these results, named as given (or "y", "y1", ... where names are missing).
/// The error of an invalid tensor is returned.
Result<ir::Graph> to_graph(std::span<const Tensor> outputs, std::span<const std::string> names, const std::string& graph_name);

}  // namespace api
}  // namespace vkfuse

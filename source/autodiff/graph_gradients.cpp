#include "autodiff/graph_gradients.hpp"

#include "api/tensor_node.hpp"

namespace vkfuse::autodiff {

namespace {

/// A graph's values as tensors.
std::vector<Tensor> tensors_of(const ir::Graph& graph, std::span<const ir::NodeId> constants) {
  std::vector<Tensor> tensors;
  for (const ir::Node& node : graph.nodes()) {
    auto made = std::make_shared<Tensor::Node>();
    made->op = node.op;
    for (const ir::NodeId operand : node.operands) made->operands.push_back(tensors[operand]);
    made->type = node.type;
    made->payload = node.payload;
    tensors.emplace_back(std::shared_ptr<const Tensor::Node>(std::move(made)));
  }
  for (const ir::NodeId id : constants) tensors[id] = api::as_constant(tensors[id]);
  return tensors;
}

std::vector<Tensor> chosen(const std::vector<Tensor>& tensors, std::span<const ir::NodeId> ids) {
  std::vector<Tensor> made;
  for (const ir::NodeId id : ids) made.push_back(tensors[id]);
  return made;
}

}  // namespace

Result<std::vector<ir::NodeId>> append_gradients(ir::Graph& graph, const GraphRequest& request) {
  for (const std::span<const ir::NodeId> ids : {request.outputs, request.wrt, request.cotangents, request.constants}) {
    for (const ir::NodeId id : ids) {
      if (id >= graph.size()) return invalid("The value {} does not exist: the graph has {} values.", id, graph.size());
    }
  }
  const std::vector<Tensor> tensors = tensors_of(graph, request.constants);
  const std::vector<Tensor> made =
      gradients(chosen(tensors, request.outputs), chosen(tensors, request.wrt), chosen(tensors, request.cotangents));
  api::NodeIds ids;
  for (ir::NodeId id = 0; id < tensors.size(); ++id) ids[tensors[id].node().get()] = id;
  std::vector<ir::NodeId> results;
  for (const Tensor& tensor : made) {
    if (!tensor.valid()) return Error(tensor.error());
  }
  for (const Tensor& tensor : made) {
    VKF_TRY(id, api::append(graph, tensor, ids));
    results.push_back(id);
  }
  return results;
}

}  // namespace vkfuse::autodiff

#include "graph_analysis.hpp"

#include <algorithm>

namespace vkfuse::bench {

namespace {

using ops::OpClass;

Result<std::int64_t> bytes_of(const ir::Graph& graph, ir::NodeId id) {
  VKF_TRY(sizes, resolve(graph.node(id).type.shape, {}));
  return byte_count(graph.node(id).type.dtype, sizes);
}

/// Bytes that gathers read of a value; none if something else reads it too.
Result<std::optional<std::int64_t>> gathered_bytes(const ir::Graph& graph, ir::NodeId id,
                                                   const std::vector<ir::NodeId>& users) {
  std::int64_t bytes = 0;
  for (ir::NodeId user : users) {
    const ir::Node& node = graph.node(user);
    if (node.op->cls != OpClass::gather || node.operands[0] != id || node.operands[1] == id)
      return std::optional<std::int64_t>();
    VKF_TRY(more, bytes_of(graph, user));
    bytes += more;
  }
  return users.empty() ? std::optional<std::int64_t>() : bytes;
}

/// Elements of the result times what each sums up.
Result<double> products_of(const ir::Graph& graph, const ir::Node& node) {
  VKF_TRY(sizes, resolve(node.type.shape, {}));
  VKF_TRY(elements, element_count(sizes));
  VKF_TRY(operand, resolve(graph.node(node.operands[0]).type.shape, {}));
  double products = static_cast<double>(elements);
  for (int axis : std::get<ir::DotPayload>(node.payload).contract_a)
    products *= static_cast<double>(operand[static_cast<std::size_t>(axis)]);
  return products;
}

}  // namespace

Result<std::int64_t> traffic(const ir::Graph& graph) {
  const std::vector<std::vector<ir::NodeId>> users = graph.users();
  std::int64_t total = 0;
  for (ir::NodeId id : graph.inputs()) {
    VKF_TRY(bytes, bytes_of(graph, id));
    VKF_TRY(gathered, gathered_bytes(graph, id, users[id]));
    total += std::min(bytes, gathered.value_or(bytes));
  }
  for (const ir::Output& output : graph.outputs()) {
    VKF_TRY(bytes, bytes_of(graph, output.value));
    total += bytes;
  }
  return total;
}

Result<double> arithmetic(const ir::Graph& graph) {
  double total = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op->cls == OpClass::contraction) {
      VKF_TRY(products, products_of(graph, node));
      total += 2 * products;
    }
    const bool reductions = node.op->cls == OpClass::reduce || node.op->cls == OpClass::scan;
    if (node.op->cls != OpClass::elementwise && !reductions) continue;
    const TensorType& type = reductions ? graph.node(node.operands[0]).type : node.type;
    VKF_TRY(sizes, resolve(type.shape, {}));
    VKF_TRY(elements, element_count(sizes));
    total += static_cast<double>(elements) * (node.op->name == "fma" ? 2 : 1);
  }
  return total;
}

std::optional<std::int64_t> positions_of(const ir::Graph& graph, ir::NodeId input) {
  const std::vector<std::vector<ir::NodeId>> users = graph.users();
  std::vector<ir::NodeId> open = {input};
  while (!open.empty()) {
    const ir::NodeId id = open.back();
    open.pop_back();
    for (ir::NodeId user : users[id]) {
      const ir::Node& node = graph.node(user);
      if (node.op->cls == OpClass::view) open.push_back(user);
      if (node.op->cls != OpClass::gather && node.op->cls != OpClass::scatter) continue;
      if (node.operands[1] != id) continue;
      const auto* axis = std::get_if<ir::AxisPayload>(&node.payload);  // scatter: the outermost
      return graph.node(node.operands[0]).type.shape[axis == nullptr ? 0 : static_cast<std::size_t>(axis->axis)].size();
    }
  }
  return {};
}

}  // namespace vkfuse::bench

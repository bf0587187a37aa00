#include "ir/large_products.hpp"

#include <algorithm>
#include <optional>

namespace vkfuse::ir {

namespace {

/// Of the sum that an element of such a product is: longer ones are in no kernel that multiplies them on
/// (templates/attention).
constexpr std::int64_t kLongestSum = 256;

/// Elements where all sizes are known; else nothing.
std::optional<double> elements_of(const Node& node) {
  double count = 1;
  for (const Dim& dim : node.type.shape) {
    if (dim.is_symbol()) return std::nullopt;
    count *= static_cast<double>(dim.size());
  }
  return count;
}

std::int64_t contracted_elements(const Graph& graph, const Node& product, const DotPayload& dot) {
  std::int64_t elements = 1;
  for (const int axis : dot.contract_a)
    elements *= graph.node(product.operands[0]).type.shape[static_cast<std::size_t>(axis)].size();
  return elements;
}

bool is_large_product(const Graph& graph, const Node& node) {
  const auto* dot = std::get_if<DotPayload>(&node.payload);
  if (dot == nullptr) return false;
  const auto all = elements_of(node);
  const auto first = elements_of(graph.node(node.operands[0])), second = elements_of(graph.node(node.operands[1]));
  return all && first && second && *all > *first + *second && contracted_elements(graph, node, *dot) <= kLongestSum;
}

/// Whether elements of a value are those of its operands, computed or moved.
bool passes_on(const Node& node) {
  const ops::Role role = node.op->role;
  return node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert ||
         role == ops::Role::reshape || role == ops::Role::permute || role == ops::Role::broadcast;
}

}  // namespace

bool reads_any(const Node& node, const std::vector<bool>& nodes) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](NodeId operand) { return nodes[operand]; });
}

std::vector<bool> large_products(const Graph& graph) {
  std::vector<bool> all(graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    all[id] = is_large_product(graph, node) || (passes_on(node) && reads_any(node, all));
  }
  return all;
}

}  // namespace vkfuse::ir

#include "base/mutations.hpp"
#include "passes/passes.hpp"
#include "passes/rewriter.hpp"
#include "reference/elementwise.hpp"

namespace vkfuse::passes {

namespace {

/// The node's single element as literal number, or nothing if it is not a literal of one element.
std::optional<reference::Element> literal_of(const ir::Node& node) {
  const std::byte* bytes = literal_element(node);
  if (bytes == nullptr) return std::nullopt;
  reference::Element element;
  if (is_float(node.type.dtype)) {
    element.real = ir::decode(node.type.dtype, bytes);
  } else {
    element.integer = ir::decode_int(node.type.dtype, bytes);
  }
  return element;
}

/// The constant that an op on literals is, unless a rounding error decides which one.
std::optional<ir::Bytes> folded(const ir::Graph& graph, const ir::Node& node, const std::vector<ir::NodeId>& operands) {
  const bool computes = node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert;
  // What the user's code gives only the device knows.
  if (!computes || node.op->signature == ops::Signature::stated) return std::nullopt;
  std::vector<DType> dtypes;
  std::vector<reference::Element> elements;
  for (ir::NodeId operand : operands) {
    const auto element = literal_of(graph.node(operand));
    if (!element) return std::nullopt;
    elements.push_back(*element);
    dtypes.push_back(graph.node(operand).type.dtype);
  }
  const reference::Element result = reference::apply(node, dtypes, elements);
  if (std::isinf(result.bound)) return std::nullopt;
  auto bytes = std::make_shared<std::vector<std::byte>>();
  if (is_float(node.type.dtype)) {
    ir::encode(node.type.dtype, VKF_PLANT(inexact_literal, result.real, result.real * 1.01), *bytes);
  } else {
    ir::encode_int(node.type.dtype, result.integer, *bytes);
  }
  return ir::Bytes(std::move(bytes));
}

}  // namespace

Result<ir::Graph> fold_literals(const ir::Graph& graph) {
  Rewriter rewriter(graph);
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    const auto bytes = folded(rewriter.graph(), node, rewriter.mapped(id));
    if (!bytes) {
      VKF_CHECK_OK(rewriter.keep(id));
      continue;
    }
    VKF_TRY(made, rewriter.graph().add_constant(node.type, *bytes));
    rewriter.alias(id, made);
  }
  return rewriter.finish();
}

}  // namespace vkfuse::passes

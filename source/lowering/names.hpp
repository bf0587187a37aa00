// Identifiers and comments made from names that users chose.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace vkfuse::lowering {

/// A GLSL identifier for each node that a kernel names.
using NodeNames = std::map<ir::NodeId, std::string>;

/// Of the nodes of a kernel, in both namings.
struct KernelNames {
  NodeNames of_graph;
  NodeNames by_order;  ///< equal kernels then have equal text
};

/// "in_x" for input "x", "out_y" for output "y", else "v7". Unique among these nodes, never a keyword.
NodeNames identifiers(const ir::Graph& graph, std::span<const ir::NodeId> nodes);

/// Text that is safe inside a one-line comment, and begins and ends no block there.
std::string comment_text(std::string_view text);

}  // namespace vkfuse::lowering

// Values that are larger than what they are computed from: to pass them on moves more than to compute them again.
#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::ir {

/// Of each node, whether it is a product larger than both its factors together, as the scores of attention are, or
/// computed from such products element by element. Where a size is a symbol it is not, nor where an element is a sum of
/// more than 256.
std::vector<bool> large_products(const Graph& graph);

/// Whether an operand is one of some nodes.
bool reads_any(const Node& node, const std::vector<bool>& nodes);

}  // namespace vkfuse::ir

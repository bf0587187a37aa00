// Identifiers and comments made from names that users chose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace vkfuse::codegen {

/// One GLSL identifier per node: "in_x" for input "x", "out_y" for output "y", else "v7". Unique,
/// never a keyword, never reserved.
std::vector<std::string> identifiers(const ir::Graph& graph);

/// Text that is safe inside a one-line comment.
std::string comment_text(std::string_view text);

}  // namespace vkfuse::codegen

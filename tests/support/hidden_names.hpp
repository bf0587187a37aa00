// Variables of a shader that hide others: a kernel has none, as its names come from scopes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vkfuse::test {

/// The variables of a GLSL text that are declared where another of that name is visible, in the order of the text.
std::vector<std::string> hidden_names(std::string_view glsl);

}  // namespace vkfuse::test

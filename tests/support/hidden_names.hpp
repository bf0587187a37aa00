// Variables of a shader that hide others: names that are made for a kernel come from scopes, and hide none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vkfuse::test {

/// The variables of a GLSL text that are declared where another of that name is visible, in the order of the text; but
/// for those of the vocabulary, of which templates see to it that the inner one is meant.
std::vector<std::string> hidden_names(std::string_view glsl);

}  // namespace vkfuse::test

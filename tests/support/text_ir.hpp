// The text IR as tests write it.
#pragma once

#include <string>
#include <string_view>

namespace vkfuse::test {

/// The same text with values counted in the order in which they are named first, as the text IR wants it: tests leave
/// numbers out, or write letters.
std::string numbered(std::string_view text);

}  // namespace vkfuse::test

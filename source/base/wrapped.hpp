// Text for terminals of 80 columns.
#pragma once

#include <string>
#include <string_view>

namespace vkfuse {

/// The words of `text` behind `head`, in lines of at most 80 columns, longer words aside; lines after the first begin
/// with so many spaces. Ends with a newline.
std::string wrapped(std::string_view head, std::string_view text, std::size_t indent);

}  // namespace vkfuse

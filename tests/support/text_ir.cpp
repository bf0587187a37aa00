#include "text_ir.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace vkfuse::test {

std::string numbered(std::string_view text) {
  std::map<std::string_view, std::size_t> numbers;
  std::string result;
  while (!text.empty()) {
    const std::size_t name = std::min(text.find('%'), text.size());
    result += text.substr(0, name);
    text.remove_prefix(name);
    if (text.empty()) break;
    const auto end = std::find_if(text.begin() + 1, text.end(),
                                  [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
    const auto length = static_cast<std::size_t>(end - text.begin());
    result += fmt::format("%{}", numbers.emplace(text.substr(0, length), numbers.size()).first->second);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace vkfuse::test

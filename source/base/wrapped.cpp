#include "base/wrapped.hpp"

#include <algorithm>

namespace vkfuse {

std::string wrapped(std::string_view head, std::string_view text, std::size_t indent) {
  constexpr std::size_t kColumns = 80;
  std::string all;
  std::string line(head);
  bool has_word = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    if (has_word && line.size() + (end - start) + 1 > kColumns) {
      all += line + "\n";
      line.assign(indent, ' ');
      has_word = false;
    }
    if (has_word) line += ' ';
    line += text.substr(start, end - start);
    has_word = true;
    start = end + 1;
  }
  return all + line + "\n";
}

}  // namespace vkfuse

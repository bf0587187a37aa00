// Patterns of GLSL: text with placeholders, as op rows have it (see Glsl).
#pragma once

#include <cstddef>
#include <string_view>

namespace vkfuse::ops {

constexpr bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Where a placeholder is a whole argument of a call, an operand needs no parentheses.
constexpr bool stands_alone(std::string_view pattern, std::size_t begin, std::size_t end) {
  const bool opened = begin == 0 || pattern[begin - 1] == '(' || pattern[begin - 1] == ' ';
  const bool whole = pattern.size() == end - begin;
  const bool closed = end < pattern.size() && (pattern[end] == ')' || pattern[end] == ',');
  const bool after_operator = begin > 1 && pattern[begin - 1] == ' ' && pattern[begin - 2] != ',';
  return whole || (opened && closed && !after_operator);
}

/// Calls text(piece) for what is between operands, with "{s}", "{w}" and calls ("name(") as pieces, and
/// operand(index, alone) for "{0}", "{1}", ...; an operand that stands alone needs no parentheses.
template <typename Text, typename Operand>
void each_piece(std::string_view pattern, const Text& text, const Operand& operand) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '(') {
      std::size_t name = at;
      while (name > begin && in_name(pattern[name - 1])) --name;
      if (name > begin) text(pattern.substr(begin, name - begin));
      text(pattern.substr(name, at + 1 - name));
      begin = at + 1;
    }
    if (pattern[at] != '{') continue;
    if (at > begin) text(pattern.substr(begin, at - begin));
    const char what = pattern[at + 1];
    if (what == 's' || what == 'w')
      text(pattern.substr(at, 3));
    else
      operand(static_cast<std::size_t>(what - '0'), stands_alone(pattern, at, at + 3));
    begin = at + 3;
    at += 2;
  }
  if (begin < pattern.size()) text(pattern.substr(begin));
}

}  // namespace vkfuse::ops

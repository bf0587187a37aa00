#include "codegen/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace vkfuse::codegen {

namespace {

std::string in_product(const std::string& text) { return text.find(' ') == std::string::npos ? text : "(" + text + ")"; }

/// See quotient() in shaders/index.glsl.
std::uint32_t log2_ceil(std::uint32_t d) {
  std::uint32_t s = 0;
  while ((std::uint64_t{1} << s) < d) ++s;
  return s;
}
std::uint32_t magic_of(std::uint32_t d) {
  const std::uint64_t numerator = std::uint64_t{1} << (31 + log2_ceil(d));
  return static_cast<std::uint32_t>((numerator + d - 1) / d);
}

}  // namespace

std::string Numbers::named(const std::string& name, std::uint32_t value, const std::string& comment) {
  words_.push_back({name, value, comment, 'n', 0});
  return "p." + name;
}

std::string Numbers::word(char kind, std::int64_t of, std::uint32_t value) {
  const auto known = std::find_if(words_.begin(), words_.end(), [&](const Word& word) { return word.kind == kind && word.of == of; });
  if (known != words_.end()) return "p." + known->name;
  std::string name;
  if (kind == 's') {
    name = fmt::format("size{}", sizes_++);
  } else {
    const auto size = std::find_if(words_.begin(), words_.end(), [&](const Word& other) { return other.kind == 's' && other.of == of; });
    name = (kind == 'm' ? "magic" : "shift") + (size == words_.end() ? std::to_string(sizes_++) : size->name.substr(4));
  }
  words_.push_back({name, value, {}, kind, of});
  return "p." + name;
}

std::string Numbers::size(std::int64_t value) {
  const auto known = std::any_of(words_.begin(), words_.end(), [&](const Word& word) { return word.kind == 's' && word.of == value; });
  // What does not fit the push constants is a literal after all: the kernel then serves these sizes only.
  if (!hoist_ || value <= 1 || is_kept(value) || (!known && full(1))) return fmt::format("{}u", static_cast<std::uint32_t>(value));
  return word('s', value, static_cast<std::uint32_t>(value));
}

std::string Numbers::quotient(const std::string& x, std::int64_t d, bool wide) {
  if (!hoist_ || wide || is_kept(d) || full(3)) return fmt::format("{} / {}", in_product(x), size(d));
  static_cast<void>(size(d));
  const auto divisor = static_cast<std::uint32_t>(d);
  const std::string magic = word('m', d, magic_of(divisor));
  return fmt::format("quotient({}, {}, {})", x, magic, word('h', d, log2_ceil(divisor)));
}

std::string Numbers::remainder(const std::string& x, std::int64_t d, bool wide) {
  if (!hoist_ || wide || is_kept(d) || full(3)) return fmt::format("{} % {}", in_product(x), size(d));
  return fmt::format("{} - {} * {}", x, quotient(x, d, wide), size(d));
}

}  // namespace vkfuse::codegen

#include "kernel/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/mutations.hpp"

namespace vkfuse::lowering {

namespace {

/// What 32-bit positions are divided by: a divisor that 32 bits do not hold, as a value of no elements may have, is
/// above all of them, and so is the largest that they hold.
std::uint32_t divisor_of(std::int64_t d) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>(d, std::numeric_limits<std::uint32_t>::max()));
}

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

Code Numbers::named(const std::string& name, std::uint32_t value, const std::string& comment) {
  words_.push_back({name, value, comment});
  return "p." + name;
}

std::size_t Numbers::relocation(std::int64_t of, char kind) {
  relocations_.push_back({of, kind, kept_.count(of) != 0});
  return relocations_.size() - 1;
}

Code Numbers::size(std::int64_t value) {
  return hoist_ ? Code::symbol(Symbol::Kind::size, relocation(value, 's'))
                : code("{}u", static_cast<std::uint32_t>(value));
}

Code Numbers::divided(const Code& x, std::int64_t d, bool wide, char kind) {
  if (!hoist_ || wide || kept_.count(d) != 0)
    return code("{} {} {}", x.parenthesised(), kind == 'q' ? '/' : '%', size(divisor_of(d)));
  return Code::division(kind == 'q' ? Symbol::Kind::quotient : Symbol::Kind::remainder, x, relocation(d, kind));
}

Code Numbers::quotient(const Code& x, std::int64_t d, bool wide) { return divided(x, d, wide, 'q'); }

Code Numbers::remainder(const Code& x, std::int64_t d, bool wide) { return divided(x, d, wide, 'r'); }

std::size_t SizeBinding::word(char kind, std::size_t number, std::size_t relocation) {
  const auto [known, is_new] = known_.emplace(std::pair(kind, number), words_.size());
  if (is_new)
    words_.push_back({fmt::format("{}{}",
                                  kind == 's'   ? "size"
                                  : kind == 'm' ? "magic"
                                                : "shift",
                                  number),
                      kind, relocation});
  return known->second;
}

SizeBinding::Words SizeBinding::words_of(const Relocation& relocation, std::size_t number, std::size_t index) {
  Words words;
  if (relocation.kind != 'q') words.size = word('s', number, index);
  if (relocation.kind == 's') return words;
  words.magic = word('m', number, index);
  words.shift = word('h', number, index);
  return words;
}

SizeBinding SizeBinding::alone(const std::vector<Relocation>& relocations, std::size_t most_words) {
  SizeBinding size_binding;
  size_binding.relocations_ = relocations;
  std::map<std::int64_t, std::size_t> numbers;
  std::map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < relocations.size(); ++i) {
    const Relocation& relocation = relocations[i];
    size_binding.same_as_.push_back(first.emplace(relocation.of, i).first->second);
    const bool fixed = relocation.kept || (relocation.kind == 's' && relocation.of <= 1);
    const auto number = numbers.find(relocation.of);
    std::size_t needed = 0;
    for (const char kind : std::string_view(relocation.kind == 's' ? "s" : relocation.kind == 'q' ? "mh" : "smh")) {
      needed += number != numbers.end() && size_binding.known_.count({kind, number->second}) != 0 ? 0 : 1;
    }
    if (fixed || size_binding.words_.size() + needed > most_words) {
      size_binding.relocation_words_.emplace_back();
      continue;
    }
    size_binding.relocation_words_.push_back(
        size_binding.words_of(relocation, numbers.emplace(relocation.of, numbers.size()).first->second, i));
  }
  return size_binding;
}

std::optional<SizeBinding> SizeBinding::shared(const std::vector<Relocation>& one, const std::vector<Relocation>& other,
                                               std::size_t most_words) {
  if (one.size() != other.size()) return std::nullopt;
  SizeBinding size_binding;
  size_binding.relocations_ = one;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> numbers, first;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i].kind != other[i].kind) return std::nullopt;
    const std::pair both(one[i].of, other[i].of);
    size_binding.same_as_.push_back(first.emplace(both, i).first->second);
    if (both.first == both.second) {
      size_binding.relocation_words_.emplace_back();
    } else {
      size_binding.relocation_words_.push_back(
          size_binding.words_of(one[i], numbers.emplace(both, numbers.size()).first->second, i));
    }
  }
  if (size_binding.words_.size() > most_words) return std::nullopt;
  return size_binding;
}

std::optional<std::vector<std::uint32_t>> SizeBinding::words_for(const std::vector<Relocation>& relocations) const {
  if (relocations.size() != relocations_.size()) return std::nullopt;
  for (std::size_t i = 0; i < relocations.size(); ++i) {
    const std::int64_t same = relocation_words_[i].literal() ? relocations_[i].of : relocations[same_as_[i]].of;
    if (relocations[i].kind != relocations_[i].kind ||
        VKF_PLANT(number_of_other_sizes, relocations[i].of != same, false))
      return std::nullopt;
  }
  std::vector<std::uint32_t> values;
  for (const Word& word : words_) {
    const std::int64_t number = relocations[word.first].of;
    const std::uint32_t divisor = divisor_of(number);
    values.push_back(word.kind == 's'   ? static_cast<std::uint32_t>(number)
                     : word.kind == 'm' ? magic_of(divisor)
                                        : log2_ceil(divisor));
  }
  return values;
}

std::string SizeBinding::size(std::size_t relocation) const {
  if (is_literal(relocation)) return fmt::format("{}u", static_cast<std::uint32_t>(relocations_[relocation].of));
  return "p." + words_[relocation_words_[relocation].size].name;
}

std::string SizeBinding::divided(const std::string& factor, const std::string& x, std::size_t relocation) const {
  const bool whole = relocations_[relocation].kind == 'q';
  if (is_literal(relocation))
    return fmt::format("{} {} {}u", factor, whole ? '/' : '%', divisor_of(relocations_[relocation].of));
  const Words& words = relocation_words_[relocation];
  const std::string quotient =
      fmt::format("quotient({}, p.{}, p.{})", x, words_[words.magic].name, words_[words.shift].name);
  return whole ? quotient : fmt::format("{} - {} * {}", x, quotient, size(relocation));
}

std::string SizeBinding::declarations() const {
  std::string lines;
  for (const Word& word : words_) lines += fmt::format("  uint {};\n", word.name);
  return lines;
}

}  // namespace vkfuse::lowering

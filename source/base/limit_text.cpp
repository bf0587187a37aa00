#include "base/limit_text.hpp"

#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace vkfuse {

Result<std::pair<std::string, std::uint64_t>> parse_limit(std::string_view text) {
  const auto refused = [&] {
    return invalid("'--limit {}' is not NAME=NUMBER, where KiB, MiB, GiB or TiB may follow the number.", text);
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return refused();
  const std::string_view value = text.substr(equals + 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::result_out_of_range)
    return invalid("'--limit {}' is a number that 64 bits do not hold.", text);
  if (error != std::errc()) return refused();
  const std::string_view suffix = value.substr(static_cast<std::size_t>(end - value.data()));
  int shift = 0;
  if (!suffix.empty()) {
    constexpr std::string_view kSuffixes[] = {"KiB", "MiB", "GiB", "TiB"};
    for (const std::string_view known : kSuffixes) {
      shift += 10;
      if (suffix == known) break;
      if (known == "TiB") return refused();
    }
  }
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift)
    return invalid("'--limit {}' is a number that 64 bits do not hold.", text);
  return std::pair(std::string(text.substr(0, equals)), number << shift);
}

}  // namespace vkfuse

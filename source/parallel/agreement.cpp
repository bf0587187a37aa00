#include "parallel/agreement.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

/// FNV-1a, 64 bits: ranks may be processes of different builds, so that std::hash would not do.
std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

using Words = std::vector<std::uint64_t>;

/// What every rank has, `counts[r]` words of rank r.
Result<std::vector<Words>> gather(Transport& transport, const Words& own, const std::vector<std::size_t>& counts,
                                  std::chrono::steady_clock::time_point deadline) {
  auto all = std::make_shared<std::vector<Words>>();
  for (const std::size_t count : counts) all->emplace_back(count);
  (*all)[static_cast<std::size_t>(transport.rank())] = own;
  Exchange exchange;
  exchange.number = transport.take_numbers(1);
  exchange.deadline = deadline;
  exchange.memory = all;
  const auto& kept = (*all)[static_cast<std::size_t>(transport.rank())];
  for (int rank = 0; rank < transport.size(); ++rank) {
    Words& words = (*all)[static_cast<std::size_t>(rank)];
    if (rank == transport.rank()) continue;
    if (!kept.empty()) exchange.sends.push_back({rank, std::as_bytes(std::span(kept))});
    if (!words.empty()) exchange.receives.push_back({rank, std::as_writable_bytes(std::span(words))});
  }
  VKF_CHECK_OK(transport.exchange(exchange));
  return *all;
}

}  // namespace

Result<void> agree(Transport& transport, const std::vector<std::string>& lines,
                   std::chrono::steady_clock::time_point deadline) {
  Words digests;
  std::string text;
  for (const std::string& line : lines) {
    digests.push_back(digest(line));
    text += line + "\n";
  }
  const std::vector<std::size_t> two(static_cast<std::size_t>(transport.size()), 2);
  VKF_TRY(summaries, gather(transport, {lines.size(), digest(text)}, two, deadline));
  if (std::adjacent_find(summaries.begin(), summaries.end(), std::not_equal_to<>()) == summaries.end()) return {};
  // Every rank sees the same summaries, and so all of them ask for the lines.
  constexpr std::uint64_t kMostLines = 1 << 20;
  std::vector<std::size_t> counts;
  for (const Words& summary : summaries) counts.push_back(std::min(summary[0], kMostLines));
  digests.resize(std::min<std::size_t>(digests.size(), kMostLines));
  VKF_TRY(all, gather(transport, digests, counts, deadline));
  const auto self = static_cast<std::size_t>(transport.rank());
  const auto shown = [&](std::size_t at) {
    return at < lines.size() ? fmt::format("'{}'", lines[at]) : std::string("none");
  };
  // A rank that agrees with the first names the one that does not; one that does not, the first.
  std::size_t other = 0;
  while (other < all.size() && summaries[other] == summaries[self]) ++other;
  const auto differs = std::mismatch(digests.begin(), digests.end(), all[other].begin(), all[other].end()).first;
  const auto at = static_cast<std::size_t>(differs - digests.begin());
  return invalid(
      "Rank {} has another program than rank {}: of {} and {} collectives, number {} differs, which is {} here.", other,
      self, all[other].size(), digests.size(), at, shown(at));
}

}  // namespace vkfuse::parallel

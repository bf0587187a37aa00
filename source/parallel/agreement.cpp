#include "parallel/agreement.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/mutations.hpp"

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

/// A rank that agrees with the first names the one that does not; one that does not, the first. None: all agree.
std::optional<std::size_t> other_than(const Transport& transport, const std::vector<Words>& all) {
  const Words& own = all[static_cast<std::size_t>(transport.rank())];
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != own) return rank;
  }
  return std::nullopt;
}

std::vector<std::size_t> two_words(const Transport& transport) {
  return std::vector<std::size_t>(static_cast<std::size_t>(transport.size()), 2);
}

std::string symbols_text(const SymbolValues& symbols) {
  std::vector<std::string> words;
  for (const auto& [name, value] : symbols) words.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(words, ", "));
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
  const std::uint64_t own = VKF_PLANT(digest_of_the_count, digest(text), 0);
  VKF_TRY(summaries, gather(transport, {lines.size(), own}, two_words(transport), deadline));
  const std::optional<std::size_t> differs = other_than(transport, summaries);
  if (!differs) return {};
  // Every rank sees the same summaries, and so all of them ask for the lines.
  constexpr std::uint64_t kMostLines = 1 << 20;
  std::vector<std::size_t> counts;
  for (const Words& summary : summaries) counts.push_back(std::min(summary[0], kMostLines));
  digests.resize(std::min<std::size_t>(digests.size(), kMostLines));
  const Result<std::vector<Words>> gathered = gather(transport, digests, counts, deadline);
  // A rank that came late knows as much: the others may have given up.
  if (!gathered) {
    return invalid(
        "Rank {} has another program than rank {}, of {} and {} collectives; the first that differs is "
        "unknown: {}",
        *differs, transport.rank(), summaries[*differs][0], lines.size(), gathered.error().text());
  }
  const std::vector<Words>& all = *gathered;
  const auto shown = [&](std::size_t at) {
    return at < lines.size() ? fmt::format("'{}'", lines[at]) : std::string("none");
  };
  const Words& others = all[*differs];
  const auto first = std::mismatch(digests.begin(), digests.end(), others.begin(), others.end()).first;
  const auto at = static_cast<std::size_t>(first - digests.begin());
  return invalid(
      "Rank {} has another program than rank {}: of {} and {} collectives, number {} differs, which is {} here.",
      *differs, transport.rank(), others.size(), digests.size(), at, shown(at));
}

Result<void> agree_about_run(Transport& transport, const RunOf& run, std::chrono::steady_clock::time_point deadline) {
  const std::string symbols = symbols_text(run.symbols);
  // Not the digest of any lines: another rank may be compiling.
  const std::uint64_t how = digest("a run with " + symbols);
  const Words own = VKF_PLANT(run_of_another_program, (Words{run.program, how}), (Words{0, 0}));
  VKF_TRY(all, gather(transport, own, two_words(transport), deadline));
  const std::optional<std::size_t> other = other_than(transport, all);
  if (!other) return {};
  if (all[*other][0] != own[0])
    return invalid("Rank {} runs program {} of the job, and rank {} runs program {}.", *other, all[*other][0],
                   transport.rank(), own[0]);
  return invalid("Rank {} runs with other sizes than rank {}, which has {}.", *other, transport.rank(), symbols);
}

}  // namespace vkfuse::parallel

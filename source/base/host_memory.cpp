#include "base/host_memory.hpp"

#include <atomic>
#include <cstring>

#include "base/side_by_side.hpp"
#include "os/system.hpp"

namespace vkfuse {

namespace {

constexpr std::size_t kMostThreads = 8;  // fill the memory's rate

/// work(begin, count) for runs of `each` of `bytes`, by several threads where there are at least two.
template <typename Work>
void in_runs(std::size_t bytes, std::size_t each, const Work& work) {
  std::atomic<std::size_t> next = 0;
  work_side_by_side(std::min(bytes / each, kMostThreads), [&] {
    for (std::size_t at = next.fetch_add(each); at < bytes; at = next.fetch_add(each))
      work(at, std::min(each, bytes - at));
  });
}

}  // namespace

void copy_bytes(std::span<const std::byte> from, std::byte* to) {
  constexpr std::size_t kRun = std::size_t{4} << 20;  // takes one core a few times as long as a thread takes to start
  in_runs(from.size(), kRun, [&](std::size_t at, std::size_t count) { std::memcpy(to + at, from.data() + at, count); });
}

void prepare_memory(void* memory, std::size_t bytes) {
  constexpr std::size_t kRun = std::size_t{16} << 20;
  if (bytes < kRun / 4) return;
  os::prefer_large_pages(memory, bytes);
  if (bytes < 2 * kRun) return;
  in_runs(bytes, kRun,
          [&](std::size_t at, std::size_t count) { os::make_present(static_cast<std::byte*>(memory) + at, count); });
}

std::vector<std::byte> zero_bytes(std::size_t count) {
  std::vector<std::byte> bytes;
  bytes.reserve(count);
  prepare_memory(bytes.data(), count);
  bytes.resize(count);
  return bytes;
}

}  // namespace vkfuse

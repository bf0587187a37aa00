#include "store/store.hpp"

#include <algorithm>
#include <chrono>

#include "store/files.hpp"

namespace vkfuse::store {
namespace {

/// No single file may be a larger part of the limit: it would push everything else out.
constexpr std::uint64_t kLargestPart = 4;
/// The folder is counted again after this part of the limit was added, and then emptied to 3/4 of it.
constexpr std::uint64_t kRecountPart = 16;
/// A file that is still being written after so long belongs to nobody.
constexpr std::int64_t kAbandonedNs = std::int64_t{3600} * 1'000'000'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Store::Store(const StoreOptions& options) : limit_(options.limit_bytes) {
  auto path = folder_for(options);
  if (path) path_ = *std::move(path);
  auto folder = path ? Folder::open(path_) : Result<Folder>(std::move(path).error());
  if (folder) {
    folder_ = *std::move(folder);
  } else {
    off_ = folder.error().message;
  }
}

std::optional<std::vector<std::byte>> Store::load(Kind kind, std::string_view key) {
  if (!folder_.is_open()) return std::nullopt;
  std::optional<std::vector<std::byte>> file = read_file(folder_, file_name(kind, key), limit_);
  const auto payload = file ? decode(kind, key, *file) : std::nullopt;
  ++(payload ? loaded_ : missed_);
  if (!payload) return std::nullopt;
  file->erase(file->begin(), file->begin() + (payload->data() - file->data()));
  return file;
}

void Store::save(Kind kind, std::string_view key, std::span<const std::byte> payload) {
  if (!folder_.is_open()) return;
  const std::vector<std::byte> file = encode(kind, key, payload);
  if (file.size() > limit_ / kLargestPart || !write_file(folder_, file_name(kind, key), file)) return;
  ++saved_;
  const std::lock_guard<std::mutex> lock(evicting_);
  added_ += file.size();
  if (counted_ && added_ < limit_ / kRecountPart) return;
  counted_ = true;
  added_ = 0;
  evict();
}

void Store::evict() {
  std::vector<Listed> files = list_files(folder_);
  const std::int64_t now = now_ns();
  std::uint64_t bytes = 0;
  for (const Listed& file : files) {
    if (file.temporary && now - file.used_ns > kAbandonedNs) remove_file(folder_, file.name);
    if (!file.temporary) bytes += file.bytes;
  }
  if (bytes <= limit_) return;
  std::sort(files.begin(), files.end(), [](const Listed& a, const Listed& b) { return a.used_ns < b.used_ns; });
  for (const Listed& file : files) {
    if (bytes <= limit_ - limit_ / 4) return;
    if (file.temporary) continue;
    // Another process may be doing the same: then less is left than was asked for, which harms nobody.
    remove_file(folder_, file.name);
    bytes -= file.bytes;
  }
}

Usage Store::usage() const {
  Usage usage;
  if (!folder_.is_open()) return usage;
  for (const Listed& file : list_files(folder_)) {
    if (!file.temporary) ++usage.entries;
    usage.bytes += file.bytes;
  }
  return usage;
}

Usage Store::clear() {
  Usage removed;
  if (!folder_.is_open()) return removed;
  for (const Listed& file : list_files(folder_)) {
    remove_file(folder_, file.name);
    if (!file.temporary) ++removed.entries;
    removed.bytes += file.bytes;
  }
  return removed;
}

}  // namespace vkfuse::store

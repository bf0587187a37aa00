// Compiled kernels on disk, shared by all processes of a user. Nothing here is ever an error for the caller: what
// cannot be read, or is not exactly what was written, is not there; what cannot be written is not kept.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/entry.hpp"
#include "store/folder.hpp"

namespace vkfuse::store {

/// What is in a folder.
struct Usage {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

/// Thread-safe. Files appear whole, by renaming, so any number of processes may read and write one folder.
class Store {
 public:
  /// Never fails: a store without a folder keeps nothing, and off() says why.
  explicit Store(const StoreOptions& options);

  /// Where it is; empty if no folder could be named.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// One sentence if nothing is kept; else empty.
  [[nodiscard]] const std::string& off() const { return off_; }

  /// What was saved under this key, and marks it as used. Nothing if there is no such file or it is not whole.
  [[nodiscard]] std::optional<std::vector<std::byte>> load(Kind kind, std::string_view key);

  /// Keeps `payload` under this key in place of what was there. The least recently used files go once the folder
  /// holds more than the limit.
  void save(Kind kind, std::string_view key, std::span<const std::byte> payload);

  [[nodiscard]] Usage usage() const;
  /// Removes every file of the store, and no other; how many there were.
  Usage clear();

  [[nodiscard]] std::uint64_t loaded() const { return loaded_; }
  [[nodiscard]] std::uint64_t missed() const { return missed_; }
  [[nodiscard]] std::uint64_t saved() const { return saved_; }

 private:
  void evict();

  std::string path_;
  std::string off_;
  Folder folder_;
  std::uint64_t limit_ = 0;
  std::atomic<std::uint64_t> loaded_ = 0;
  std::atomic<std::uint64_t> missed_ = 0;
  std::atomic<std::uint64_t> saved_ = 0;
  std::mutex evicting_;  // guards the two below
  bool counted_ = false;
  std::uint64_t added_ = 0;  ///< bytes since the folder was last counted
};

}  // namespace vkfuse::store

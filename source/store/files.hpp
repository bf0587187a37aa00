// Files of one folder, by name relative to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/folder.hpp"

namespace vkfuse::store {

/// The bytes of a plain file of at most `limit` bytes, whose time of use becomes now; nothing if there is none.
std::optional<std::vector<std::byte>> read_file(const Folder& folder, const std::string& name, std::uint64_t limit);

/// Writes beside and renames: readers see the old file or the new one, whole. Returns false, and leaves nothing
/// behind, if any of it fails.
bool write_file(const Folder& folder, const std::string& name, std::span<const std::byte> bytes);

/// One file of the store.
struct Listed {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  ///< since the epoch
  bool temporary = false;    ///< being written, or left by a process that died meanwhile
};

/// The store's files in the folder; other files are not listed.
std::vector<Listed> list_files(const Folder& folder);

void remove_file(const Folder& folder, const std::string& name);

}  // namespace vkfuse::store

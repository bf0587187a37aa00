#include "store/folder.hpp"

#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "os/system.hpp"

namespace vkfuse::store {

namespace fs = std::filesystem;

namespace {

/// Each missing folder on the way, for its owner alone, as the XDG specification asks.
Result<void> make_folders(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {};
  if (path.has_parent_path() && path.parent_path() != path) VKF_CHECK_OK(make_folders(path.parent_path()));
  if (os::make_private_folder(path)) return {};
  return make_error(ErrorCode::io, "The folder '{}' could not be made: {}.", path.string(), os::last_failure());
}

}  // namespace

Result<std::string> folder_for(const StoreOptions& options) {
  if (!options.enabled) return unsupported("The kernel store is switched off by an option.");
  if (!options.folder.empty()) return options.folder;
  const std::string named = os::variable("VKFUSE_CACHE").value_or("");
  if (named == "off") return unsupported("The kernel store is switched off by VKFUSE_CACHE.");
  if (!named.empty()) return named;
  if (const auto cache = os::cache_folder()) return *cache + "/vkfuse";
  return make_error(ErrorCode::not_found,
                    "There is no place for the kernel store: neither VKFUSE_CACHE nor {} names a folder.",
                    os::kCacheVariables);
}

Result<Folder> Folder::open(const std::string& path) {
  VKF_CHECK_OK(make_folders(os::to_path(path)));
  Folder folder;
  folder.handle_ = os::open_folder(os::to_path(path));
  if (!folder.is_open())
    return make_error(ErrorCode::io, "The folder '{}' could not be opened: {}.", path, os::last_failure());
  if (const auto objection = os::objection_to_folder(folder.handle_, path)) return unsupported("{}", *objection);
  return folder;
}

}  // namespace vkfuse::store

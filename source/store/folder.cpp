#include "store/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace vkfuse::store {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string last_failure() { return std::generic_category().message(errno); }

/// Each missing folder on the way, for its owner alone, as the XDG specification asks.
Result<void> make_folders(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return {};
  if (path.has_parent_path() && path.parent_path() != path) VKF_CHECK_OK(make_folders(path.parent_path()));
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return make_error(ErrorCode::io, "The folder '{}' could not be made: {}.", path.string(), last_failure());
}

}  // namespace

Result<std::string> folder_for(const StoreOptions& options) {
  if (!options.enabled) return unsupported("The kernel store is switched off by an option.");
  if (!options.folder.empty()) return options.folder;
  const std::string named = variable("VKFUSE_CACHE");
  if (named == "off") return unsupported("The kernel store is switched off by VKFUSE_CACHE.");
  if (!named.empty()) return named;
  const std::string cache = variable("XDG_CACHE_HOME");
  if (cache.starts_with('/')) return cache + "/vkfuse";  // the specification: a relative one is ignored
  const std::string home = variable("HOME");
  if (home.starts_with('/')) return home + "/.cache/vkfuse";
  return make_error(
      ErrorCode::not_found,
      "There is no place for the kernel store: neither VKFUSE_CACHE nor XDG_CACHE_HOME nor HOME names a folder.");
}

Folder::Folder(Folder&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Folder::~Folder() {
  if (is_open()) ::close(descriptor_);
}

Result<Folder> Folder::open(const std::string& path) {
  VKF_CHECK_OK(make_folders(path));
  Folder folder;
  folder.descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat facts {};
  if (!folder.is_open() || ::fstat(folder.descriptor_, &facts) != 0) {
    return make_error(ErrorCode::io, "The folder '{}' could not be opened: {}.", path, last_failure());
  }
  if (facts.st_uid != ::geteuid())
    return unsupported("The folder '{}' belongs to user {} and not to user {}, who runs this program.", path,
                       facts.st_uid, ::geteuid());
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return unsupported("The folder '{}' has the mode {:o}: others than its owner may write to it.", path,
                       facts.st_mode & 07777);
  }
  return folder;
}

}  // namespace vkfuse::store

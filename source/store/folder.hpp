// Where the store is, and whether it may be trusted.
#pragma once

#include <string>

#include "os/files.hpp"
#include "vkfuse/device.hpp"
#include "vkfuse/result.hpp"

namespace vkfuse::store {

/// StoreOptions::folder, else $VKFUSE_CACHE, else "vkfuse" in the user's cache folder: $XDG_CACHE_HOME, else
/// $HOME/.cache; on Windows %LOCALAPPDATA%. An error says why there is none: switched off, or no variable that could
/// name one.
Result<std::string> folder_for(const StoreOptions& options);

/// An open folder. Everything inside is named relative to it, so that what is checked is what is used.
class Folder {
 public:
  /// Makes the folder where it is missing, readable by its owner alone. An error unless it belongs to this user and
  /// nobody else may write to it: what it holds is handed to a driver.
  static Result<Folder> open(const std::string& path);

  [[nodiscard]] bool is_open() const { return handle_.is_open(); }
  [[nodiscard]] const os::Handle& handle() const { return handle_; }

 private:
  os::Handle handle_;
};

}  // namespace vkfuse::store

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "os/files.hpp"
#include "os/posix.hpp"

namespace vkfuse::os {

namespace fs = std::filesystem;

namespace {

int number(const Handle& handle) { return static_cast<int>(handle.native()); }

/// Linux reads and writes no more than 2 GiB at once, and macOS takes a larger size for an error.
constexpr std::size_t kAtOnce = std::size_t{1} << 30;

/// What a variable says, where that is an absolute path.
std::optional<std::string> absolute_path_in(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value != '/') return std::nullopt;
  return value;
}

}  // namespace

bool Handle::close() {
  const Native native = std::exchange(native_, kNone);
  return native == kNone || ::close(static_cast<int>(native)) == 0;
}

std::string last_failure() { return std::generic_category().message(errno); }
bool was_missing() { return errno == ENOENT || errno == ENOTDIR; }

fs::path to_path(std::string_view text) { return text; }  // bytes, whatever they are

// Without O_NONBLOCK a pipe's other end would be waited for.
Handle open_file(const fs::path& path) {
  return Handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

Handle open_in_place(const fs::path& path) {
  Handle file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return file;
  const int flags = ::fcntl(number(file), F_GETFL);
  if (flags < 0 || ::fcntl(number(file), F_SETFL, flags & ~O_NONBLOCK) != 0) return Handle();
  return file;
}

Handle create_file(const fs::path& path) {
  return Handle(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
}

Handle open_folder(const fs::path& path) { return Handle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

Handle open_folder_in(const Handle& folder, const fs::path& name) {
  return Handle(::openat(number(folder), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY));
}

Handle open_file_in(const Handle& folder, const fs::path& name) {
  return Handle(::openat(number(folder), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

Handle create_file_in(const Handle& folder, const std::string& name) {
  return Handle(
      ::openat(number(folder), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

bool replace_in(const Handle& folder, const std::string& from, const std::string& to) {
  return ::renameat(number(folder), from.c_str(), number(folder), to.c_str()) == 0;
}

void remove_in(const Handle& folder, const std::string& name) {
  static_cast<void>(::unlinkat(number(folder), name.c_str(), 0));
}

std::vector<Entry> list_files(const Handle& folder) {
  std::vector<Entry> all;
  // A descriptor for the stream alone: closing the stream closes it, and reading moves its position.
  const int descriptor = ::openat(number(folder), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(descriptor < 0 ? nullptr : ::fdopendir(descriptor), ::closedir);
  if (stream == nullptr) {
    if (descriptor >= 0) ::close(descriptor);
    return all;
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    struct stat facts {};
    if (::fstatat(number(folder), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) continue;
    all.push_back({entry->d_name, static_cast<std::uint64_t>(facts.st_size), changed_ns(facts)});
  }
  return all;
}

std::optional<fs::path> resolve(const fs::path& path) {
  std::error_code failed;
  const fs::path full = fs::canonical(path, failed);
  return failed ? std::nullopt : std::optional(full);
}

bool replace_file(const fs::path& from, const fs::path& to) { return ::rename(from.c_str(), to.c_str()) == 0; }

bool make_private_folder(const fs::path& path) { return ::mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST; }

std::optional<fs::path> make_scratch_folder(const std::string& prefix) {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  std::string path = ((failed ? fs::path("/tmp") : parent) / (prefix + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) return std::nullopt;
  return path;
}

std::optional<std::string> objection_to_folder(const Handle& folder, const std::string& path) {
  struct stat facts {};
  if (::fstat(number(folder), &facts) != 0)
    return fmt::format("The folder '{}' could not be looked at: {}.", path, last_failure());
  if (facts.st_uid != ::geteuid())
    return fmt::format("The folder '{}' belongs to user {} and not to user {}, who runs this program.", path,
                       facts.st_uid, ::geteuid());
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("The folder '{}' has the mode {:o}: others than its owner may write to it.", path,
                       facts.st_mode & 07777);
  return std::nullopt;
}

bool is_pipe_or_device(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

std::optional<std::uint64_t> size_of_regular(const Handle& file) {
  struct stat facts {};
  if (::fstat(number(file), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0) return std::nullopt;
  return static_cast<std::uint64_t>(facts.st_size);
}

void touch(const Handle& file) { static_cast<void>(::futimens(number(file), nullptr)); }

std::ptrdiff_t read_some(const Handle& file, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got = ::read(number(file), bytes.data(), std::min(bytes.size(), kAtOnce));
    if (got >= 0 || errno != EINTR) return got;
  }
}

std::ptrdiff_t read_some_at(const Handle& file, std::uint64_t offset, std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got =
        ::pread(number(file), bytes.data(), std::min(bytes.size(), kAtOnce), static_cast<off_t>(offset));
    if (got >= 0 || errno != EINTR) return got;
  }
}

bool write_all(const Handle& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(number(file), bytes.data(), std::min(bytes.size(), kAtOnce));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

const char* const kCacheVariables = "XDG_CACHE_HOME nor HOME";

std::optional<std::string> cache_folder() {
  // A relative one is ignored, as the XDG specification asks.
  if (auto cache = absolute_path_in("XDG_CACHE_HOME")) return cache;
  const auto home = absolute_path_in("HOME");
  return home ? std::optional(*home + "/.cache") : std::nullopt;
}

std::optional<fs::path> home_folder() {
  const auto home = absolute_path_in("HOME");
  return home ? std::optional<fs::path>(*home) : std::nullopt;
}

}  // namespace vkfuse::os

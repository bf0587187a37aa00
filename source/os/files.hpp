// Files and folders as the operating system has them. This folder alone calls it: files_posix.cpp, files_windows.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkfuse::os {

/// An open file or folder, closed when it goes: a descriptor, or a HANDLE of Windows.
class Handle {
 public:
  using Native = std::intptr_t;
  static constexpr Native kNone = -1;

  Handle() = default;
  explicit Handle(Native native) : native_(native) {}
  Handle(Handle&& other) noexcept : native_(std::exchange(other.native_, kNone)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  ~Handle() { close(); }
  [[nodiscard]] bool is_open() const { return native_ != kNone; }
  [[nodiscard]] Native native() const { return native_; }
  /// False where what was written has not arrived.
  bool close();
  /// Somebody else closes it from now on.
  Native release() { return std::exchange(native_, kNone); }

 private:
  Native native_ = kNone;
};

/// Why the call before failed, in the system's words.
std::string last_failure();
/// Whether it failed because there is no such file.
bool was_missing();

/// The path that a text in UTF-8 names. Every path that is not made of others comes from here: what the constructor of
/// std::filesystem::path makes of a text is another name on Windows, where it has letters beyond ASCII. Where paths are
/// no bytes, what is no UTF-8 becomes U+FFFD.
std::filesystem::path to_path(std::string_view text);

/// The functions that open leave a Handle that is not open where they fail. None waits for a pipe's other end.

/// To read; links are followed.
Handle open_file(const std::filesystem::path& path);
/// A pipe or a device, to write to.
Handle open_in_place(const std::filesystem::path& path);
/// A file that was not there before, to write to; no link is followed.
Handle create_file(const std::filesystem::path& path);
Handle open_folder(const std::filesystem::path& path);

/// By a name in an open folder, which is not a path; what is a link does not open.
Handle open_folder_in(const Handle& folder, const std::filesystem::path& name);
Handle open_file_in(const Handle& folder, const std::filesystem::path& name);
/// A file that was not there before, for its owner alone.
Handle create_file_in(const Handle& folder, const std::string& name);
/// Renames a file within its folder, over the one that is there. It was made by create_file_in and is not open.
bool replace_in(const Handle& folder, const std::string& from, const std::string& to);
void remove_in(const Handle& folder, const std::string& name);

struct Entry {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< since 1970
};
/// The regular files of a folder, without links to some.
std::vector<Entry> list_files(const Handle& folder);

/// The absolute path of what is there, without links; nothing where there is nothing.
std::optional<std::filesystem::path> resolve(const std::filesystem::path& path);
/// Renames a file over the one that is there.
bool replace_file(const std::filesystem::path& from, const std::filesystem::path& to);
/// Whether there is the folder now, for its owner alone where it was not there before.
bool make_private_folder(const std::filesystem::path& path);
/// A new folder for its owner alone where the system has temporary files, whose name begins with `prefix`; nothing
/// where none can be made.
std::optional<std::filesystem::path> make_scratch_folder(const std::string& prefix);
/// A sentence about who else might change what is in the folder; nothing where only this user can.
std::optional<std::string> objection_to_folder(const Handle& folder, const std::string& path);

/// Whether a pipe or a device is there, which holds nothing that a new file could replace.
bool is_pipe_or_device(const std::filesystem::path& path);
/// The size of a regular file; nothing for what is none.
std::optional<std::uint64_t> size_of_regular(const Handle& file);
/// Whether the kernel makes the file while it is read, as those of /proc.
bool is_made_while_read(const Handle& file);
/// The time of the last change becomes now; without effect where the file system refuses it.
void touch(const Handle& file);

/// How many bytes came, at least one; 0 at the end of the file, less than 0 where reading failed.
std::ptrdiff_t read_some(const Handle& file, std::span<std::byte> bytes);
/// The same from a position; the handle's own does not matter.
std::ptrdiff_t read_some_at(const Handle& file, std::uint64_t offset, std::span<std::byte> bytes);
bool write_all(const Handle& file, std::span<const std::byte> bytes);

/// The user's folder for what can be made again, nothing where no variable names an absolute one; and what the
/// variables are called, for a sentence: "A nor B".
std::optional<std::string> cache_folder();
extern const char* const kCacheVariables;
/// The user's own folder, nothing where no variable names an absolute one.
std::optional<std::filesystem::path> home_folder();

}  // namespace vkfuse::os

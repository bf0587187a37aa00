#include "base/files.hpp"

#include <algorithm>
#include <cctype>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "os/files.hpp"

namespace vkfuse {

namespace fs = std::filesystem;

namespace {

Error not_written(const fs::path& path) {
  return make_error(ErrorCode::io, "The file '{}' could not be written: {}.", path.string(), os::last_failure());
}

/// A pipe or a device.
Result<void> write_in_place(const fs::path& path, std::string_view bytes) {
  os::Handle file = os::open_in_place(path);
  if (!file.is_open() || !os::write_all(file, std::as_bytes(std::span(bytes))) || !file.close())
    return not_written(path);
  return {};
}

/// A file beside `path` that was not there before, and its name.
std::pair<os::Handle, fs::path> create_beside(const fs::path& path) {
  std::random_device device;
  fs::path beside;
  os::Handle file;
  for (int attempt = 0; attempt < 8 && !file.is_open(); ++attempt) {
    const std::uint64_t number = (std::uint64_t{device()} << 32) | device();
    beside = path.parent_path() / os::to_path(fmt::format(".vkfuse-{:016x}.tmp", number));
    file = os::create_file(beside);
  }
  return {std::move(file), beside};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

namespace {

/// How many bytes a file has that is one.
Result<std::uint64_t> size_of_whole(const os::Handle& file, const fs::path& path) {
  if (!file.is_open() && os::was_missing())
    return make_error(ErrorCode::not_found, "There is no file '{}'.", path.string());
  if (!file.is_open())
    return make_error(ErrorCode::io, "The file '{}' could not be read: {}.", path.string(), os::last_failure());
  const auto size = os::size_of_regular(file);
  if (!size) return make_error(ErrorCode::io, "'{}' is not a regular file.", path.string());
  if (os::is_made_while_read(file))
    return make_error(ErrorCode::io, "'{}' is no file of a size: the kernel makes it while it is read.", path.string());
  return *size;
}

}  // namespace

Result<void> check_whole_file(const fs::path& path) {
  VKF_TRY(size, size_of_whole(os::open_file(path), path));
  static_cast<void>(size);
  return {};
}

Result<std::string> read_whole_file(const fs::path& path, std::uint64_t most) {
  const os::Handle file = os::open_file(path);
  VKF_TRY(size, size_of_whole(file, path));
  if (size > most)
    return unsupported("The file '{}' has {} bytes, and {} are the most that are read.", path.string(), size, most);
  std::string bytes;
  constexpr std::size_t kAtATime = std::size_t{1} << 26;  // a size that is not true takes no memory
  while (bytes.size() < size) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min<std::size_t>(size, before + kAtATime));
    const std::ptrdiff_t got = os::read_some(file, std::as_writable_bytes(std::span(bytes).subspan(before)));
    if (got < 0)
      return make_error(ErrorCode::io, "The file '{}' could not be read: {}.", path.string(), os::last_failure());
    bytes.resize(before + static_cast<std::size_t>(got));
    if (got == 0) return make_error(ErrorCode::io, "The file '{}' became shorter while it was read.", path.string());
  }
  return bytes;
}

Result<void> write_whole_file(const fs::path& path, std::string_view bytes) {
  std::error_code failed;
  if (os::is_pipe_or_device(path)) return write_in_place(path, bytes);
  if (fs::is_directory(path, failed))
    return make_error(ErrorCode::io, "'{}' is a folder, and no file can be written in its place.", path.string());
  auto [file, beside] = create_beside(path);
  if (!file.is_open()) return not_written(path);
  const bool whole = os::write_all(file, std::as_bytes(std::span(bytes))) && file.close();
  if (whole && os::replace_file(beside, path)) return {};
  const Error error = not_written(path);
  static_cast<void>(file.close());  // an open file is not removed everywhere
  fs::remove(beside, failed);
  return error;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (a.empty() || b.empty() || os::is_pipe_or_device(a) || os::is_pipe_or_device(b)) return false;
  if (fs::equivalent(a, b, failed) && !failed) return true;
  const auto whole = [&](const fs::path& path) {
    const fs::path full = fs::weakly_canonical(path, failed);
    return lower((failed ? fs::absolute(path, failed).lexically_normal() : full).string());
  };
  return whole(a) == whole(b);
}

}  // namespace vkfuse

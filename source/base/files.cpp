#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace vkfuse {

namespace fs = std::filesystem;

namespace {

std::string last_failure() { return std::generic_category().message(errno); }

/// A descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// False where what was written has not arrived.
  bool close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0;
  }

 private:
  int number_;
};

/// The kernel's own: what is read there is made while it is read.
bool is_of_the_kernel([[maybe_unused]] int descriptor) {
#ifdef __linux__
  constexpr unsigned long kProc = 0x9fa0, kSys = 0x62656572, kDebug = 0x64626720, kTrace = 0x74726163,
                          kControlGroups = 0x63677270;
  struct statfs facts {};
  if (::fstatfs(descriptor, &facts) != 0) return false;
  const auto type = static_cast<unsigned long>(facts.f_type);
  return type == kProc || type == kSys || type == kDebug || type == kTrace || type == kControlGroups;
#else
  return false;
#endif
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

Error not_written(const fs::path& path) {
  return make_error(ErrorCode::io, "The file '{}' could not be written: {}.", path.string(), last_failure());
}

/// A pipe or a device. Without O_NONBLOCK a pipe's reader would be waited for.
Result<void> write_in_place(const fs::path& path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return not_written(path);
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0 || !write_all(file.get(), bytes) ||
      !file.close())
    return not_written(path);
  return {};
}

/// A file beside `path` that was not there before, and its name.
std::pair<int, fs::path> open_beside(const fs::path& path) {
  std::random_device device;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::uint64_t number = (std::uint64_t{device()} << 32) | device();
    const fs::path beside = path.parent_path() / fmt::format(".vkfuse-{:016x}.tmp", number);
    const int opened = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (opened >= 0 || errno != EEXIST) return {opened, beside};
  }
  return {-1, path};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

namespace {

/// How many bytes a file has that is one.
Result<std::size_t> size_of_whole(const Descriptor& file, const fs::path& path) {
  if (!file.is_open() && (errno == ENOENT || errno == ENOTDIR))
    return make_error(ErrorCode::not_found, "There is no file '{}'.", path.string());
  struct stat facts {};
  if (!file.is_open() || ::fstat(file.get(), &facts) != 0)
    return make_error(ErrorCode::io, "The file '{}' could not be read: {}.", path.string(), last_failure());
  if (!S_ISREG(facts.st_mode)) return make_error(ErrorCode::io, "'{}' is not a regular file.", path.string());
  if (is_of_the_kernel(file.get()))
    return make_error(ErrorCode::io, "'{}' is no file of a size: the kernel makes it while it is read.", path.string());
  return static_cast<std::size_t>(facts.st_size);
}

/// Without O_NONBLOCK a pipe's writer would be waited for.
int open_to_read(const fs::path& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }

}  // namespace

Result<void> check_whole_file(const fs::path& path) {
  VKF_TRY(size, size_of_whole(Descriptor(open_to_read(path)), path));
  static_cast<void>(size);
  return {};
}

Result<std::string> read_whole_file(const fs::path& path, std::uint64_t most) {
  const Descriptor file(open_to_read(path));
  VKF_TRY(size, size_of_whole(file, path));
  if (size > most)
    return unsupported("The file '{}' has {} bytes, and {} are the most that are read.", path.string(), size, most);
  std::string bytes;
  constexpr std::size_t kAtATime = std::size_t{1} << 26;  // a size that is not true takes no memory
  while (bytes.size() < size) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min(size, before + kAtATime));
    const ssize_t got = ::read(file.get(), bytes.data() + before, bytes.size() - before);
    if (got < 0 && errno != EINTR)
      return make_error(ErrorCode::io, "The file '{}' could not be read: {}.", path.string(), last_failure());
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return make_error(ErrorCode::io, "The file '{}' became shorter while it was read.", path.string());
  }
  return bytes;
}

Result<void> write_whole_file(const fs::path& path, std::string_view bytes) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status))
    return make_error(ErrorCode::io, "'{}' is a folder, and no file can be written in its place.", path.string());
  if (fs::exists(status) && !fs::is_regular_file(status)) return write_in_place(path, bytes);
  const auto [number, beside] = open_beside(path);
  Descriptor file(number);
  if (!file.is_open()) return not_written(path);
  const bool whole = write_all(file.get(), bytes) && file.close();
  if (whole && ::rename(beside.c_str(), path.c_str()) == 0) return {};
  const Error error = not_written(path);
  fs::remove(beside, failed);
  return error;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  const auto holds_nothing = [&](const fs::path& path) {
    const fs::file_status status = fs::status(path, failed);
    return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
  };
  if (a.empty() || b.empty() || holds_nothing(a) || holds_nothing(b)) return false;
  if (fs::equivalent(a, b, failed) && !failed) return true;
  const auto whole = [&](const fs::path& path) {
    const fs::path full = fs::weakly_canonical(path, failed);
    return lower((failed ? fs::absolute(path, failed).lexically_normal() : full).string());
  };
  return whole(a) == whole(b);
}

}  // namespace vkfuse

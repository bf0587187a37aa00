#include "store/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "store/entry.hpp"

namespace vkfuse::store {
namespace {

constexpr const char* kTemporary = "vkfuse-";  // the beginning of names of files that are being written

/// A descriptor that is closed when it goes.
class Open {
 public:
  explicit Open(int descriptor) : descriptor_(descriptor) {}
  ~Open() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

bool read_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

/// No other process, thread or earlier life of this process id has it.
std::string temporary_name() {
  static std::atomic<std::uint64_t> count = 0;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return fmt::format("{}{}-{}-{:x}.tmp", kTemporary, ::getpid(), count++, nanoseconds(now));
}

}  // namespace

std::optional<std::vector<std::byte>> read_file(const Folder& folder, const std::string& name, std::uint64_t limit) {
  // Without O_NONBLOCK a pipe of that name would be waited for.
  const Open file(::openat(folder.descriptor(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  if (facts.st_size < 0 || static_cast<std::uint64_t>(facts.st_size) > limit) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(facts.st_size));
  if (!read_all(file.get(), bytes)) return std::nullopt;
  static_cast<void>(
      ::futimens(file.get(), nullptr));  // refused on a read-only file system, where nothing is evicted either
  return bytes;
}

bool write_file(const Folder& folder, const std::string& name, std::span<const std::byte> bytes) {
  const std::string beside = temporary_name();
  bool whole = false;
  {
    const Open file(::openat(folder.descriptor(), beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return false;
    whole = write_all(file.get(), bytes);
  }
  // No fsync: after a power cut the hash tells what arrived.
  if (whole && ::renameat(folder.descriptor(), beside.c_str(), folder.descriptor(), name.c_str()) == 0) return true;
  remove_file(folder, beside);
  return false;
}

std::vector<Listed> list_files(const Folder& folder) {
  std::vector<Listed> all;
  // A descriptor of its own: closing the stream closes it, and reading moves its position.
  const int descriptor = ::openat(folder.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(descriptor < 0 ? nullptr : ::fdopendir(descriptor), ::closedir);
  if (stream == nullptr) {
    if (descriptor >= 0) ::close(descriptor);
    return all;
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    const bool temporary = name.starts_with(kTemporary) && name.ends_with(".tmp");
    struct stat facts {};
    if (!temporary && !is_file_name(name)) continue;
    if (::fstatat(folder.descriptor(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode))
      continue;
    all.push_back({name, static_cast<std::uint64_t>(facts.st_size), nanoseconds(facts.st_mtim), temporary});
  }
  return all;
}

void remove_file(const Folder& folder, const std::string& name) {
  static_cast<void>(::unlinkat(folder.descriptor(), name.c_str(), 0));
}

}  // namespace vkfuse::store

// What Linux has and other POSIX systems have not.
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>

#include "os/files.hpp"
#include "os/posix.hpp"
#include "os/system.hpp"
#include "os/terminal.hpp"

namespace vkfuse::os {

namespace {

int add_library(dl_phdr_info* library, std::size_t, void* all) {
  const std::string path = library->dlpi_name == nullptr ? "" : library->dlpi_name;
  struct stat facts {};
  if (path.empty() || ::stat(path.c_str(), &facts) != 0) return 0;
  static_cast<std::vector<LoadedLibrary>*>(all)->push_back(
      {path.substr(path.rfind('/') + 1), static_cast<std::uint64_t>(facts.st_size), changed_ns(facts)});
  return 0;
}

ssize_t write_filtered(void* filter, const char* bytes, std::size_t count) {
  // 0 is an error, to the stream.
  return static_cast<OutputFilter*>(filter)->write({bytes, count}) ? static_cast<ssize_t>(count) : 0;
}

/// The value of a line "key : value" or "key: value unit" of a file.
std::optional<std::string> field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(' ', colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return std::nullopt;
}

struct Pages {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

/// The large pages that lie in this memory whole: those of processors whose small pages have 4 KiB.
Pages large_pages_of(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 2 << 20;
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (first + kPage - 1) / kPage * kPage, end = (first + bytes) / kPage * kPage;
  return begin < end ? Pages{reinterpret_cast<void*>(begin), end - begin} : Pages{};
}

}  // namespace

std::int64_t changed_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

std::vector<LoadedLibrary> loaded_libraries() {
  std::vector<LoadedLibrary> all;
  ::dl_iterate_phdr(add_library, &all);
  return all;
}

std::vector<std::string> vulkan_loaders() { return {"libvulkan.so.1", "libvulkan.so"}; }

bool is_made_while_read(const Handle& file) {
  constexpr std::uint64_t kProc = 0x9fa0, kSys = 0x62656572, kDebug = 0x64626720, kTrace = 0x74726163,
                          kControlGroups = 0x63677270;
  struct statfs facts {};
  if (::fstatfs(static_cast<int>(file.native()), &facts) != 0) return false;
  const auto type = static_cast<std::uint64_t>(facts.f_type);
  return type == kProc || type == kSys || type == kDebug || type == kTrace || type == kControlGroups;
}

void print_through(OutputFilter& filter, int buffering) {
  FILE* const stream = ::fopencookie(&filter, "w", {nullptr, write_filtered, nullptr, nullptr});
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, buffering, BUFSIZ);
  (filter.stream() == Standard::output ? stdout : stderr) = stream;
}

Machine machine() {
  Machine all;
  all.processor = field("/proc/cpuinfo", "model name");
  if (const auto memory = field("/proc/meminfo", "MemTotal")) {
    std::int64_t kib = 0;
    if (std::from_chars(memory->data(), memory->data() + memory->size(), kib).ec == std::errc())
      all.memory_bytes = kib * 1024;
  }
  utsname name{};
  if (::uname(&name) == 0) {
    all.system = std::string(name.sysname) + ' ' + name.release;
    all.architecture = name.machine;
  }
  return all;
}

void prefer_large_pages(void* memory, std::size_t bytes) {
  const auto [begin, size] = large_pages_of(memory, bytes);
  // A kernel that knows no such advice refuses it, and nothing is lost.
  if (size > 0) static_cast<void>(::madvise(begin, size, MADV_HUGEPAGE));
}

void make_present(void* memory, std::size_t bytes) {
  constexpr int kPopulate = 23;  // MADV_POPULATE_WRITE of Linux 5.14; older headers do not have it
  const auto [begin, size] = large_pages_of(memory, bytes);
  if (size > 0) static_cast<void>(::madvise(begin, size, kPopulate));
}

}  // namespace vkfuse::os

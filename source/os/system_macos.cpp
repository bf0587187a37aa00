// What macOS has and other POSIX systems have not.
#include <mach-o/dyld.h>
#include <pthread.h>
#include <sys/sysctl.h>
#include <sys/utsname.h>

#include <cstdio>

#include "os/files.hpp"
#include "os/posix.hpp"
#include "os/system.hpp"
#include "os/terminal.hpp"

namespace vkfuse::os {

namespace {

int write_filtered(void* filter, const char* bytes, int count) {
  return static_cast<OutputFilter*>(filter)->write({bytes, static_cast<std::size_t>(count)}) ? count : -1;
}

}  // namespace

std::int64_t changed_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtimespec.tv_sec} * 1'000'000'000 + facts.st_mtimespec.tv_nsec;
}

bool is_main_thread() { return ::pthread_main_np() == 1; }

std::vector<LoadedLibrary> loaded_libraries() {
  std::vector<LoadedLibrary> all;
  for (std::uint32_t i = 0; i < ::_dyld_image_count(); ++i) {
    const char* const name = ::_dyld_get_image_name(i);
    const std::string path = name == nullptr ? "" : name;
    struct stat facts {};
    if (path.empty() || ::stat(path.c_str(), &facts) != 0) continue;
    all.push_back({path.substr(path.rfind('/') + 1), static_cast<std::uint64_t>(facts.st_size), changed_ns(facts)});
  }
  return all;
}

std::vector<std::string> vulkan_loaders() { return {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"}; }

bool is_made_while_read(const Handle&) { return false; }  // there is no /proc

void print_through(OutputFilter& filter, int buffering) {
  FILE* const stream = ::funopen(&filter, nullptr, write_filtered, nullptr, nullptr);
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, buffering, BUFSIZ);
  (filter.stream() == Standard::output ? stdout : stderr) = stream;
}

Machine machine() {
  Machine all;
  char processor[256] = {};
  std::size_t size = sizeof processor - 1;
  if (::sysctlbyname("machdep.cpu.brand_string", processor, &size, nullptr, 0) == 0) all.processor = processor;
  std::int64_t memory = 0;
  size = sizeof memory;
  if (::sysctlbyname("hw.memsize", &memory, &size, nullptr, 0) == 0) all.memory_bytes = memory;
  utsname name{};
  if (::uname(&name) == 0) {
    all.system = std::string(name.sysname) + ' ' + name.release;
    all.architecture = name.machine;
  }
  return all;
}

void prefer_large_pages(void*, std::size_t) {}  // the system chooses by itself
void make_present(void*, std::size_t) {}

}  // namespace vkfuse::os

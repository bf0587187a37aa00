#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "os/system.hpp"

namespace vkfuse::os {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::uint64_t process_id() { return static_cast<std::uint64_t>(::getpid()); }

void on_fork(void (*work)()) { static_cast<void>(::pthread_atfork(nullptr, nullptr, work)); }

void ignore_closed_pipes() { ::signal(SIGPIPE, SIG_IGN); }

void* find_function(const std::string& library, const char* name) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

void become(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execvp(program.c_str(), words.data());
}

std::optional<std::string> first_line_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>/dev/null").c_str(), "r"), ::pclose);
  std::array<char, 4096> line{};
  if (pipe == nullptr || std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr)
    return std::nullopt;
  std::string text = line.data();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void* reserve_addresses(std::size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void release_addresses(void* address, std::size_t bytes) { ::munmap(address, bytes); }

}  // namespace vkfuse::os

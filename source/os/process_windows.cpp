#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "os/files.hpp"
#include "os/system.hpp"
#include "os/windows.hpp"

namespace vkfuse::os {

std::optional<std::string> variable(const char* name) {
  const wchar_t* const value = ::_wgetenv(to_path(name).c_str());
  return value == nullptr ? std::nullopt : std::optional(std::filesystem::path(value).string());
}

std::uint64_t process_id() { return ::GetCurrentProcessId(); }

bool is_main_thread() { return false; }  // the system does not tell

void on_fork(void (*)()) {}

void ignore_closed_pipes() {}  // writing to one is an error

void* find_function(const std::string& library, const char* name) {
  const std::filesystem::path path = to_path(library);
  // A name alone is not looked for in the working folder, where anybody may have put a file.
  const DWORD where = path.has_parent_path() ? LOAD_WITH_ALTERED_SEARCH_PATH : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
  const HMODULE handle = ::LoadLibraryExW(path.c_str(), nullptr, where);
  return handle == nullptr ? nullptr : reinterpret_cast<void*>(::GetProcAddress(handle, name));
}

void become(const std::string&, const std::vector<std::string>&) {}

std::optional<std::string> first_line_of(const std::string& command) {
  ::SetEnvironmentVariableW(L"NoDefaultCurrentDirectoryInExePath", L"1");  // the shell looks there first otherwise
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::_popen((command + " 2>NUL").c_str(), "rt"), ::_pclose);
  std::array<char, 4096> line{};
  if (pipe == nullptr || std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr)
    return std::nullopt;
  std::string text = line.data();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void* reserve_addresses(std::size_t bytes) { return ::VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS); }

void release_addresses(void* address, std::size_t) { ::VirtualFree(address, 0, MEM_RELEASE); }

}  // namespace vkfuse::os

// The process and the machine that it runs on, as the operating system tells of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vkfuse::os {

/// A variable of the environment, in UTF-8; nothing where it is not set.
std::optional<std::string> variable(const char* name);
std::uint64_t process_id();
/// False, too, where the system does not tell.
bool is_main_thread();
/// Has `work` called in every child that is forked from now on; never where processes are not forked.
void on_fork(void (*work)());
/// Writing to a pipe that nobody reads becomes an error, and does not end the process.
void ignore_closed_pipes();

/// A library that the process has loaded, as a file.
struct LoadedLibrary {
  std::string name;  ///< without its folders
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< since 1970
};
std::vector<LoadedLibrary> loaded_libraries();
/// The names of Vulkan's loader on this system, the likeliest first.
std::vector<std::string> vulkan_loaders();
/// A function of a library, which stays loaded; null where there is no such library or function.
void* find_function(const std::string& library, const char* name);

/// Becomes another program, found as a shell finds it, with these arguments behind its name; what this process has open
/// stays open. Returns where that fails, as it does on Windows.
void become(const std::string& program, const std::vector<std::string>& arguments);

/// The first line that a command prints; nothing where it does not run, or prints none. What it complains of is not
/// shown.
std::optional<std::string> first_line_of(const std::string& command);

struct Machine {
  std::optional<std::string> processor;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::string> system;        ///< with its version: "Linux 6.1.0"
  std::optional<std::string> architecture;  ///< "x86_64"
};
Machine machine();

/// Addresses that nothing else in the process gets, without memory, a multiple of a page; null where there
/// are none. release_addresses() takes as many.
void* reserve_addresses(std::size_t bytes);
void release_addresses(void* address, std::size_t bytes);

/// Has memory that is not there yet made of large pages, where the system can. Contents stay. No effect on less than a
/// large page.
void prefer_large_pages(void* memory, std::size_t bytes);
/// Has the system make such memory now, and not when it is written first. Contents stay.
void make_present(void* memory, std::size_t bytes);

}  // namespace vkfuse::os

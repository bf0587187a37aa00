// Files as commands read and write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "vkfuse/result.hpp"

namespace vkfuse {

/// A whole regular file. Pipes and devices, which may never end, and the files of /proc and /sys, which have no size,
/// are errors, at once. Nor has it more than `most` bytes.
Result<std::string> read_whole_file(const std::filesystem::path& path, std::uint64_t most = UINT64_MAX);
/// Of a graph, a plan or a report.
inline constexpr std::uint64_t kMostText = std::uint64_t{1} << 30;
/// The same without reading: whether the file is one that read_whole_file takes.
Result<void> check_whole_file(const std::filesystem::path& path);

/// Writes a file beside the target, under a name that nobody can foresee and that was free, and renames it: nothing
/// half-written is left. A pipe or a device keeps its place and is written to; a pipe that nobody reads is an error, at
/// once.
Result<void> write_whole_file(const std::filesystem::path& path, std::string_view bytes);

/// Whether two paths name the same file, or would on a file system that takes upper and lower case for the same.
/// Devices and pipes, which hold nothing, are never the same.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace vkfuse

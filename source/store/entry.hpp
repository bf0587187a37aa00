// One file of the store: a key, what belongs to it, and everything needed to notice that the file is not whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkfuse::store {

/// What a payload is. Part of the file's name, and of what its hash covers.
enum class Kind : std::uint8_t {
  spirv,     ///< the words of a module
  pipeline,  ///< what a driver gave for one pipeline, for it to read again
  probe,     ///< which GLSL extensions the compiler takes
  costs,     ///< what work costs on a device
  schedule,  ///< which schedule of a kernel was measured to be the fastest
  plan,      ///< which kernels a graph was divided into
  passed,    ///< that a driver computes a kernel of known results right
};
inline constexpr int kKindCount = 7;

/// The name of the file that holds this key: 16 hexadecimal digits and the kind.
std::string file_name(Kind kind, std::string_view key);

/// Whether a file of this name is one of the store's, so that others are left alone.
bool is_file_name(std::string_view name);

/// The bytes of a file: magic, version, kind, lengths, a hash of all that follows and precedes it, key, payload.
std::vector<std::byte> encode(Kind kind, std::string_view key, std::span<const std::byte> payload);

/// The payload inside `file`, or nothing if the file is not exactly what encode() makes for this kind and key: cut
/// off, longer, changed, of another version, or of another key whose name is the same. Reads within `file` only.
std::optional<std::span<const std::byte>> decode(Kind kind, std::string_view key, std::span<const std::byte> file);

}  // namespace vkfuse::store

// Counting what a shader reads and writes, from its SPIR-V words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vkfuse/result.hpp"

namespace vkfuse::spirv {

enum class AccessKind : std::uint8_t { load, store, atomic };

/// One instruction that touches a storage buffer.
struct MemoryAccess {
  /// Of the buffer's variable; kUnknownBinding when the pointer cannot be followed to one (it came
  /// through a function argument, a select, or a device address).
  std::uint32_t binding = 0;
  std::uint32_t set = 0;
  AccessKind kind = AccessKind::load;
  std::uint32_t bytes = 0;  ///< a uvec4 is 16; 0 for a cooperative matrix, whose size is the device's
  std::string function;     ///< name of the function it is in, "main"

  friend bool operator==(const MemoryAccess&, const MemoryAccess&) = default;
};
inline constexpr std::uint32_t kUnknownBinding = 0xFFFFFFFF;

/// Every load, store and atomic on storage buffers, in the order of the words. An instruction in a
/// loop counts once: the kernels whose traffic is proven this way have none. Uniform buffers, push
/// constants, shared memory and OpArrayLength do not count. invalid_argument on words that are no
/// SPIR-V.
Result<std::vector<MemoryAccess>> memory_accesses(std::span<const std::uint32_t> spirv);

/// How many accesses of that kind and width the list has on the binding.
int count_of(std::span<const MemoryAccess> accesses, AccessKind kind, std::uint32_t binding, std::uint32_t bytes);

}  // namespace vkfuse::spirv

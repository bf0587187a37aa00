// Memory of the host for much data.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace vkfuse {

/// As std::memcpy; many bytes by several threads, as one core reaches a fraction of the memory's rate. `to` has as many
/// bytes as `from`, and does not overlap it.
void copy_bytes(std::span<const std::byte> from, std::byte* to);

/// For new memory that is about to be written whole: the first write to a page makes it, which takes longer than to
/// fill it. Much of it is made of large pages, by several threads. Contents stay.
void prepare_memory(void* memory, std::size_t bytes);

/// As many bytes of 0, in such memory.
std::vector<std::byte> zero_bytes(std::size_t count);

}  // namespace vkfuse

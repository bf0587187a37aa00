#include "runtime/arena.hpp"

#include <algorithm>

namespace vkfuse::runtime {

Result<Arena> make_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory) {
  Arena arena;
  for (const std::int64_t bytes : memory.pieces) {
    VKF_TRY(piece, vulkan::Buffer::create(device, static_cast<std::uint64_t>(bytes), vulkan::BufferKind::device));
    arena.push_back(std::move(piece));
  }
  for (const plan::Memory::Large& one : memory.large) {
    VKF_TRY(buffer, vulkan::Buffer::create(device, static_cast<std::uint64_t>(one.bytes), vulkan::BufferKind::device, static_cast<std::uint64_t>(one.each)));
    arena.push_back(std::move(buffer));
  }
  return arena;
}

void add_arena(const plan::Memory& memory, const Arena& arena, Ranges& ranges) {
  for (const plan::Slot& slot : memory.slots) {
    const vulkan::Buffer& piece = arena[static_cast<std::size_t>(slot.offset / memory.piece_bytes)];
    ranges[slot.value] = {&piece, static_cast<std::uint64_t>(slot.offset % memory.piece_bytes), static_cast<std::uint64_t>(slot.bytes)};
  }
  for (const auto& [value, at] : memory.in_large) {
    const vulkan::Buffer& buffer = arena[memory.pieces.size() + at];
    ranges[value] = {&buffer, 0, buffer.size()};
  }
}

std::optional<Arena> ArenaPool::take(const plan::Memory& memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& one) { return one.pieces == memory.pieces && one.large == memory.large; });
  if (found == idle_.end()) return std::nullopt;
  Arena arena = std::move(found->arena);
  idle_.erase(found);
  return arena;
}

void ArenaPool::give_back(const plan::Memory& memory, Arena arena) {
  constexpr std::size_t kMostIdle = 4;  // each holds device memory
  std::list<Idle> gone;  // freed after the lock is
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_front({memory.pieces, memory.large, std::move(arena)});
  if (idle_.size() > kMostIdle) gone.splice(gone.begin(), idle_, std::prev(idle_.end()));
}

bool ArenaPool::forget() {
  std::list<Idle> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  gone.swap(idle_);
  return !gone.empty();
}

}  // namespace vkfuse::runtime

#include "runtime/arena.hpp"

#include <algorithm>

namespace vkfuse::runtime {

Result<Arena> allocate_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory) {
  Arena arena;
  for (const std::int64_t bytes : memory.pieces) {
    VKF_TRY(piece, vulkan::Buffer::create(device, static_cast<std::uint64_t>(bytes), vulkan::BufferKind::device));
    arena.push_back(std::move(piece));
  }
  for (const plan::Memory::Large& one : memory.large) {
    VKF_TRY(buffer, vulkan::Buffer::create(device, static_cast<std::uint64_t>(one.bytes), vulkan::BufferKind::device,
                                           static_cast<std::uint64_t>(one.each)));
    arena.push_back(std::move(buffer));
  }
  return arena;
}

namespace {

vulkan::BufferRange range_of(const plan::Memory& memory, const Arena& arena, const plan::Slot& slot) {
  const vulkan::Buffer& piece = arena[static_cast<std::size_t>(slot.offset / memory.piece_bytes)];
  return {&piece, static_cast<std::uint64_t>(slot.offset % memory.piece_bytes), static_cast<std::uint64_t>(slot.bytes)};
}

}  // namespace

void record_cleared_counters(vulkan::CommandBuffer& commands, const plan::Memory& memory, const Arena& arena) {
  using vulkan::Access;
  if (memory.counters.empty()) return;
  commands.barrier(Access::compute | Access::transfer, Access::transfer);
  for (const plan::Slot& slot : memory.counters) commands.fill(range_of(memory, arena, slot), 0);
  commands.barrier(Access::transfer, Access::compute);
}

Result<Arena> make_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory) {
  VKF_TRY(arena, allocate_arena(device, memory));
  if (memory.counters.empty()) return arena;
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  record_cleared_counters(commands, memory, arena);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(cleared, device->submit(commands));
  VKF_CHECK_OK(cleared.wait());
  return arena;
}

void add_arena(const plan::Memory& memory, const Arena& arena, Ranges& ranges) {
  for (const std::vector<plan::Slot>* slots : {&memory.slots, &memory.counters}) {
    for (const plan::Slot& slot : *slots) ranges[slot.value] = range_of(memory, arena, slot);
  }
  for (const auto& [value, at] : memory.in_large) {
    const vulkan::Buffer& buffer = arena[memory.pieces.size() + at];
    ranges[value] = {&buffer, 0, buffer.size()};
  }
}

void record_fill(vulkan::CommandBuffer& commands, const vulkan::Buffer& buffer, std::uint32_t word) {
  for (const vulkan::Buffer& piece : buffer.pieces()) commands.fill({&piece, 0, piece.size()}, word);
}

void record_poison(vulkan::CommandBuffer& commands, const Arena& arena, std::uint32_t word) {
  using vulkan::Access;
  commands.barrier(Access::compute | Access::transfer, Access::transfer);
  for (const vulkan::Buffer& buffer : arena) record_fill(commands, buffer, word);
  commands.barrier(Access::transfer, Access::compute | Access::transfer);
}

std::optional<SpentRun> SpentRuns::take(const Specialization& specialization, const std::vector<BoundMemory>& bound,
                                        const std::set<std::string, std::less<>>& given_away) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const SpentRun& one) {
    return !one.commands.empty() && one.specialization.get() == &specialization && one.bound == bound &&
           one.given_away == given_away && std::all_of(one.results.begin(), one.results.end(), [](const auto& result) {
             return result.second.use_count() == 1;
           });
  });
  if (found == idle_.end()) return std::nullopt;
  SpentRun run = std::move(*found);
  idle_.erase(found);
  return run;
}

bool SpentRuns::may_give_arena(const SpentRun& run) const {
  if (run.arena.empty()) return false;
  std::uint64_t bytes = 0;
  for (const vulkan::Buffer& piece : run.arena) bytes += piece.size();
  const bool again = !run.commands.empty() && std::none_of(run.buffers.begin(), run.buffers.end(),
                                                           [](const auto& buffer) { return buffer.expired(); });
  return !again || bytes > kSmallBytes || idle_.size() >= kMostIdle;
}

std::optional<Arena> SpentRuns::take_arena(const plan::Memory& memory) {
  std::optional<SpentRun> run;  // its commands are freed after the lock is
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const SpentRun& one) {
    return one.memory().pieces == memory.pieces && one.memory().large == memory.large && may_give_arena(one);
  });
  if (found == idle_.rend()) return std::nullopt;
  run = std::move(*found);
  idle_.erase(std::next(found).base());
  return std::move(run->arena);
}

void SpentRuns::give_back(SpentRun run) {
  std::list<SpentRun> gone;  // freed after the lock is
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_front(std::move(run));
  if (idle_.size() > kMostIdle) gone.splice(gone.begin(), idle_, std::prev(idle_.end()));
}

bool SpentRuns::forget() {
  std::list<SpentRun> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  gone.swap(idle_);
  return std::any_of(gone.begin(), gone.end(), [](const SpentRun& one) { return !one.arena.empty(); });
}

}  // namespace vkfuse::runtime

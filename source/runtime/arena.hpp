// Device memory of the intermediate values of one run.
#pragma once

#include <list>
#include <map>
#include <set>
#include <string>

#include "runtime/early_results.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

/// The pieces of an arena, and the buffers of what is larger than those.
using Arena = std::vector<vulkan::Buffer>;
/// One whose counts of workgroups are 0; waits until they are, and so for all that was submitted before.
Result<Arena> make_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory);

/// One that holds anything, until record_cleared_counters() of a run has come first. Waits for nothing.
Result<Arena> allocate_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory);

/// Counts of workgroups become 0 for what is recorded afterwards, whatever a run before this one does with the memory.
void record_cleared_counters(vulkan::CommandBuffer& commands, const plan::Memory& memory, const Arena& arena);

/// Adds the arena's values to `ranges`, which points into `arena`.
void add_arena(const plan::Memory& memory, const Arena& arena, Ranges& ranges);

/// Fills every byte of a buffer, which may be in pieces with padding.
void record_fill(vulkan::CommandBuffer& commands, const vulkan::Buffer& buffer, std::uint32_t word);
/// Fills all of an arena with a word, counts of workgroups too, which are to be cleared again.
void record_poison(vulkan::CommandBuffer& commands, const Arena& arena, std::uint32_t word);

/// What a port is bound to.
struct BoundMemory {
  std::uint64_t serial = 0;  ///< vulkan::Buffer::serial(); 0: nothing
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const BoundMemory&, const BoundMemory&) = default;
};

/// What a run leaves behind when it has ended.
struct SpentRun {
  Arena arena;
  std::shared_ptr<const Specialization> specialization;
  std::shared_ptr<const plan::Memory> donated;  ///< what the arena is for, if not for the variant's memory
  [[nodiscard]] const plan::Memory& memory() const { return donated ? *donated : specialization->memory; }
  /// Where the commands can be submitted again: what they are recorded on, in the order of the program's ports, and the
  /// inputs that were given away. Nobody keeps these buffers; commands on some that are gone are asked for no more,
  /// unless others come to lie in the same memory.
  std::vector<BoundMemory> bound;
  std::vector<std::weak_ptr<const void>> buffers;
  std::set<std::string, std::less<>> given_away;
  /// Results in memory that the run allocated, by output: it is a result again once nobody else has it.
  std::map<std::string, std::shared_ptr<void>> results;
  std::vector<EarlyResult> early;  ///< of these, those that the commands copy to the host
  std::vector<vulkan::CommandBuffer> commands;
};

/// What runs that have ended leave for the next ones: to allocate takes longer than to run, and to record longer than
/// to submit. Four are kept. Thread-safe.
class SpentRuns {
 public:
  /// The run that was recorded for this variant on these buffers, of which these inputs were given away, the most
  /// recent one whose results are nobody's.
  std::optional<SpentRun> take(const Specialization& specialization, const std::vector<BoundMemory>& bound,
                               const std::set<std::string, std::less<>>& given_away);
  /// An arena for such memory, of a run that cannot be submitted again. A small one that can keeps its arena until
  /// there are many; large ones are shared by all runs, and the commands of the oldest are forgotten.
  std::optional<Arena> take_arena(const plan::Memory& memory);
  void give_back(SpentRun run);
  /// Frees them; false if there were no arenas.
  bool forget();

 private:
  static constexpr std::size_t kMostIdle = 4;                            // each holds device memory
  static constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20;  // of an arena that a run keeps to itself
  [[nodiscard]] bool may_give_arena(const SpentRun& run) const;

  std::mutex mutex_;
  std::list<SpentRun> idle_;  ///< most recently used first
};

}  // namespace vkfuse::runtime

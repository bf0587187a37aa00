// Device memory of the intermediate values of one run.
#pragma once

#include <list>

#include "runtime/program.hpp"

namespace vkfuse::runtime {

/// The pieces of an arena, and the buffers of what is larger than those.
using Arena = std::vector<vulkan::Buffer>;
Result<Arena> make_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory);

/// Adds the arena's values to `ranges`, which points into `arena`.
void add_arena(const plan::Memory& memory, const Arena& arena, Ranges& ranges);

/// Arenas of runs that have ended, for runs of the same sizes: to allocate takes longer than to run. Thread-safe.
class ArenaPool {
 public:
  std::optional<Arena> take(const plan::Memory& memory);
  void give_back(const plan::Memory& memory, Arena arena);
  /// Frees them; false if there were none.
  bool forget();

 private:
  struct Idle {
    std::vector<std::int64_t> pieces;
    std::vector<plan::Memory::Large> large;
    Arena arena;
  };
  std::mutex mutex_;
  std::list<Idle> idle_;  ///< most recently used first
};

}  // namespace vkfuse::runtime

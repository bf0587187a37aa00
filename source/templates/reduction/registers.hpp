// What a reduction keeps: in registers of a thread, in shared memory, and in device memory between dispatches.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

bool has_scans(const segment::Loops& loops);

/// How often each load is executed: in how many passes.
int passes_using(const segment::Loops& loops, std::size_t value);

/// Loads that more than one pass uses.
struct ResidentLoads {
  int words = 0;         ///< 32-bit words per iteration
  bool repeats = false;  ///< some load is needed again
};

ResidentLoads resident_loads(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);

/// 32-bit words that an iteration takes of the budget of a thread: beside what is kept, where registers are few, what
/// only one pass loads, and where that is.
int words_of_iteration(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                       const Schedule& schedule);

/// Live 32-bit values of a thread.
int estimated_reduction_registers(const ir::Graph& graph, const segment::Loops& loops, const Schedule& schedule);

/// The same, where the device's budget is known: of rows side by side, Mali's and Adreno's compilers want a chunk's
/// results beside what was loaded.
int requested_reduction_registers(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                                  const Schedule& schedule);

/// The same, where so many chunks are in flight.
int registers_in_flight(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                        const Schedule& schedule, int chunks);

/// Of what is kept between passes, 32-bit words that a thread has room for.
int most_resident_words(const ir::Graph& graph, const segment::Loops& loops, const Target& target,
                        const Schedule& schedule);

/// Shared memory, and device memory for partial results.
void choose_reduction_memory(const ir::Graph& graph, const segment::Loops& loops, Schedule& schedule);

}  // namespace vkfuse::schedule

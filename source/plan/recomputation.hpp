// In which order the steps of a plan run, and which of them run again, so that less is alive at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vkfuse::plan {

/// What matters of the steps of a plan to when they run. Values that lie in the arena, and outputs, are numbered from
/// 0.
struct StepCosts {
  struct Value {
    std::size_t writer = 0;  ///< a step
    std::int64_t bytes = 0;  ///< of the arena: none of an output
    bool is_output = false;  ///< it is computed once, and there from then on
  };
  struct Step {
    std::vector<std::size_t> reads, stores;  ///< values
    std::int64_t scratch_bytes = 0;
    double microseconds = 0;
    bool once = false;  ///< it must not run again
  };
  std::vector<Value> values;
  std::vector<Step> steps;  ///< producers come first
};

/// The step that runs at each position. A step that is there again computes its values again; each reader takes those
/// that were computed last, and of an output the first.
using StepSequence = std::vector<std::size_t>;

/// For each position and each value that its step reads, in this order, the position that computes it.
std::vector<std::size_t> writers_of(const StepCosts& costs, const StepSequence& sequence);

/// Bytes of the arena that are taken at each position.
std::vector<std::int64_t> live_bytes(const StepCosts& costs, const StepSequence& sequence);

double modelled_us(const StepCosts& costs, const StepSequence& sequence);

/// Every step once, those early that free more than they make: the readers that a value waits for, as soon as all of
/// them can run.
StepSequence freeing_order(const StepCosts& costs);

struct Recomputation {
  std::optional<StepSequence> within;  ///< the fastest found that takes no more than the budget
  StepSequence smallest;               ///< the one that takes the fewest bytes of all that were looked at
};

/// Which steps of `sequence` run again so that at most `budget` bytes are alive at every position. Where fewer need to,
/// so many bytes of it stay free: slots of an arena do not always fit together.
Recomputation recompute_within(const StepCosts& costs, const StepSequence& sequence, std::int64_t budget,
                               std::int64_t left_free = 0);

}  // namespace vkfuse::plan

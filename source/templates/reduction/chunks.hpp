// Which elements of a reduction's loops are one chunk, and how loads and stores reach them.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Positions along the reduction axes of the largest window, as a pooling's is.
constexpr std::int64_t kLargestWindow = 32;

/// The vector axis, the size of a chunk, and accesses. A chunk has `wider` times as many elements as one load of the
/// smallest dtype has.
void choose_reduction_chunks(const Problem& problem, int wider, Schedule& schedule);

/// Chunks of rows and along them, from the vector axis and the size of a chunk.
void count_row_chunks(const segment::Loops& loops, Schedule& schedule);

}  // namespace vkfuse::schedule

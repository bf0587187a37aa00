// How workgroups share rows, and how many chunks of one are in flight or summed in one chain.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

constexpr int kSummationBlock = 256;  ///< elements that are joined one after the other in a long chain

/// Workgroups that fill a device a few times.
std::int64_t workgroups_to_fill(const Target& target);

/// Iterations of all loops in one of a thread's, which scans across threads have too: CPU drivers count them together.
std::int64_t loops_of_iteration(const segment::Loops& loops, const Schedule& schedule);

/// Workgroups per row, chunks in flight, and chunks of a summation block: from the threads of a schedule.
void choose_reduction_splits(const Problem& problem, Schedule& schedule);

/// Groups of rows, of which one or, with splits, several workgroups have one each.
std::int64_t row_groups(const Schedule& schedule);

/// Of all workgroups, from the threads and splits.
void count_reduction_workgroups(const Target& target, Schedule& schedule);

}  // namespace vkfuse::schedule

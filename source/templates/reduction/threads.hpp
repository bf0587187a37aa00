// How the threads of a workgroup share the rows of a reduction.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

constexpr int kMostUnrolledIterations = 16;

/// Threads of a row and rows of a workgroup, whether subgroups shuffle, iterations, and whether rows stay in registers:
/// from the chunks of a schedule.
void choose_reduction_threads(const Problem& problem, Schedule& schedule);

}  // namespace vkfuse::schedule

// Whether the ranks of a job are about to run the same collectives.
#pragma once

#include <string>
#include <vector>

#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

/// Compares the lines that every rank has. ErrorCode::invalid_argument on each where two differ: the sentence names the
/// rank with other lines and the first that differs. Every rank of the job calls it.
Result<void> agree(Transport& transport, const std::vector<std::string>& lines,
                   std::chrono::steady_clock::time_point deadline);

}  // namespace vkfuse::parallel

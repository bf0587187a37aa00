// Cooperative-matrix GEMV: weights of four or eight bits times one vector.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The same rows with cooperative matrices; nothing where they are no weights of four or eight bits times a vector, or
/// that is not faster.
std::optional<Schedule> best_packed_gemv(const Problem& problem, const Schedule& rows);

}  // namespace vkfuse::schedule

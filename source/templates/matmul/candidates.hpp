// What planning asks of the matmul template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where nothing is a contraction of two operands with axes of their own, or no tile fits.
std::optional<Schedule> best_matmul(const Problem& problem);
std::optional<Schedule> matmul_at_other_sizes(const Problem& problem, const Schedule& model);
/// Every tile of a few sizes, and what computes one result per group of threads.
std::vector<Tuning> matmul_tunings(const Schedule& standard, const Caps& caps);
void describe_matmul(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

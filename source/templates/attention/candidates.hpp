// What planning asks of the attention template.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Nothing where there is no softmax whose weights are multiplied and added up.
std::optional<Schedule> best_attention(const Problem& problem);
std::optional<Schedule> attention_at_other_sizes(const Problem& problem, const Schedule& model);
/// Tiles of threads, and those of cooperative matrices where the default has them.
std::vector<Tuning> attention_tunings(const Schedule& standard, const Caps& caps);
void describe_attention(const Schedule& schedule, Description& description);

}  // namespace vkfuse::schedule

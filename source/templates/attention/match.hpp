// Which loops are attention.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The axes, the values and the operands; nothing where the loops are no attention.
std::optional<AttentionParams> match_attention(const ir::Graph& graph, const segment::Loops& loops);

}  // namespace vkfuse::schedule

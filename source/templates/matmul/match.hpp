// Which loops are contractions, and along which axes their operands are wide.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// The sets of axes, the operands and the sums; nothing where the loops are no such thing.
std::optional<MatmulParams> match_matmul(const ir::Graph& graph, const segment::Loops& loops);

/// Along which axes the chunks of operands and results lie, and how many elements they have.
void choose_vectors(const Problem& problem, MatmulParams& tile);

}  // namespace vkfuse::schedule

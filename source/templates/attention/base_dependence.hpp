// What results of attention make of sums that are relative to a row's base.
#pragma once

#include "templates/attention/params.hpp"

namespace vkfuse::schedule {

/// Whether every result stays the same if the row's scores are taken relative to another number than the largest of
/// them: the sum and the total are then both as many times as large, and the number that stands for the largest score
/// is less by the logarithm of that. A quotient of both, and the number plus the logarithm of the total, are such
/// results.
bool results_do_not_depend_on_base(const ir::Graph& graph, const segment::Loops& loops, const AttentionParams& tile);

/// Whether some result tells a largest score that is NaN from one that is not: all others are made of the row's total
/// or sums, which a NaN among the scores is part of.
bool results_tell_whether_most_is_nan(const ir::Graph& graph, const segment::Loops& loops, const AttentionParams& tile);

}  // namespace vkfuse::schedule

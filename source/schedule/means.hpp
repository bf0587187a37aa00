// Which means are summed up in two parts.
#pragma once

#include "segment/loops.hpp"

namespace vkfuse::schedule {

/// Whether a reduction is a mean whose sum has two parts, so that the mean of equal elements is exactly these: all but
/// those of squares that nothing is subtracted from and that are subtracted from nothing, here or by who reads them
/// from memory, as a root of these amplifies no error; and those of few elements that have 16 bits in memory, stored in
/// 16 bits and read by nothing else here, as those of windows.
bool sums_in_two_parts(const ir::Graph& graph, const segment::Loops& loops, segment::ValueId reduction);

}  // namespace vkfuse::schedule

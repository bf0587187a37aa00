// Which numbers a dtype has exactly.
#pragma once

#include "index/index.hpp"
#include "vkfuse/dtype.hpp"

namespace vkfuse::index {

/// Whether a dtype has every whole number of an interval, so that arithmetic whose results lie there neither wraps nor
/// rounds. Of 64-bit types no numbers are asked for that are beyond 2^40: sums of these stay far from overflow.
bool has_all_of(DType dtype, const Interval& interval);

}  // namespace vkfuse::index

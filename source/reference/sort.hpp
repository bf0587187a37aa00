// Sorting of elements that carry error bounds.
#pragma once

#include <span>
#include <vector>

#include "reference/elementwise.hpp"

namespace vkfuse::reference {

/// Element r is the position of the r-th element of a line in sorted order; undecided where a device may
/// see another order. Equal elements keep their order in both directions, NaN is larger than infinity.
std::vector<Element> sorted_positions(DType dtype, std::span<const Element> line, bool descending);

}  // namespace vkfuse::reference

// One element of one op, with its error bound.
#pragma once

#include "ir/graph.hpp"

namespace vkfuse::reference {

/// One element of an operand or result: `real` for floats, `integer` otherwise.
struct Element {
  double real = 0;
  std::int64_t integer = 0;
  double bound = 0;
};

/// An elementwise or convert node applied to one element of each operand.
Element apply(const ir::Node& node, std::span<const DType> operand_dtypes, std::span<const Element> operands);

}  // namespace vkfuse::reference

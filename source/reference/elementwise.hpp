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

/// The unit of the register type: 16-bit floats are computed in f32.
double unit(DType dtype);

/// The largest finite value of a float dtype.
double largest_of(DType dtype);

/// A float result with what rounding to a 16-bit dtype adds, within the dtype's range.
Element finish_float(DType dtype, double value, double bound);

/// An elementwise or convert node applied to one element of each operand.
Element apply(const ir::Node& node, std::span<const DType> operand_dtypes, std::span<const Element> operands);

}  // namespace vkfuse::reference

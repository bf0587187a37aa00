// Operands for sweeps: the values where functions break, then random ones.
#pragma once

#include <vector>

#include "numeric/run.hpp"

namespace vkfuse::numeric {

/// Elements of a sweep: VKFUSE_SWEEP_ELEMENTS, or a number that keeps the test short.
std::size_t sweep_elements();

/// Zeros, infinities, NaN, subnormals, limits, powers of two and their neighbours, and where our
/// functions change formula; or the limits of an integer dtype and what lies near them.
const std::vector<Value>& special_values(DType dtype);

/// Operands of an op: combinations of special values, values in [low, high], and any bits.
std::vector<std::vector<Value>> operands_for(const std::vector<DType>& dtypes, double low, double high);

}  // namespace vkfuse::numeric

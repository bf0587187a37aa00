// What rows of f64 are measured against: the functions of long double.
#pragma once

#include <string_view>

#include "ops/op.hpp"

namespace vkfuse::numeric {

using Truth = long double (*)(const double* x);

/// The function that this row computes where it needs one of the host's libm, or null.
Truth truth_of(const ops::OpRow& row);

/// Whether long double has at least 8 bits more than double.
bool wider_truth();

/// What the row's own reference may be off where that is y, of what its bound allows.
double reference_error(const ops::OpRow& row, double y);

}  // namespace vkfuse::numeric

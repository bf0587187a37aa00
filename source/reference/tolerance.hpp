// How far a value may be from one whose error bound is not known or says nothing: docs/command-line.md has the rule.
#pragma once

#include <span>

#include "vkfuse/dtype.hpp"

namespace vkfuse::reference {

struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// For a tensor of these values, which set the scale.
Tolerance tolerance_for(DType dtype, std::span<const double> values);

/// Whether they agree within the tolerance and the bound, of which at most 16 tolerances count. NaN equals NaN.
bool agrees(double got, double want, const Tolerance& tolerance, double bound);

}  // namespace vkfuse::reference

#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a pointwise schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_pointwise(const LoweringInput& in);

}  // namespace vkfuse::lowering

#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a reduction schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_reduction(const LoweringInput& in);

}  // namespace vkfuse::lowering

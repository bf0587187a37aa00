#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a sort schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_sort(const LoweringInput& in);

}  // namespace vkfuse::lowering

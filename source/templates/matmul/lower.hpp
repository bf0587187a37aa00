#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a matmul schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_matmul(const LoweringInput& in);

}  // namespace vkfuse::lowering

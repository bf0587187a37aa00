#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a transpose schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_transpose(const LoweringInput& in);

}  // namespace vkfuse::lowering

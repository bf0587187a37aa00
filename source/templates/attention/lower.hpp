#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The kernels of a attention schedule, one per dispatch.
Result<std::vector<RelocatableKernel>> lower_attention(const LoweringInput& in);

}  // namespace vkfuse::lowering

#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// A kernel of the user's, as it is.
Result<std::vector<RelocatableKernel>> lower_custom(const LoweringInput& in);

}  // namespace vkfuse::lowering

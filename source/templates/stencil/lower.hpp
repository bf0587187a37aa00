// Code of the stencil template.
#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

Result<std::vector<RelocatableKernel>> lower_stencil(const LoweringInput& in);

}  // namespace vkfuse::lowering

// Loops + schedule -> kernels: the entry to all templates.
#pragma once

#include "lowering/input.hpp"

namespace vkfuse::lowering {

/// The shaders of a segment as relocatable kernels. `in.loops` are those that were scheduled; names are chosen here.
Result<std::vector<RelocatableKernel>> relocatable(const LoweringInput& in);

/// The shaders of a segment, one per dispatch, in order. The workgroup size is specialisation constant 0.
Result<std::vector<Kernel>> lower(const LoweringInput& in);

}  // namespace vkfuse::lowering

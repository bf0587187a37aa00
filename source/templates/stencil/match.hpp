// Which loops are reductions over small windows.
#pragma once

#include "schedule/schedule.hpp"

namespace vkfuse::schedule {

/// Windows, serial axes and roles; the rest is not chosen yet. Nothing where operands of the reductions are not read
/// in windows.
std::optional<StencilParams> match_stencil(const ir::Graph& graph, const segment::Loops& loops);

}  // namespace vkfuse::schedule

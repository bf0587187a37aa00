// Two kernels or more become one: what vertical, sibling and horizontal fusion have in common.
#pragma once

#include "partition/search.hpp"

namespace vkfuse::partition {

/// Fuses the clusters into the first if that is possible and pays; otherwise says why not.
std::optional<Refusal> try_fusion(Context& context, Clusters& clusters, std::vector<ClusterId> fused);

}  // namespace vkfuse::partition

// What a pointwise kernel chooses beyond what every kernel does.
#pragma once

namespace vkfuse::schedule {

/// Every thread owns whole chunks of consecutive elements: Schedule says all there is to say.
struct PointwiseParams {};

}  // namespace vkfuse::schedule

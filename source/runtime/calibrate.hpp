// What work costs on the open device.
#pragma once

#include "runtime/open_device.hpp"

namespace vkfuse::runtime {

/// The costs of the open device from its store, else measured and stored; nothing where that is impossible.
Result<std::optional<CostModel>> calibrate(OpenDevice& opened);

}  // namespace vkfuse::runtime

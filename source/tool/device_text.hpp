// What 'vkfuse devices' prints of an architecture.
#pragma once

#include <string>

#include "vkfuse/device.hpp"

namespace vkfuse::tool {

/// The row that a device is planned with: every number under where it is from, in lines of at most 80 columns.
std::string architecture_text(const DeviceDescription& device);

}  // namespace vkfuse::tool

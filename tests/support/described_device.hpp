// What a driver says of a device, as lines of text: written where the driver runs, by tests/portability/describe, and
// read where kernels are planned. Includes no more than the sources that ask a driver, which are compiled for other
// processors.
#pragma once

#include <string>
#include <string_view>

#include "vulkan/device_info.hpp"

namespace vkfuse::test {

/// A line for each number and feature: "max_invocations 256". Features that there are not have no line.
std::string to_text(const vulkan::DeviceInfo& info);

/// The inverse; invalid_argument with the line that no device has. UUIDs and the version of the driver are not told.
Result<vulkan::DeviceInfo> parse_device(std::string_view text);

}  // namespace vkfuse::test

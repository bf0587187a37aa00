// Values between devices by way of the host's memory and a transport's messages.
#pragma once

#include <memory>

#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

/// The link for a transport without one. Values go in rounds: while one is exchanged, the device copies the
/// next one to the host and the one before from it. Where the host sees the device's memory, messages lie in it. The
/// transport must outlive it.
std::shared_ptr<DeviceLink> staged_link(const Device& device, Transport& transport);

}  // namespace vkfuse::parallel

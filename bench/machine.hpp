// The machine under test as the system tells of it: processor, load, clocks, temperature, power.
#pragma once

#include <nlohmann/json.hpp>

#include "vulkan/device_info.hpp"

namespace vkfuse::bench {

/// Processor, cores, memory, kernel.
nlohmann::json host_facts();

/// What can be read at this moment, of the device where its driver has files under /sys or nvidia-smi is there, else
/// of the processor: "core_mhz", "memory_mhz", "celsius", "watts", "load" (runnable processes). Keys that nobody
/// tells are missing.
nlohmann::json sensors(const vulkan::DeviceInfo& info);

/// "2026-11-21T16:40:00Z".
std::string utc_time();

}  // namespace vkfuse::bench

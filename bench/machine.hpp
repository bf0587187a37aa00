// The machine under test as the system tells of it: processor, load, clocks, temperature, power.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "vulkan/device_info.hpp"

namespace vkfuse::bench {

/// Processor, cores, memory, kernel.
nlohmann::json host_facts();

/// What can be read at this moment, of the device by its driver's library, its driver's files under /sys or nvidia-smi,
/// of a CPU driver's device from the processor: "core_mhz", "memory_mhz", "celsius", "watts", and where a counter is
/// all there is "joules"; of the machine "load" (runnable processes). What nobody tells is null. `root` is for tests.
nlohmann::json sensors(const vulkan::DeviceInfo& info, const std::filesystem::path& root = "/");

/// "2026-11-21T16:40:00Z".
std::string utc_time();

}  // namespace vkfuse::bench

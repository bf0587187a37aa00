// Clocks and power of an NVIDIA device, from the driver's own library, which is opened when it is asked.
#pragma once

#include <optional>
#include <string>

namespace vkfuse::bench {

/// Each is empty where it cannot be read.
struct Readings {
  std::optional<double> core_mhz, memory_mhz, celsius, watts;
};

/// Of the device with that Vulkan UUID, 32 hexadecimal digits. `library` is a file name or a path. Nothing where the
/// library or the device is not there.
std::optional<Readings> nvml_readings(const std::string& uuid, const char* library = "libnvidia-ml.so.1");

/// The UUID as NVIDIA's tools write it: "GPU-01234567-89ab-...".
std::string nvidia_uuid(const std::string& uuid);

}  // namespace vkfuse::bench

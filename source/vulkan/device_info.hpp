// What is known of a device before it is opened. No Vulkan types: any layer may read it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device_model/device_model.hpp"

namespace vkfuse::vulkan {

using Uuid = std::array<std::uint8_t, 16>;

/// 32 lower-case hexadecimal digits.
std::string to_text(const Uuid& uuid);

struct MemoryHeap {
  std::uint64_t bytes = 0;
  bool device_local = false;
};

struct DeviceInfo {
  std::string name;         ///< "llvmpipe (LLVM 15.0.6, 256 bits)"
  std::string driver_name;  ///< "llvmpipe"; empty where the driver does not say
  std::string driver_info;  ///< "Mesa 22.3.6 (LLVM 15.0.6)"
  std::string api_version;  ///< "1.3.230"
  std::uint32_t driver_version = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  Uuid device_uuid{};
  Uuid driver_uuid{};
  Uuid pipeline_cache_uuid{};  ///< another one where pipelines of one are nothing for the other
  DeviceType type = DeviceType::other;
  std::uint32_t compute_units = 0;           ///< 0: the device does not tell
  std::shared_ptr<const DeviceModel> model;  ///< the row of its architecture
  Caps caps;
  std::vector<MemoryHeap> heaps;

  /// What the row is chosen by. The device info outlives it.
  [[nodiscard]] DeviceIdentity identity() const;

  /// The sum of the device-local heaps.
  [[nodiscard]] std::uint64_t device_memory() const;
};

}  // namespace vkfuse::vulkan

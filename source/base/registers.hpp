// What vendors say of registers: nothing in Vulkan does.
#pragma once

#include "base/target.hpp"

namespace vkfuse {

struct RegisterBudget {
  std::uint32_t vendor_id;  ///< of VkPhysicalDeviceProperties
  const char* source;
  std::uint32_t per_thread, per_workgroup;
};

inline constexpr RegisterBudget kRegisterBudgets[] = {
    {0x13B5,
     "Arm, Mali GPU OpenCL Developer Guide (101574): every thread has 64 32-bit working registers on Bifrost and "
     "Valhall",
     64, 1u << 16},
    {0x5143,
     "Mesa, freedreno_devices.py and ir3.c: of Adreno 642 to 690, the least with waves of 128, 64 vectors of four "
     "registers for two waves of 64, of which a workgroup has two",
     128, 1u << 15},
};

/// Of a device by that vendor; what Caps has by default where nothing is known.
constexpr RegisterBudget registers_of(std::uint32_t vendor_id) {
  for (const RegisterBudget& budget : kRegisterBudgets) {
    if (budget.vendor_id == vendor_id) return budget;
  }
  return {vendor_id, "", kUnknownRegistersPerThread, 1u << 16};
}

}  // namespace vkfuse

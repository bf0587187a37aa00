// Caps by name: what `devices` prints, and what --limit and --disable may lower.
#pragma once

#include "base/target.hpp"
#include "vkfuse/device.hpp"
#include "vulkan/device_info.hpp"

namespace vkfuse::runtime {

/// A device as users see it described. Sentences of tiers are filled in by the caller.
DeviceDescription describe(int index, const vulkan::DeviceInfo& info, const Caps& caps);

/// Lowers named limits and switches named features off; an error names what does not exist or what
/// would be raised. Names of tiers are left to the caller.
Result<void> restrict_caps(const DeviceOptions& options, Caps& caps);

/// The limit "memory_bytes": of the main heap, lowered where the options say so.
Result<std::uint64_t> restrict_memory(const DeviceOptions& options, std::uint64_t heap_bytes);

}  // namespace vkfuse::runtime

// Bytes between the host and a buffer on the device, by way of staging memory where the host does not see the buffer.
#pragma once

#include <memory>
#include <span>

#include "vulkan/buffer.hpp"

namespace vkfuse::vulkan {
class Device;
}

namespace vkfuse::runtime {

/// Returns when the bytes are there. What the device still does with the buffer must not overlap.
Result<void> upload(const std::shared_ptr<vulkan::Device>& device, const vulkan::Buffer& to, std::uint64_t offset,
                    std::span<const std::byte> bytes);
/// What was submitted before is waited for.
Result<void> download(const std::shared_ptr<vulkan::Device>& device, const vulkan::Buffer& from, std::uint64_t offset,
                      std::span<std::byte> bytes);

}  // namespace vkfuse::runtime

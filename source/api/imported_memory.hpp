// Memory of other interfaces, as a buffer of a device.
#pragma once

#include "vkfuse/device.hpp"

namespace vkfuse::api {

/// The first `bytes` of memory that was exported as a file descriptor (VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, or a
/// POSIX descriptor of CUDA on NVIDIA's driver), which becomes the driver's, and is closed after an error. It
/// lives as long as either side has it. ErrorCode::unsupported where the driver shares no memory.
Result<Buffer> import_memory(const Device& device, const ExportedMemory& memory, std::uint64_t bytes);

}  // namespace vkfuse::api

// Checking and printing SPIR-V.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "vkfuse/result.hpp"

namespace vkfuse::spirv {

enum class Environment : std::uint8_t { vulkan_1_1, vulkan_1_2, vulkan_1_3 };

/// Success if the module is valid for that Vulkan version, or for 1.3 if it is SPIR-V 1.6; else ErrorCode::internal
/// with the validator's message and the index of the offending word.
Result<void> validate(std::span<const std::uint32_t> spirv, Environment environment = Environment::vulkan_1_1);

/// Assembly text with names in place of numbers; invalid_argument when the words are no SPIR-V.
Result<std::string> disassemble(std::span<const std::uint32_t> spirv);

}  // namespace vkfuse::spirv

// HLSL as SPIRV-Cross prints it, made to run on Vulkan: the part of a Direct3D host.
#pragma once

#include <string>

#include "portability/kernels.hpp"

namespace vkfuse::test {

/// Number of workgroups of a dispatch.
struct Groups {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
};
Groups groups_of(const BuiltKernel& built);

/// Gives the constant buffer at b0 the push constants, and fills in the size of a workgroup.
std::string for_vulkan(std::string hlsl, const BuiltKernel& built);

}  // namespace vkfuse::test

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
Groups groups_of(const BuiltKernel& built, const Target& target);

/// Gives the constant buffer at b0 the push constants, and fills in what a Direct3D host supplies
/// otherwise: the size of a workgroup and, for the constant buffer at b1, the number of them.
std::string for_vulkan(std::string hlsl, const BuiltKernel& built, Groups groups);

}  // namespace vkfuse::test

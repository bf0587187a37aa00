// HLSL as SPIRV-Cross prints it, made to run on Vulkan: the part of a Direct3D host.
#pragma once

#include <string>

#include "portability/kernels.hpp"

namespace vkfuse::test {

/// Gives the constant buffer at b0 the push constants, and fills in the size of a workgroup.
std::string for_vulkan(std::string hlsl, const lowering::Kernel& kernel);

}  // namespace vkfuse::test

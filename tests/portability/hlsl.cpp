#include "portability/hlsl.hpp"

#include <stdexcept>

namespace vkfuse::test {

std::string for_vulkan(std::string hlsl, const lowering::Kernel& kernel) {
  const std::string constants = "cbuffer SPIRV_CROSS_RootConstant_p : register(b0, space0)";
  const std::size_t at = hlsl.find(constants);
  if (at == std::string::npos) throw std::runtime_error("the HLSL has no '" + constants + "':\n" + hlsl);
  hlsl.replace(at, constants.size(), "[[vk::push_constant]] cbuffer Constants");
  return fmt::format("#define SPIRV_CROSS_CONSTANT_ID_0 {}u\n", kernel.workgroup) + hlsl;
}

}  // namespace vkfuse::test

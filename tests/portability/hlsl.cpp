#include "portability/hlsl.hpp"

#include <stdexcept>

namespace vkfuse::test {

Groups groups_of(const BuiltKernel& built) {
  const std::int64_t x = built.schedule.workgroups_x;
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>((built.schedule.workgroups + x - 1) / x)};
}

std::string for_vulkan(std::string hlsl, const BuiltKernel& built) {
  const std::string constants = "cbuffer SPIRV_CROSS_RootConstant_p : register(b0, space0)";
  const std::size_t at = hlsl.find(constants);
  if (at == std::string::npos) throw std::runtime_error("the HLSL has no '" + constants + "':\n" + hlsl);
  hlsl.replace(at, constants.size(), "[[vk::push_constant]] cbuffer Constants");
  return fmt::format("#define SPIRV_CROSS_CONSTANT_ID_0 {}u\n", built.kernel.workgroup) + hlsl;
}

}  // namespace vkfuse::test

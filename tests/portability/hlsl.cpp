#include "portability/hlsl.hpp"

#include <algorithm>
#include <stdexcept>

namespace vkfuse::test {

namespace {

std::size_t find(const std::string& text, const std::string& wanted, std::size_t from = 0) {
  const std::size_t at = text.find(wanted, from);
  if (at == std::string::npos) throw std::runtime_error("the HLSL has no '" + wanted + "':\n" + text);
  return at;
}

}  // namespace

Groups groups_of(const BuiltKernel& built, const Target& target) {
  const auto all = static_cast<std::uint64_t>(built.schedule.workgroups);
  const std::uint64_t x = std::min<std::uint64_t>(all, target.caps.max_groups_per_axis);
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>((all + x - 1) / x)};
}

std::string for_vulkan(std::string hlsl, const BuiltKernel& built, Groups groups) {
  const std::string constants = "cbuffer SPIRV_CROSS_RootConstant_p : register(b0, space0)";
  hlsl.replace(find(hlsl, constants), constants.size(), "[[vk::push_constant]] cbuffer Constants");
  const std::size_t count = find(hlsl, "cbuffer SPIRV_Cross_NumWorkgroups : register(b1, space0)");
  const std::string end = "};\n";
  hlsl.replace(count, find(hlsl, end, count) + end.size() - count,
               fmt::format("static const uint3 SPIRV_Cross_NumWorkgroups_1_count = uint3({}, {}, 1);\n", groups.x, groups.y));
  return fmt::format("#define SPIRV_CROSS_CONSTANT_ID_0 {}u\n", built.kernel.workgroup) + hlsl;
}

}  // namespace vkfuse::test

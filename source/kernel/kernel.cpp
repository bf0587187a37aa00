#include "kernel/kernel.hpp"

#include "base/error.hpp"

namespace vkfuse::lowering {

Kernel bind_sizes(const RelocatableKernel& relocatable, const SizeBinding& size_binding,
                  std::span<const std::uint32_t> words) {
  Kernel kernel = relocatable.kernel;
  kernel.glsl = size_binding.fill(kernel.glsl);
  kernel.key = size_binding.fill(kernel.key);
  kernel.constants.insert(kernel.constants.end(), words.begin(), words.end());
  return kernel;
}

namespace {

std::string from_base(std::string text) {
  constexpr std::string_view id = "gl_WorkGroupID", end_of_words = "} p;";
  constexpr std::string_view from = "(gl_WorkGroupID + uvec3(p.base_x, p.base_y, 0u))";
  const std::string_view words = "  uint base_x;  // the first workgroup of this part\n  uint base_y;\n";
  for (std::size_t at = text.find(id); at != std::string::npos; at = text.find(id, at + from.size()))
    text.replace(at, id.size(), from);
  const std::size_t end = text.find(end_of_words);
  check(end != std::string::npos, "every kernel has push constants");
  text.insert(end, words);
  return text;
}

}  // namespace

bool has_parts(const Kernel& kernel, const Target& target) {
  return kernel.user.empty() && (kernel.constants.size() + 2) * 4 <= target.caps.memory.push_constant_bytes;
}

Kernel part_of(Kernel kernel, std::uint32_t base_x, std::uint32_t base_y, std::uint32_t groups_x,
               std::uint32_t groups_y) {
  kernel.glsl = from_base(std::move(kernel.glsl));
  if (!kernel.key.empty()) kernel.key = from_base(std::move(kernel.key));
  kernel.constants.push_back(base_x);
  kernel.constants.push_back(base_y);
  kernel.groups_x = groups_x;
  kernel.groups_y = groups_y;
  return kernel;
}

}  // namespace vkfuse::lowering

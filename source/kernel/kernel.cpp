#include "kernel/kernel.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernel/printer.hpp"

namespace vkfuse::lowering {

namespace {

void print(Kernel& kernel, bool of_part) {
  const KernelCode& code = *kernel.code;
  kernel.glsl = Printer(code.names, kernel.sizes.get(), of_part).text(code.glsl);
  kernel.key = Printer(code.names_by_order, kernel.sizes.get(), of_part).text(code.key);
}

}  // namespace

Kernel bind_sizes(const RelocatableKernel& relocatable, const SizeBinding& size_binding,
                  std::span<const std::uint32_t> words) {
  Kernel kernel = relocatable.kernel;
  kernel.constants.insert(kernel.constants.end(), words.begin(), words.end());
  if (kernel.code == nullptr) return kernel;
  kernel.sizes = std::make_shared<const SizeBinding>(size_binding);
  print(kernel, false);
  return kernel;
}

bool has_parts(const Kernel& kernel, const Target& target) {
  return kernel.code != nullptr && (kernel.constants.size() + 2) * 4 <= target.caps.memory.push_constant_bytes;
}

Kernel part_of(Kernel kernel, std::uint32_t base_x, std::uint32_t base_y, std::uint32_t groups_x,
               std::uint32_t groups_y) {
  check(kernel.code != nullptr, "only a kernel that has_parts() is cut into parts");
  print(kernel, true);
  kernel.constants.push_back(base_x);
  kernel.constants.push_back(base_y);
  kernel.groups_x = groups_x;
  kernel.groups_y = groups_y;
  return kernel;
}

}  // namespace vkfuse::lowering

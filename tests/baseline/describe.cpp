// Prints the first device of the Vulkan drivers, as a text that vkfuse-kernels reads (device=FILE). Compiled for other
// processors, too, by scripts/portability.sh.
#include <cstdio>

#include "support/described_device.hpp"
#include "vulkan/instance.hpp"

int main() {
  const auto instance = vkfuse::vulkan::Instance::create();
  if (!instance) {
    std::fprintf(stderr, "%s\n", instance.error().text().c_str());
    return 1;
  }
  std::fputs(vkfuse::test::to_text((*instance)->devices().front()).c_str(), stdout);
  std::fflush(stdout);
  std::_Exit(0);  // these drivers do not like to be taken down without their hardware
}

#include "vulkan/loader.hpp"

#include <fmt/ranges.h>

#include "os/system.hpp"

namespace vkfuse::vulkan {
Result<Loader> open_loader(const std::string& library) {
  std::vector<std::string> names = os::vulkan_loaders();
  if (!library.empty()) names = {library};
  for (const std::string& name : names) {
    if (void* entry = os::find_function(name, "vkGetInstanceProcAddr")) {
      return Loader{name, reinterpret_cast<PFN_vkGetInstanceProcAddr>(entry)};
    }
  }
  return make_error(ErrorCode::no_device,
                    "No Vulkan loader could be opened (tried {}); install the Vulkan runtime of this system.",
                    fmt::join(names, ", "));
}

}  // namespace vkfuse::vulkan

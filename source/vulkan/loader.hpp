// The Vulkan loader library, opened at run time.
#pragma once

#include <string>

#include "vulkan/functions.hpp"

namespace vkfuse::vulkan {

struct Loader {
  std::string library;  ///< the name that opened
  PFN_vkGetInstanceProcAddr lookup = nullptr;
};

/// Opens `library`, or the platform's usual names when it is empty. ErrorCode::no_device when none
/// opens. The library stays open until the process ends: drivers leave thread-local destructors
/// behind, and closing it under them has crashed programs at exit.
Result<Loader> open_loader(const std::string& library = {});

}  // namespace vkfuse::vulkan

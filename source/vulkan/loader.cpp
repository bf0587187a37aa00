#include "vulkan/loader.hpp"

#include <fmt/ranges.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace vkfuse::vulkan {
namespace {

#if defined(_WIN32)
constexpr const char* kNames[] = {"vulkan-1.dll"};
#elif defined(__APPLE__)
constexpr const char* kNames[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#elif defined(__ANDROID__)
constexpr const char* kNames[] = {"libvulkan.so"};
#else
constexpr const char* kNames[] = {"libvulkan.so.1", "libvulkan.so"};
#endif

void* find_entry(const char* library) {
#ifdef _WIN32
  const HMODULE handle = LoadLibraryA(library);
  return handle ? reinterpret_cast<void*>(GetProcAddress(handle, "vkGetInstanceProcAddr")) : nullptr;
#else
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle ? dlsym(handle, "vkGetInstanceProcAddr") : nullptr;
#endif
}

}  // namespace

Result<Loader> open_loader(const std::string& library) {
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  if (!library.empty()) names = {library};
  for (const std::string& name : names) {
    if (void* entry = find_entry(name.c_str())) {
      return Loader{name, reinterpret_cast<PFN_vkGetInstanceProcAddr>(entry)};
    }
  }
  return make_error(ErrorCode::no_device,
                    "No Vulkan loader could be opened (tried {}); install the Vulkan runtime of this system.",
                    fmt::join(names, ", "));
}

}  // namespace vkfuse::vulkan

#include <fmt/format.h>

#include <algorithm>
#include <cwchar>
#include <filesystem>
#include <vector>

#include "os/system.hpp"
#include "os/windows.hpp"

#include <psapi.h>
#include <winternl.h>

extern "C" NTSTATUS NTAPI RtlGetVersion(PRTL_OSVERSIONINFOW);  // of headers of drivers alone

namespace vkfuse::os {

namespace fs = std::filesystem;

namespace {

std::optional<std::string> processor_name() {
  wchar_t text[256] = {};
  DWORD size = sizeof text - sizeof(wchar_t);
  const LSTATUS failed = ::RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                                        L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, text, &size);
  if (failed != ERROR_SUCCESS) return std::nullopt;
  std::string name = fs::path(text).string();
  while (name.ends_with(' ')) name.pop_back();
  return name;
}

std::optional<std::string> architecture_name() {
  SYSTEM_INFO facts{};
  ::GetNativeSystemInfo(&facts);
  switch (facts.wProcessorArchitecture) {
    case PROCESSOR_ARCHITECTURE_AMD64: return "x86_64";
    case PROCESSOR_ARCHITECTURE_ARM64: return "aarch64";
    default: return std::nullopt;
  }
}

}  // namespace

std::vector<LoadedLibrary> loaded_libraries() {
  std::vector<HMODULE> modules(1024);
  DWORD bytes = 0;
  if (!::K32EnumProcessModules(::GetCurrentProcess(), modules.data(),
                               static_cast<DWORD>(modules.size() * sizeof(HMODULE)), &bytes))
    return {};
  modules.resize(std::min<std::size_t>(modules.size(), bytes / sizeof(HMODULE)));
  std::vector<LoadedLibrary> all;
  for (const HMODULE module : modules) {
    std::vector<wchar_t> path(std::size_t{1} << 15);
    WIN32_FILE_ATTRIBUTE_DATA facts{};
    if (::GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())) == 0 ||
        !::GetFileAttributesExW(path.data(), GetFileExInfoStandard, &facts))
      continue;
    all.push_back({fs::path(path.data()).filename().string(),
                   std::uint64_t{facts.nFileSizeHigh} << 32 | facts.nFileSizeLow,
                   since_1970_ns(facts.ftLastWriteTime)});
  }
  return all;
}

std::vector<std::string> vulkan_loaders() { return {"vulkan-1.dll"}; }

Machine machine() {
  Machine all;
  all.processor = processor_name();
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof memory;
  if (::GlobalMemoryStatusEx(&memory)) all.memory_bytes = static_cast<std::int64_t>(memory.ullTotalPhys);
  RTL_OSVERSIONINFOW version{};
  version.dwOSVersionInfoSize = sizeof version;
  if (::RtlGetVersion(&version) >= 0)
    all.system = fmt::format("Windows {}.{}.{}", version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
  all.architecture = architecture_name();
  return all;
}

void prefer_large_pages(void*, std::size_t) {}  // large pages need a privilege there
void make_present(void*, std::size_t) {}

}  // namespace vkfuse::os

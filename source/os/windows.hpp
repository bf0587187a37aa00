// <windows.h> without its macros, and what the *_windows.cpp of this folder share; included by them alone.
#pragma once

#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <cstdint>

namespace vkfuse::os {

/// Windows counts 100 ns since 1601.
inline std::int64_t since_1970_ns(std::int64_t ticks) { return (ticks - 116'444'736'000'000'000) * 100; }
inline std::int64_t since_1970_ns(const FILETIME& time) {
  return since_1970_ns(static_cast<std::int64_t>(std::uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime));
}

}  // namespace vkfuse::os

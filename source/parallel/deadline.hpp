#pragma once

#include <algorithm>
#include <chrono>

namespace vkfuse::parallel {

/// A timeout is as long as somebody likes, and the clock's range is not.
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace vkfuse::parallel

// Limits on the time that the host takes are those of a release build.
#pragma once

#include <cstdlib>

namespace vkfuse::test {

/// How many times slower the library may be than a release build: VKFUSE_TEST_SLOWNESS, which scripts/coverage.sh and
/// scripts/deep.sh set for builds that count lines or check each access; else 1.
inline double slowness() {
  const char* text = std::getenv("VKFUSE_TEST_SLOWNESS");
  return text == nullptr || *text == '\0' ? 1 : std::atof(text);
}

}  // namespace vkfuse::test

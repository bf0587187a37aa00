// The device under test: one per process, chosen by the driver that the environment names.
#pragma once

#include <stdexcept>

#include "base/target.hpp"
#include "vkfuse/device.hpp"

namespace vkfuse::test {

/// Unwraps a result; the test fails with the error's text when there is none.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
inline void must(const Result<void>& result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
}

/// Opened on first use. Throws if it is not the driver that VKFUSE_TEST_DRIVER names: a test must
/// not pass on another device than the one it says. VKFUSE_TEST_LIMITS=least: with what every device of Vulkan 1.1 has
/// and nothing else.
const Device& device();
/// To open a device like this one so.
DeviceOptions least_of(const Device& device);
/// Whether the device under test is such a one. Four buffers a kernel cut graphs that are one kernel elsewhere.
bool has_least_limits();

/// What kernels may use of that device; `wants_half` as for a graph with 16-bit floats.
const Target& target(bool wants_half = true);

}  // namespace vkfuse::test

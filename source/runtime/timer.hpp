// The device time of hand-written kernels on two scratch buffers: what is measured before plans are made.
#pragma once

#include "runtime/context.hpp"
#include "vulkan/timestamps.hpp"

namespace vkfuse::runtime {

struct Timed {
  std::string glsl;  ///< buffer 0 is read, 1 written; specialisation constant 0 is the workgroup's size
  std::string name;
  std::uint32_t workgroup = 1, workgroups = 1;
  int times = 1;               ///< dispatches, one after the other
  std::uint32_t subgroup = 0;  ///< full subgroups of that size; 0: as the device likes
};

class KernelTimer {
 public:
  /// With two buffers of so many bytes, whose contents are not defined. An error where the device has no timestamps or memory.
  static Result<KernelTimer> create(Context& context, std::uint64_t bytes);
  /// Microseconds by the device's clock: the median of a few runs.
  Result<double> time(const Timed& kernel);

 private:
  KernelTimer(Context& context, vulkan::TimestampPool stamps, vulkan::Buffer from, vulkan::Buffer to)
      : context_(&context), stamps_(std::move(stamps)), from_(std::move(from)), to_(std::move(to)) {}

  Context* context_;
  vulkan::TimestampPool stamps_;
  vulkan::Buffer from_, to_;
};

}  // namespace vkfuse::runtime

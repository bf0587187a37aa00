// Kernels written by hand that read one buffer and write another: self-tests and measurements.
#pragma once

#include "runtime/open_device.hpp"
#include "vulkan/pipeline.hpp"

namespace vkfuse::runtime {

/// The text binds what it reads at 0, what it writes at 1; specialisation constant 0 is the workgroup's size.
struct TwoBufferKernel {
  std::string glsl, name;
  std::uint32_t workgroup = 1;
  std::uint32_t subgroup = 0;  ///< full subgroups of that size; 0: as the device likes
};

Result<vulkan::ComputePipeline> make_pipeline(OpenDevice& opened, const TwoBufferKernel& kernel);

}  // namespace vkfuse::runtime

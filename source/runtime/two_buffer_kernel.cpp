#include "runtime/two_buffer_kernel.hpp"

namespace vkfuse::runtime {

Result<vulkan::ComputePipeline> make_pipeline(OpenDevice& opened, const TwoBufferKernel& kernel) {
  VKF_TRY(words, opened.shaders().compile(kernel.glsl, kernel.name, 2));
  vulkan::PipelineInfo info;
  info.name = kernel.name;
  info.spirv = words;
  info.buffers = 2;
  info.constants = {{0, kernel.workgroup}};
  info.full_subgroups = kernel.subgroup > 0;
  if (opened.caps().subgroup.size_control) info.subgroup_size = kernel.subgroup;
  return vulkan::ComputePipeline::create(opened.device(), info);
}

}  // namespace vkfuse::runtime

// What the driver's compiler says of a pipeline.
#include "vulkan/pipeline.hpp"

namespace vkfuse::vulkan {
namespace {

double number(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return statistic.value.b32 ? 1 : 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return static_cast<double>(statistic.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return static_cast<double>(statistic.value.u64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return statistic.value.f64;
    default: return 0;
  }
}

// How many executables the pipeline was compiled to: one for a compute shader on every driver seen.
Result<std::uint32_t> executable_count(const ComputePipeline& pipeline) {
  const Device& device = *pipeline.device();
  const DeviceFunctions& vk = device.functions();
  if (!device.caps().profiling.executable_statistics || !vk.GetPipelineExecutablePropertiesKHR) {
    return unsupported("The device '{}' reports nothing about its pipelines.", device.info().name);
  }
  VkPipelineInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  info.pipeline = pipeline.handle();
  std::uint32_t count = 0;
  VKF_CHECK_OK(vk.call(vk.GetPipelineExecutablePropertiesKHR, device.handle(), &info, &count, nullptr));
  return count;
}

VkPipelineExecutableInfoKHR executable(const ComputePipeline& pipeline, std::uint32_t index) {
  VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
  info.pipeline = pipeline.handle();
  info.executableIndex = index;
  return info;
}

}  // namespace

Result<std::vector<Statistic>> statistics(const ComputePipeline& pipeline) {
  VKF_TRY(count, executable_count(pipeline));
  const Device& device = *pipeline.device();
  const DeviceFunctions& vk = device.functions();
  std::vector<Statistic> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    const VkPipelineExecutableInfoKHR info = executable(pipeline, i);
    VKF_TRY(list, vk.list(VkPipelineExecutableStatisticKHR{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR},
                          vk.GetPipelineExecutableStatisticsKHR, device.handle(), &info));
    for (const auto& item : list) all.push_back({item.name, item.description, number(item)});
  }
  return all;
}

Result<std::vector<Representation>> representations(const ComputePipeline& pipeline) {
  VKF_TRY(count, executable_count(pipeline));
  const Device& device = *pipeline.device();
  const DeviceFunctions& vk = device.functions();
  std::vector<Representation> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    const VkPipelineExecutableInfoKHR info = executable(pipeline, i);
    using Item = VkPipelineExecutableInternalRepresentationKHR;
    VKF_TRY(list, vk.list(Item{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR},
                          vk.GetPipelineExecutableInternalRepresentationsKHR, device.handle(), &info));
    // The first pass gave the sizes; the second fills memory of ours.
    std::vector<std::string> texts(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) {
      texts[k].resize(list[k].dataSize);
      list[k].pData = texts[k].data();
    }
    auto filled = static_cast<std::uint32_t>(list.size());
    VKF_CHECK_OK(
        vk.call(vk.GetPipelineExecutableInternalRepresentationsKHR, device.handle(), &info, &filled, list.data()));
    for (std::size_t k = 0; k < filled; ++k) {
      if (list[k].isText) all.push_back({list[k].name, texts[k].c_str()});  // ends at the driver's zero
    }
  }
  return all;
}

}  // namespace vkfuse::vulkan

#include "vulkan/pipeline.hpp"

#include "base/background.hpp"
#include "vulkan/pipeline_cache.hpp"

namespace vkfuse::vulkan {
namespace {

constexpr std::uint32_t kMaxPushDescriptors = 32;  // what every device with the extension allows

Result<void> check_limits(const Device& device, const PipelineInfo& info) {
  const Caps& caps = device.caps();
  if (info.buffers > caps.memory.storage_buffers) {
    return unsupported("The kernel '{}' uses {} storage buffers; the device '{}' allows {}.", info.name, info.buffers,
                       device.info().name, caps.memory.storage_buffers);
  }
  if (info.push_constant_bytes > caps.memory.push_constant_bytes || info.push_constant_bytes % 4 != 0) {
    return unsupported("The kernel '{}' has {} bytes of push constants; the device '{}' allows {}, a multiple of 4.",
                       info.name, info.push_constant_bytes, device.info().name, caps.memory.push_constant_bytes);
  }
  const std::uint32_t size = info.subgroup_size;
  if (size != 0 && ((size & (size - 1)) || size < caps.subgroup.size_min || size > caps.subgroup.size_max)) {
    return unsupported("The kernel '{}' requires subgroups of {}; the device '{}' has powers of two from {} to {}.",
                       info.name, size, device.info().name, caps.subgroup.size_min, caps.subgroup.size_max);
  }
  if (info.full_subgroups && !caps.subgroup.full) {
    return unsupported("The kernel '{}' requires full subgroups, which the device '{}' does not promise.", info.name,
                       device.info().name);
  }
  return {};
}

// Specialisation values as Vulkan takes them: entries that point into one block.
struct Specialisation {
  std::vector<VkSpecializationMapEntry> entries;
  VkSpecializationInfo info{};

  explicit Specialisation(std::span<const SpecConstant> constants) {
    for (std::size_t i = 0; i < constants.size(); ++i) {
      const std::size_t offset = i * sizeof(SpecConstant) + offsetof(SpecConstant, value);
      entries.push_back({constants[i].id, static_cast<std::uint32_t>(offset), sizeof(std::uint32_t)});
    }
    info.mapEntryCount = static_cast<std::uint32_t>(entries.size());
    info.pMapEntries = entries.data();
    info.dataSize = constants.size_bytes();
    info.pData = constants.data();
  }
};

}  // namespace

Result<ComputePipeline> ComputePipeline::create(const std::shared_ptr<const Device>& device, const PipelineInfo& info) {
  VKF_CHECK_OK(check_limits(*device, info));
  ComputePipeline pipeline;
  pipeline.buffers_ = info.buffers;
  pipeline.push_constant_bytes_ = info.push_constant_bytes;
  pipeline.pushes_descriptors_ = device->has_push_descriptors() && info.buffers <= kMaxPushDescriptors;
  const auto within = [&](Result<void> result) {
    return std::move(result).error().within(fmt::format("creating the pipeline of the kernel '{}'", info.name));
  };
  if (Result<void> made = pipeline.make_layout(device); !made.ok()) return within(std::move(made));
  if (Result<void> made = pipeline.compile(device, info); !made.ok()) return within(std::move(made));
  return pipeline;
}

Result<void> ComputePipeline::make_layout(const std::shared_ptr<const Device>& device) {
  std::vector<VkDescriptorSetLayoutBinding> bindings(buffers_);
  for (std::uint32_t i = 0; i < buffers_; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  if (pushes_descriptors_) set.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
  set.bindingCount = buffers_;
  set.pBindings = bindings.data();
  VKF_TRY(set_layout, decltype(set_layout_)::create(device, device->functions().CreateDescriptorSetLayout, set));
  set_layout_ = std::move(set_layout);

  const VkDescriptorSetLayout layout_of_set = set_layout_.get();
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_constant_bytes_};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.setLayoutCount = 1;
  info.pSetLayouts = &layout_of_set;
  info.pushConstantRangeCount = push_constant_bytes_ > 0 ? 1 : 0;
  info.pPushConstantRanges = &range;
  VKF_TRY(layout, decltype(layout_)::create(device, device->functions().CreatePipelineLayout, info));
  layout_ = std::move(layout);
  return {};
}

Result<void> ComputePipeline::compile(const std::shared_ptr<const Device>& device, const PipelineInfo& info) {
  const DeviceFunctions& vk = device->functions();
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = info.spirv.size_bytes();
  code.pCode = info.spirv.data();
  using Module = Handle<VkShaderModule, &DeviceFunctions::DestroyShaderModule>;
  VKF_TRY(module, Module::create(device, vk.CreateShaderModule, code));

  const Specialisation specialisation(info.constants);
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  subgroup.requiredSubgroupSize = info.subgroup_size;
  VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module.get();
  create.stage.pName = "main";
  create.stage.pSpecializationInfo = &specialisation.info;
  create.layout = layout_.get();
  // A size that is the device's only one need not be required; and where it is, a workgroup may have
  // maxComputeWorkgroupSubgroups alone.
  const Caps& caps = device->caps();
  if (info.subgroup_size != 0 && caps.subgroup.size_min != caps.subgroup.size_max) create.stage.pNext = &subgroup;
  if (info.full_subgroups) create.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  if (info.capture_statistics && device->caps().profiling.executable_statistics) {
    create.flags |=
        VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  }
  const auto start = std::chrono::steady_clock::now();
  PipelineCache cache;
  if (info.keep_cache || !info.cache.empty()) {
    // Without one the pipeline is only slower to make: no reason to fail.
    if (auto made = PipelineCache::create(device, info.cache)) cache = *std::move(made);
  }
  VkPipeline pipeline = VK_NULL_HANDLE;
  VKF_CHECK_OK(vk.call(vk.CreateComputePipelines, device->handle(), cache.handle(), 1u, &create, nullptr, &pipeline));
  creation_time_ = std::chrono::steady_clock::now() - start;
  end_before_drivers();
  pipeline_ = decltype(pipeline_)(device, pipeline);
  if (!info.keep_cache || cache.handle() == VK_NULL_HANDLE) return {};
  if (auto data = cache.data()) cache_data_ = *std::move(data);
  return {};
}

}  // namespace vkfuse::vulkan

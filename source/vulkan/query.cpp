#include "vulkan/query.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "vulkan/enabled.hpp"

namespace vkfuse::vulkan {
namespace {

using Extensions = std::vector<VkExtensionProperties>;

// Appends structures to a pNext chain.
class Chain {
 public:
  template <typename Head>
  explicit Chain(Head& head) : tail_(reinterpret_cast<VkBaseOutStructure*>(&head)) {}

  template <typename T>
  void link(T& next) {
    tail_->pNext = reinterpret_cast<VkBaseOutStructure*>(&next);
    tail_ = tail_->pNext;
  }

 private:
  VkBaseOutStructure* tail_;
};

// What a device has by version or by extension.
struct Offer {
  std::uint32_t version = 0;
  Extensions extensions;

  [[nodiscard]] bool has(std::uint32_t core_since, const char* extension) const {
    return version >= core_since || has_extension(extensions, extension);
  }
};

Result<Offer> offer_of(const InstanceFunctions& vk, VkPhysicalDevice device, const Enabled* enabled) {
  VkPhysicalDeviceProperties properties{};
  vk.GetPhysicalDeviceProperties(device, &properties);
  if (enabled != nullptr)
    return Offer{std::min({properties.apiVersion, enabled->api_version, VK_API_VERSION_1_3 | 0xFFFu}),
                 enabled_extensions(*enabled)};
  VKF_TRY(extensions, vk.list(VkExtensionProperties{}, vk.EnumerateDeviceExtensionProperties, device,
                              static_cast<const char*>(nullptr)));
  return Offer{std::min(properties.apiVersion, VK_API_VERSION_1_3 | 0xFFFu), std::move(extensions)};
}

DeviceType type_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return DeviceType::virtualized;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return DeviceType::cpu;
    default: return DeviceType::other;
  }
}

struct Properties {
  VkPhysicalDeviceProperties2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceIDProperties ids{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties allocation{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties floats{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroup_size{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot_product{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia_units{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  VkPhysicalDeviceShaderCorePropertiesAMD amd_units{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  VkPhysicalDeviceShaderCoreProperties2AMD active_amd_units{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD};
  VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm_units{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};

  Properties() = default;
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;

  /// `whole`: what the device has, though a host may not have enabled it; who made the driver is told anyway.
  void query(const InstanceFunctions& vk, VkPhysicalDevice device, const Offer& offer, const Offer& whole) {
    Chain chain(core);
    chain.link(ids);
    chain.link(subgroup);
    chain.link(allocation);
    if (whole.has(VK_API_VERSION_1_2, "VK_KHR_driver_properties")) chain.link(driver);
    if (offer.has(VK_API_VERSION_1_2, "VK_KHR_shader_float_controls")) chain.link(floats);
    if (offer.has(VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control")) chain.link(subgroup_size);
    if (offer.has(VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product")) chain.link(dot_product);
    const auto link_units = [&](const char* extension, auto& structure) {
      if (has_extension(whole.extensions, extension)) chain.link(structure);
    };
    link_units("VK_NV_shader_sm_builtins", nvidia_units);
    link_units("VK_AMD_shader_core_properties", amd_units);
    link_units("VK_AMD_shader_core_properties2", active_amd_units);
    link_units("VK_ARM_shader_core_builtins", arm_units);
    vk.GetPhysicalDeviceProperties2(device, &core);
  }

  /// 0 where the device does not tell.
  [[nodiscard]] std::uint32_t compute_units() const {
    const std::uint32_t all_of_amd =
        amd_units.shaderEngineCount * amd_units.shaderArraysPerEngineCount * amd_units.computeUnitsPerShaderArray;
    return std::max(
        {nvidia_units.shaderSMCount, arm_units.shaderCoreCount,
         active_amd_units.activeComputeUnitCount != 0 ? active_amd_units.activeComputeUnitCount : all_of_amd});
  }
};

void fill_limits(const VkPhysicalDeviceLimits& limits, Caps& caps) {
  caps.workgroup.max_invocations = limits.maxComputeWorkGroupInvocations;
  caps.workgroup.max_x = limits.maxComputeWorkGroupSize[0];
  caps.workgroup.max_groups_per_axis = std::min(
      {limits.maxComputeWorkGroupCount[0], limits.maxComputeWorkGroupCount[1], limits.maxComputeWorkGroupCount[2]});
  caps.workgroup.shared_memory_bytes = limits.maxComputeSharedMemorySize;
  // One compute shader uses one set: the tighter of the three limits counts.
  caps.memory.storage_buffers = std::min(
      {limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers, limits.maxPerStageResources});
  caps.memory.push_constant_bytes = limits.maxPushConstantsSize;
  caps.memory.storage_buffer_range = limits.maxStorageBufferRange;
  caps.memory.offset_alignment = static_cast<std::uint32_t>(limits.minStorageBufferOffsetAlignment);
}

void fill_subgroups(const Properties& properties, const FeatureChain& features, Caps& caps) {
  const VkPhysicalDeviceSubgroupProperties& subgroup = properties.subgroup;
  const bool in_compute = subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
  caps.subgroup.size = std::max(subgroup.subgroupSize, 1u);
  caps.subgroup.size_min = caps.subgroup.size_max = caps.subgroup.size;
  caps.subgroup.shuffle = in_compute && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
  caps.subgroup.vote = in_compute && (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_VOTE_BIT);
  caps.subgroup.full = features.subgroup_size.computeFullSubgroups;
  caps.subgroup.size_control = features.subgroup_size.subgroupSizeControl &&
                               (properties.subgroup_size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  if (caps.subgroup.size_control) {
    caps.subgroup.size_min = properties.subgroup_size.minSubgroupSize;
    caps.subgroup.size_max = properties.subgroup_size.maxSubgroupSize;
    if (caps.subgroup.size_min != caps.subgroup.size_max)
      caps.subgroup.most_in_workgroup = properties.subgroup_size.maxComputeWorkgroupSubgroups;
  }
}

/// What Vulkan does not tell, by what is known of the architecture and the driver.
void apply_architecture(DeviceInfo& info) {
  info.model = model_of(info.identity());
  apply_model(*info.model, info.caps);
  apply_driver_limits(info.identity(), info.caps);
  // Kernels that reduce across lanes require the size; the others could have more, and need not.
  info.caps.workgroup.max_invocations = invocations_of_subgroups(info.caps, info.caps.subgroup.size);
}

void fill_features(const Properties& properties, const FeatureChain& features, Caps& caps) {
  caps.memory.storage_16bit = features.storage16.storageBuffer16BitAccess;
  caps.memory.storage_8bit = features.storage8.storageBuffer8BitAccess;
  caps.arithmetic.float16 = features.float16_int8.shaderFloat16;
  caps.arithmetic.int8 = features.float16_int8.shaderInt8;
  caps.arithmetic.int16 = features.core.features.shaderInt16;
  caps.arithmetic.int64 = features.core.features.shaderInt64;
  caps.arithmetic.float64 = features.core.features.shaderFloat64;
  caps.float_controls.round_to_even_f16 = properties.floats.shaderRoundingModeRTEFloat16;
  caps.float_controls.keep_nan_f32 = properties.floats.shaderSignedZeroInfNanPreserveFloat32;
  caps.float_controls.keep_nan_f64 = properties.floats.shaderSignedZeroInfNanPreserveFloat64;
  caps.float_controls.keep_denorms_f16 = properties.floats.shaderDenormPreserveFloat16;
  caps.subgroup.extended_types = features.subgroup_types.shaderSubgroupExtendedTypes;
  caps.arithmetic.dot_product_i8 = features.dot_product.shaderIntegerDotProduct;
  caps.arithmetic.dot_product_i8_accelerated =
      caps.arithmetic.dot_product_i8 && properties.dot_product.integerDotProduct4x8BitPackedSignedAccelerated;
  caps.profiling.executable_statistics = features.executables.pipelineExecutableInfo;
}

std::optional<DType> dtype_of(VkComponentTypeKHR type) {
  switch (static_cast<int>(type)) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR: return DType::f16;
    case VK_COMPONENT_TYPE_FLOAT32_KHR: return DType::f32;
    case VK_COMPONENT_TYPE_FLOAT64_KHR: return DType::f64;
    case VK_COMPONENT_TYPE_SINT8_KHR: return DType::i8;
    case VK_COMPONENT_TYPE_SINT16_KHR: return DType::i16;
    case VK_COMPONENT_TYPE_SINT32_KHR: return DType::i32;
    case VK_COMPONENT_TYPE_UINT8_KHR: return DType::u8;
    case VK_COMPONENT_TYPE_UINT16_KHR: return DType::u16;
    case VK_COMPONENT_TYPE_UINT32_KHR: return DType::u32;
    case VK_COMPONENT_TYPE_BFLOAT16_KHR: return DType::bf16;
    default: return std::nullopt;  // newer types are no dtypes of vkfuse
  }
}

Result<void> fill_matrices(const InstanceFunctions& vk, VkPhysicalDevice device, const FeatureChain& features,
                           std::uint32_t version, Caps& caps) {
  if (!features.matrix.cooperativeMatrix || !vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR) return {};
  VKF_TRY(shapes,
          vk.list(VkCooperativeMatrixPropertiesKHR{VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR, nullptr},
                  vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR, device));
  for (const VkCooperativeMatrixPropertiesKHR& shape : shapes) {
    const auto a = dtype_of(shape.AType);
    const auto b = dtype_of(shape.BType);
    const auto c = dtype_of(shape.CType);
    const auto result = dtype_of(shape.ResultType);
    if (shape.scope != VK_SCOPE_SUBGROUP_KHR || shape.saturatingAccumulation || !a || !b || !c || !result) continue;
    caps.matrix.shapes.push_back({shape.MSize, shape.NSize, shape.KSize, *a, *b, *c, *result});
  }
  caps.matrix.bf16 = features.bfloat16.shaderBFloat16CooperativeMatrix;
  if (!features.maintenance4.maintenance4 || version < VK_API_VERSION_1_3)
    return {};  // kernels with what follows are SPIR-V 1.6
  caps.matrix2.reductions = features.matrix2.cooperativeMatrixReductions;
  caps.matrix2.conversions = features.matrix2.cooperativeMatrixConversions;
  caps.matrix2.per_element = features.matrix2.cooperativeMatrixPerElementOperations;
  caps.matrix2.tensor_addressing = features.matrix2.cooperativeMatrixTensorAddressing;
  caps.matrix2.workgroup_scope = features.matrix2.cooperativeMatrixWorkgroupScope;
  caps.matrix2.flexible = features.matrix2.cooperativeMatrixFlexibleDimensions;
  return {};
}

void fill_memory(const InstanceFunctions& vk, VkPhysicalDevice device, const Properties& properties, DeviceInfo& info) {
  VkPhysicalDeviceMemoryProperties memory{};
  vk.GetPhysicalDeviceMemoryProperties(device, &memory);
  std::uint64_t largest = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryHeaps[i];
    info.heaps.push_back({heap.size, (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0});
    if (info.heaps.back().device_local) largest = std::max<std::uint64_t>(largest, heap.size);
  }
  // Some drivers report a limit beyond the memory there is.
  const std::uint64_t limit = properties.allocation.maxMemoryAllocationSize;
  info.caps.memory.max_allocation = largest == 0 ? limit : std::min(limit, largest);
}

}  // namespace

bool has_extension(const Extensions& extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(), [name](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

std::string version_text(std::uint32_t version) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                     VK_API_VERSION_PATCH(version));
}

bool FeatureChain::enable_offered(const std::vector<VkExtensionProperties>& offered, const char* extension) {
  const bool has = has_extension(offered, extension);
  if (has) extensions.push_back(extension);
  return has;
}

Result<void> FeatureChain::query(const InstanceFunctions& vk, VkPhysicalDevice device, const Enabled* enabled) {
  VKF_TRY(offer, offer_of(vk, device, enabled));
  Chain chain(core);
  const auto link = [&](std::uint32_t core_since, const char* extension, auto& structure) {
    if (!offer.has(core_since, extension)) return;
    chain.link(structure);
    if (offer.version < core_since) extensions.push_back(extension);
  };
  constexpr std::uint32_t kNever = ~0u;
  chain.link(storage16);  // core in 1.1
  link(VK_API_VERSION_1_2, "VK_KHR_8bit_storage", storage8);
  link(VK_API_VERSION_1_2, "VK_KHR_shader_float16_int8", float16_int8);
  link(VK_API_VERSION_1_2, "VK_KHR_shader_subgroup_extended_types", subgroup_types);
  link(VK_API_VERSION_1_2, "VK_KHR_timeline_semaphore", timeline);
  link(VK_API_VERSION_1_2, "VK_KHR_vulkan_memory_model", memory_model);
  link(VK_API_VERSION_1_2, "VK_EXT_scalar_block_layout", scalar_layout);
  link(VK_API_VERSION_1_3, "VK_KHR_maintenance4", maintenance4);
  link(VK_API_VERSION_1_3, "VK_EXT_subgroup_size_control", subgroup_size);
  link(VK_API_VERSION_1_3, "VK_KHR_shader_integer_dot_product", dot_product);
  link(kNever, "VK_KHR_pipeline_executable_properties", executables);
  link(kNever, "VK_KHR_cooperative_matrix", matrix);
  link(kNever, "VK_NV_cooperative_matrix2", matrix2);
  link(kNever, "VK_KHR_shader_bfloat16", bfloat16);
  // SPIR-V 1.3 declares the first by extension; the second must be enabled where it is offered.
  if (offer.version < VK_API_VERSION_1_2) enable_offered(offer.extensions, "VK_KHR_shader_float_controls");
  enable_offered(offer.extensions, "VK_KHR_portability_subset");
  push_descriptors = enable_offered(offer.extensions, "VK_KHR_push_descriptor");
  memory_fd = enable_offered(offer.extensions, "VK_KHR_external_memory_fd");
  semaphore_fd = enable_offered(offer.extensions, "VK_KHR_external_semaphore_fd");
  vk.GetPhysicalDeviceFeatures2(device, &core);
  const VkPhysicalDeviceFeatures all = core.features;
  matrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
  core.features = {};
  core.features.shaderInt16 = all.shaderInt16;
  core.features.shaderInt64 = all.shaderInt64;
  core.features.shaderFloat64 = all.shaderFloat64;
  if (enabled != nullptr) keep_enabled(*enabled, *this);
  return {};
}

Result<DeviceInfo> describe_device(const InstanceFunctions& vk, VkPhysicalDevice device, const Enabled* enabled) {
  VKF_TRY(offer, offer_of(vk, device, enabled));
  Properties properties;
  VKF_TRY(whole, offer_of(vk, device, nullptr));
  properties.query(vk, device, offer, whole);
  FeatureChain features;
  VKF_CHECK_OK(features.query(vk, device, enabled));
  const VkPhysicalDeviceProperties& core = properties.core.properties;
  DeviceInfo info;
  info.name = core.deviceName;
  info.driver_name = properties.driver.driverName;
  info.driver_info = properties.driver.driverInfo;
  info.api_version = version_text(core.apiVersion);
  info.driver_version = core.driverVersion;
  info.vendor_id = core.vendorID;
  info.device_id = core.deviceID;
  std::copy_n(properties.ids.deviceUUID, VK_UUID_SIZE, info.device_uuid.begin());
  std::copy_n(properties.ids.driverUUID, VK_UUID_SIZE, info.driver_uuid.begin());
  std::copy_n(core.pipelineCacheUUID, VK_UUID_SIZE, info.pipeline_cache_uuid.begin());
  info.type = type_of(core.deviceType);
  fill_limits(core.limits, info.caps);
  fill_subgroups(properties, features, info.caps);
  info.compute_units = properties.compute_units();
  apply_architecture(info);
  fill_features(properties, features, info.caps);
  VKF_CHECK_OK(fill_matrices(vk, device, features, offer.version, info.caps));
  fill_memory(vk, device, properties, info);
  VKF_TRY(family, choose_queue_family(vk, device));
  info.caps.profiling.timestamp_period_ns = family.timestamp_bits > 0 ? core.limits.timestampPeriod : 0.0F;
  return info;
}

static std::vector<QueueFamily> compute_families(const InstanceFunctions& vk, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> all(count);
  vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, all.data());
  std::vector<QueueFamily> families;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (all[i].queueCount == 0 || !(all[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
    families.push_back({i, all[i].timestampValidBits, !(all[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)});
  }
  return families;
}

Result<QueueFamily> choose_queue_family(const InstanceFunctions& vk, VkPhysicalDevice device) {
  const std::vector<QueueFamily> families = compute_families(vk, device);
  if (families.empty()) return unsupported("None of the device's queue families can compute.");
  const auto alone = std::find_if(families.begin(), families.end(), [](const auto& one) { return one.compute_only; });
  return alone != families.end() ? *alone : families.front();
}

Result<QueueFamily> queue_family_at(const InstanceFunctions& vk, VkPhysicalDevice device, std::uint32_t index) {
  for (const QueueFamily& family : compute_families(vk, device)) {
    if (family.index == index) return family;
  }
  return invalid("Queue family {} of the lent device does not exist or cannot compute.", index);
}

std::string to_text(const Uuid& uuid) { return fmt::format("{:02x}", fmt::join(uuid, "")); }

DeviceIdentity DeviceInfo::identity() const {
  return {.vendor_id = vendor_id,
          .device_id = device_id,
          .name = name,
          .driver_name = driver_name,
          .type = type,
          .compute_units = compute_units};
}

std::uint64_t DeviceInfo::device_memory() const {
  std::uint64_t bytes = 0;
  for (const MemoryHeap& heap : heaps) bytes += heap.device_local ? heap.bytes : 0;
  return bytes;
}

}  // namespace vkfuse::vulkan

// A compiled kernel.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

struct SpecConstant {
  std::uint32_t id = 0;
  std::uint32_t value = 0;  ///< the bits of a 32-bit scalar; booleans are 0 or 1
};

struct PipelineInfo {
  std::string name;                       ///< for messages
  std::span<const std::uint32_t> spirv;   ///< entry point `main`; must be valid, drivers do not check
  std::uint32_t buffers = 0;              ///< storage buffers: set 0, bindings 0 to buffers-1
  std::uint32_t push_constant_bytes = 0;  ///< a multiple of 4
  std::vector<SpecConstant> constants;
  /// 0: the driver chooses, and may vary it; else a power of two that Caps allows.
  std::uint32_t subgroup_size = 0;
  /// Every subgroup is full; the workgroup's x is then a multiple of the subgroup size.
  bool full_subgroups = false;
  /// What cache_data() of the same kernel once gave: the driver then need not compile. Ignored if it is of another
  /// device or driver.
  std::span<const std::byte> cache;
  bool keep_cache = false;  ///< for cache_data()
  /// Keeps what statistics() and representations() read; costs memory, and time on some drivers.
  bool capture_statistics = false;
};

/// Move-only. Must outlive the submissions that use it. Creation is thread-safe and slow: 5 to 80 ms.
class ComputePipeline {
 public:
  /// ErrorCode::unsupported beyond the device's limits, before the driver sees anything.
  static Result<ComputePipeline> create(const std::shared_ptr<const Device>& device, const PipelineInfo& info);

  [[nodiscard]] std::uint32_t buffers() const { return buffers_; }
  [[nodiscard]] std::uint32_t push_constant_bytes() const { return push_constant_bytes_; }
  /// Of a pipeline made with keep_cache, for the next process: what the driver made of the kernel. Empty where it tells
  /// nothing.
  [[nodiscard]] const std::vector<std::byte>& cache_data() const { return cache_data_; }
  /// How long the driver took.
  [[nodiscard]] std::chrono::nanoseconds creation_time() const { return creation_time_; }

  [[nodiscard]] const std::shared_ptr<const Device>& device() const { return pipeline_.device(); }
  [[nodiscard]] VkPipeline handle() const { return pipeline_.get(); }
  [[nodiscard]] VkPipelineLayout layout() const { return layout_.get(); }
  [[nodiscard]] VkDescriptorSetLayout set_layout() const { return set_layout_.get(); }
  [[nodiscard]] bool pushes_descriptors() const { return pushes_descriptors_; }

 private:
  Result<void> make_layout(const std::shared_ptr<const Device>& device);
  Result<void> compile(const std::shared_ptr<const Device>& device, const PipelineInfo& info);

  Handle<VkDescriptorSetLayout, &DeviceFunctions::DestroyDescriptorSetLayout> set_layout_;
  Handle<VkPipelineLayout, &DeviceFunctions::DestroyPipelineLayout> layout_;
  Handle<VkPipeline, &DeviceFunctions::DestroyPipeline> pipeline_;
  std::uint32_t buffers_ = 0;
  std::uint32_t push_constant_bytes_ = 0;
  bool pushes_descriptors_ = false;
  std::chrono::nanoseconds creation_time_{};
  std::vector<std::byte> cache_data_;
};

/// One figure the driver's compiler reports: "SGPRs", "Spilled VGPRs", "Code size", ...
struct Statistic {
  std::string name;
  std::string description;
  double value = 0;
};

/// One stage of the driver's compiler as text: its IR, the ISA.
struct Representation {
  std::string name;
  std::string text;
};

/// Of a pipeline made with capture_statistics; ErrorCode::unsupported where the device lacks
/// VK_KHR_pipeline_executable_properties. Names are the driver's own.
Result<std::vector<Statistic>> statistics(const ComputePipeline& pipeline);
Result<std::vector<Representation>> representations(const ComputePipeline& pipeline);

}  // namespace vkfuse::vulkan

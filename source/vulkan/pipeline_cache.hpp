// What a driver makes of kernels, as bytes that it reads again.
#pragma once

#include <cstddef>
#include <vector>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

/// Move-only. For pipelines made one after the other.
class PipelineCache {
 public:
  /// `initial` is what data() once gave. It is ignored if it does not begin as this device and this version of its
  /// driver would write it: drivers have crashed on the bytes of another version.
  static Result<PipelineCache> create(const std::shared_ptr<const Device>& device,
                                      std::span<const std::byte> initial = {});

  /// Everything the pipelines made with it have added; nothing if the driver keeps nothing, as those do that have a
  /// cache of their own.
  [[nodiscard]] Result<std::vector<std::byte>> data() const;

  [[nodiscard]] VkPipelineCache handle() const { return cache_.get(); }

 private:
  Handle<VkPipelineCache, &DeviceFunctions::DestroyPipelineCache> cache_;
};

}  // namespace vkfuse::vulkan

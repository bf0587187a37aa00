#include "runtime/open_device.hpp"

#include <algorithm>

#include <fmt/ranges.h>

namespace vkfuse::runtime {

OpenDevice::OpenDevice(std::shared_ptr<vulkan::Device> device, std::size_t index, const Caps& caps,
                       const DeviceOptions& options)
    : device_(std::move(device)),
      transfer_(device_),
      index_(static_cast<int>(index)),
      store_(options.store),
      shaders_(store_),
      disabled_(options.disable),
      log_(options.log) {
  const vulkan::DeviceInfo& info = device_->info();
  base_.name = info.name;
  base_.type = info.type;
  base_.caps = caps;
  base_.model = info.model;
  base_.workarounds = workarounds_of(info.identity());
  const bool controls = shaders_.can_compile(spirv::GlslExtension::spirv_intrinsics);
  base_.caps.float_controls.keep_nan_f32 = caps.float_controls.keep_nan_f32 && controls;
  base_.caps.float_controls.keep_nan_f64 = caps.float_controls.keep_nan_f64 && controls;
  base_.caps.arithmetic.int64 = caps.arithmetic.int64 && shaders_.can_compile(spirv::GlslExtension::arithmetic_int64);
  log(LogLevel::info,
      fmt::format("The device '{}' is open ({}, Vulkan {}).", info.name, info.driver_info, info.api_version));
  if (options.store.enabled && !store_.off().empty())
    log(LogLevel::warning, "Compiled kernels are not kept: " + store_.off());
}

bool OpenDevice::is_disabled(std::string_view name) const {
  return std::find(disabled_.begin(), disabled_.end(), name) != disabled_.end();
}

std::string OpenDevice::driver_key() const {
  const vulkan::DeviceInfo& info = device_->info();
  return fmt::format("{} {} {} {} {} {:x}", info.vendor_id, info.device_id, info.driver_version,
                     vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid),
                     fmt::join(info.pipeline_cache_uuid, ""));
}

void OpenDevice::log(LogLevel level, const std::string& sentence) const {
  if (log_) log_(level, sentence);
}

}  // namespace vkfuse::runtime

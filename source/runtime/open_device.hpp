// A Vulkan device that is open, with what the user's options say of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "runtime/shaders.hpp"
#include "runtime/transfer.hpp"
#include "vkfuse/device.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::runtime {

/// Thread-safe.
class OpenDevice {
 public:
  /// `index` is the device's among those of this machine; `caps` are lowered as the options say (restrict_caps).
  OpenDevice(std::shared_ptr<vulkan::Device> device, std::size_t index, const Caps& caps, const DeviceOptions& options);

  [[nodiscard]] const std::shared_ptr<vulkan::Device>& device() const { return device_; }
  [[nodiscard]] Transfer& transfer() { return transfer_; }
  [[nodiscard]] int index() const { return index_; }

  /// The device as any kernel may use it: limits, and no feature tier but T0.
  [[nodiscard]] const Target& base_target() const { return base_; }
  /// Lowered limits, and no feature tiers.
  [[nodiscard]] const Caps& caps() const { return base_.caps; }
  /// Whether the options switch this name off.
  [[nodiscard]] bool is_disabled(std::string_view name) const;

  [[nodiscard]] store::Store& store() { return store_; }
  [[nodiscard]] Shaders& shaders() { return shaders_; }
  /// The device and the driver, down to its version.
  [[nodiscard]] std::string driver_key() const;

  /// Says something to whoever asked to be told.
  void log(LogLevel level, const std::string& sentence) const;

 private:
  std::shared_ptr<vulkan::Device> device_;
  Transfer transfer_;
  int index_ = 0;
  store::Store store_;
  Shaders shaders_;
  Target base_;
  std::vector<std::string> disabled_;
  std::function<void(LogLevel, std::string_view)> log_;
};

}  // namespace vkfuse::runtime

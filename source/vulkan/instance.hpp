// A Vulkan instance and the devices it sees.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vulkan/device_info.hpp"
#include "vulkan/functions.hpp"

namespace vkfuse::vulkan {

struct InstanceOptions {
  std::string library;  ///< of the Vulkan loader; empty: the platform's usual name
  /// Turns the Khronos validation layer on, as VKFUSE_VALIDATE=1 does.
  bool validate = false;
  FaultPlan* faults = nullptr;  ///< for tests
};

/// Shared by its devices. Thread-safe once created.
class Instance {
 public:
  /// ErrorCode::no_device on a machine without a loader or without a driver; ErrorCode::unsupported
  /// when validation is asked for and the layer is not installed. Takes about 65 ms.
  static Result<std::shared_ptr<Instance>> create(const InstanceOptions& options = {});
  /// Uses the host's VkInstance and does not destroy it. `get_instance_proc_addr` may be null: the
  /// usual loader is then opened.
  static Result<std::shared_ptr<Instance>> adopt(void* instance, void (*get_instance_proc_addr)() = nullptr);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// In the driver's order, which is what an index means everywhere. Never empty.
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const { return devices_; }
  /// What the validation layer has complained about so far; 0 when it is off.
  [[nodiscard]] int validation_errors() const { return validation_errors_.load(); }
  [[nodiscard]] const std::string& library() const { return library_; }

  [[nodiscard]] const InstanceFunctions& functions() const { return functions_; }
  [[nodiscard]] VkInstance handle() const { return instance_; }
  [[nodiscard]] VkPhysicalDevice physical_device(std::size_t index) const { return physical_devices_.at(index); }
  /// Where it stands among the devices; invalid_argument if it does not.
  [[nodiscard]] Result<std::size_t> index_of(void* physical_device) const;

 private:
  Instance() = default;
  Result<void> open(const InstanceOptions& options);
  Result<void> find_devices();
  Result<void> start_messenger();

  InstanceFunctions functions_;
  std::string library_;
  VkInstance instance_ = VK_NULL_HANDLE;
  bool owned_ = true;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> physical_devices_;
  std::vector<DeviceInfo> devices_;
  std::atomic<int> validation_errors_ = 0;
};

}  // namespace vkfuse::vulkan

// Unique ownership of one object of a device.
#pragma once

#include <memory>
#include <utility>

#include "vulkan/device.hpp"

namespace vkfuse::vulkan {

/// Destroys `T` through the entry `Destroy` of the device's table, e.g.
/// Handle<VkBuffer, &DeviceFunctions::DestroyBuffer>. Keeps the device alive.
template <typename T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(std::shared_ptr<const Device> device, T value) : device_(std::move(device)), value_(value) {}
  Handle(Handle&& other) noexcept
      : device_(std::move(other.device_)), value_(std::exchange(other.value_, T(VK_NULL_HANDLE))) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_ != VK_NULL_HANDLE && device_->functions().process.is_this())
      (device_->functions().*Destroy)(device_->handle(), value_, nullptr);
  }

  [[nodiscard]] T get() const { return value_; }
  [[nodiscard]] const std::shared_ptr<const Device>& device() const { return device_; }

  /// Calls vkCreate...(device, info, nullptr, &value) and owns what it made.
  template <typename Create, typename Info>
  static Result<Handle> create(const std::shared_ptr<const Device>& device, const Create& command, const Info& info) {
    T value = VK_NULL_HANDLE;
    VKF_CHECK_OK(device->functions().call(command, device->handle(), &info, nullptr, &value));
    return Handle(device, value);
  }

 private:
  std::shared_ptr<const Device> device_;
  T value_ = VK_NULL_HANDLE;
};

struct Fence {
  Handle<VkFence, &DeviceFunctions::DestroyFence> handle;
};

}  // namespace vkfuse::vulkan

// The device time of hand-written kernels on two scratch buffers: what is measured before plans are made.
#pragma once

#include <cstring>
#include <functional>

#include "runtime/two_buffer_kernel.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/timestamps.hpp"

namespace vkfuse::runtime {

struct Timed {
  TwoBufferKernel kernel;
  std::uint32_t workgroups = 1;
  int times = 1;  ///< dispatches, one after the other
};

class KernelTimer {
 public:
  /// With two buffers of so many bytes, whose contents are not defined. An error where the device has no timestamps or
  /// memory.
  static Result<KernelTimer> create(OpenDevice& opened, std::uint64_t bytes);
  /// Microseconds by the device's clock: the median of a few runs.
  Result<double> time(const Timed& timed);

 private:
  KernelTimer(OpenDevice& opened, vulkan::TimestampPool stamps, vulkan::Buffer from, vulkan::Buffer to)
      : opened_(&opened), stamps_(std::move(stamps)), from_(std::move(from)), to_(std::move(to)) {}

  OpenDevice* opened_;
  vulkan::TimestampPool stamps_;
  vulkan::Buffer from_, to_;
};

/// What the store has of the open device under that name, else what `measure()` gives, which is kept: nothing where
/// that is impossible, or no number that can be used, whatever a file or a clock said.
template <typename T>
Result<std::optional<T>> measured_once(OpenDevice& opened, const std::string& name, bool (*is_sane)(const T&),
                                       const std::function<Result<T>()>& measure) {
  const vulkan::DeviceInfo& info = opened.device()->info();
  const std::string key =
      fmt::format("{} {} {}", name, vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid));
  T value{};
  if (const auto kept = opened.store().load(store::Kind::costs, key); kept && kept->size() == sizeof value) {
    std::memcpy(&value, kept->data(), sizeof value);
    if (is_sane(value)) return std::optional(value);
  }
  auto measured = measure();
  if (!measured) {
    // A device that cannot be measured is planned for by its type; a lost one is another matter.
    if (measured.error().code == ErrorCode::device_lost) return measured.error();
    return std::optional<T>();
  }
  if (!is_sane(*measured)) return std::optional<T>();
  opened.store().save(store::Kind::costs, key, std::as_bytes(std::span(&*measured, 1)));
  return std::optional(*measured);
}

}  // namespace vkfuse::runtime

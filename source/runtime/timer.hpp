// The device time of hand-written kernels on two scratch buffers: what is measured before plans are made.
#pragma once

#include <cstring>
#include <functional>

#include "runtime/context.hpp"
#include "vulkan/timestamps.hpp"

namespace vkfuse::runtime {

struct Timed {
  std::string glsl;  ///< buffer 0 is read, 1 written; specialisation constant 0 is the workgroup's size
  std::string name;
  std::uint32_t workgroup = 1, workgroups = 1;
  int times = 1;               ///< dispatches, one after the other
  std::uint32_t subgroup = 0;  ///< full subgroups of that size; 0: as the device likes
};

class KernelTimer {
 public:
  /// With two buffers of so many bytes, whose contents are not defined. An error where the device has no timestamps or
  /// memory.
  static Result<KernelTimer> create(Context& context, std::uint64_t bytes);
  /// Microseconds by the device's clock: the median of a few runs.
  Result<double> time(const Timed& kernel);

 private:
  KernelTimer(Context& context, vulkan::TimestampPool stamps, vulkan::Buffer from, vulkan::Buffer to)
      : context_(&context), stamps_(std::move(stamps)), from_(std::move(from)), to_(std::move(to)) {}

  Context* context_;
  vulkan::TimestampPool stamps_;
  vulkan::Buffer from_, to_;
};

/// What the store has of the open device under that name, else what `measure()` gives, which is kept: nothing where
/// that is impossible, or no number that can be used, whatever a file or a clock said.
template <typename T>
Result<std::optional<T>> measured_once(Context& context, const std::string& name, bool (*is_sane)(const T&),
                                       const std::function<Result<T>()>& measure) {
  const vulkan::DeviceInfo& info = context.device()->info();
  const std::string key =
      fmt::format("{} {} {}", name, vulkan::to_text(info.device_uuid), vulkan::to_text(info.driver_uuid));
  T value{};
  if (const auto kept = context.store().load(store::Kind::costs, key); kept && kept->size() == sizeof value) {
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
  context.store().save(store::Kind::costs, key, std::as_bytes(std::span(&*measured, 1)));
  return std::optional(*measured);
}

}  // namespace vkfuse::runtime

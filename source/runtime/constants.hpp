// Constants in device memory, shared by the programs of a device.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "ir/graph.hpp"
#include "vulkan/buffer.hpp"

namespace vkfuse::runtime {

class OpenDevice;

/// Immutable; freed with the last program that uses it.
struct DeviceConstant {
  ir::Bytes bytes;  ///< to tell it from others
  vulkan::Buffer buffer;
};

/// Finds constants by what is in them. Holds none itself. Thread-safe.
class Constants {
 public:
  /// The constant with these bytes, uploaded now if no program has it; waits until that is done.
  Result<std::shared_ptr<const DeviceConstant>> get(OpenDevice& opened, const ir::Bytes& bytes);
  /// Whether get() would upload nothing.
  [[nodiscard]] bool has(const ir::Bytes& bytes);

 private:
  [[nodiscard]] std::shared_ptr<const DeviceConstant> find(std::uint64_t key, const ir::Bytes& bytes);

  std::mutex mutex_;
  std::multimap<std::uint64_t, std::weak_ptr<const DeviceConstant>> known_;  ///< by a hash of some of their bytes
};

}  // namespace vkfuse::runtime

// Device memory in ONNX Runtime's hands: blocks that it allocates, knows by addresses, and has copied from and to the
// host.
#pragma once

#include <onnxruntime_c_api.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "ort/host.hpp"
#include "vkfuse/device.hpp"

namespace vkfuse::ort {

/// Blocks of device memory by addresses that are reserved and that nothing is behind: ONNX Runtime computes with them,
/// and never reads there. Blocks that were freed are kept for the next of their size. Thread-safe.
class Blocks {
 public:
  /// `info` is what ONNX Runtime calls this memory; it outlives the blocks.
  explicit Blocks(const OrtMemoryInfo* info) : info_(info) {}
  [[nodiscard]] const OrtMemoryInfo* info() const { return info_; }

  /// The address of at least `bytes` on a device, a multiple of a page.
  Result<void*> allocate(const Device& device, std::size_t bytes);
  void free(void* address) noexcept;
  /// Gives the memory of freed blocks back to their devices.
  void drop_idle();

  /// Where an address is: `offset` bytes into the buffer of a block.
  struct Window {
    Device device;
    Buffer buffer;
    std::uint64_t offset = 0;
  };
  /// Nothing where the address is in no block, so on the host.
  [[nodiscard]] std::optional<Window> find(const void* address) const;

 private:
  struct Block {
    Device device;
    Buffer buffer;
    std::size_t reserved = 0;  ///< bytes of addresses
  };
  using Key = std::pair<const Device::State*, std::size_t>;
  using Idle = std::multimap<Key, std::pair<std::uintptr_t, Block>>;
  std::optional<std::uintptr_t> take_idle(const Device& device, std::size_t bytes);
  void drop_idle_locked();

  const OrtMemoryInfo* info_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> used_;
  Idle idle_;
  std::size_t idle_bytes_ = 0;
};

/// The device that an allocator allocates on, which may be opened only then.
using DeviceFor = std::function<Result<Device>()>;

/// Allocates blocks on one device.
class Allocator : public OrtAllocator {
 public:
  Allocator(Blocks& blocks, DeviceFor device_for);

 private:
  void* allocate(std::size_t bytes) noexcept;

  Blocks& blocks_;
  DeviceFor device_for_;
};

/// Copies between blocks and the host, and between blocks. Waits until a copy is done.
class Transfer : public OrtDataTransferImpl {
 public:
  Transfer(const Host& host, const Blocks& blocks);

 private:
  struct Callbacks;
  Result<void> copy(const OrtValue* from, OrtValue* to) const;

  Host host_;
  const Blocks& blocks_;
  const OrtMemoryDevice* memory_;  ///< of blocks
};

}  // namespace vkfuse::ort

#include "ort/memory.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/host_memory.hpp"
#include "ort/graph.hpp"
#include "os/system.hpp"

namespace vkfuse::ort {
namespace {

constexpr std::size_t kPage = 4096;
/// Freed memory that is kept beyond what is in use.
constexpr std::size_t kMostIdle = std::size_t{1} << 30;

/// Few sizes, so that a freed block serves others: powers of two, and from 16 MiB on eighths of them.
std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kLarge = std::size_t{16} << 20;
  const std::size_t power = std::bit_ceil(std::max(bytes, kPage));
  if (power <= kLarge) return power;
  const std::size_t step = power / 16;
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::optional<std::uintptr_t> Blocks::take_idle(const Device& device, std::size_t bytes) {
  const auto found = idle_.find({device.state().get(), bytes});
  if (found == idle_.end()) return std::nullopt;
  const std::uintptr_t address = found->second.first;
  used_.emplace(address, std::move(found->second.second));
  idle_.erase(found);
  idle_bytes_ -= bytes;
  return address;
}

void Blocks::drop_idle() {
  const std::scoped_lock lock(mutex_);
  drop_idle_locked();
}

void Blocks::drop_idle_locked() {
  for (const auto& [key, block] : idle_) os::release_addresses(reinterpret_cast<void*>(block.first), key.second);
  idle_.clear();
  idle_bytes_ = 0;
}

Result<void*> Blocks::allocate(const Device& device, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const std::size_t whole = rounded(bytes);
  if (const auto address = take_idle(device, whole)) return reinterpret_cast<void*>(*address);
  Result<Buffer> buffer = device.allocate(whole);
  if (!buffer && buffer.error().code == ErrorCode::out_of_memory && !idle_.empty()) {
    drop_idle_locked();
    buffer = device.allocate(whole);
  }
  if (!buffer) return std::move(buffer).error();
  void* const address = os::reserve_addresses(whole);
  if (address == nullptr)
    return make_error(ErrorCode::out_of_memory, "The process has no {} addresses left for device memory.", whole);
  used_.emplace(reinterpret_cast<std::uintptr_t>(address), Block{device, *std::move(buffer), whole});
  return address;
}

void Blocks::free(void* address) noexcept try {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == used_.end()) return;
  Block block = std::move(found->second);
  const Key key{block.device.state().get(), block.reserved};
  used_.erase(found);
  idle_bytes_ += block.reserved;
  idle_.emplace(key, std::pair(reinterpret_cast<std::uintptr_t>(address), std::move(block)));
  if (idle_bytes_ > kMostIdle) drop_idle_locked();
} catch (const std::exception&) {
  // There is no memory to remember the block: it is gone, and its addresses stay taken.
}

std::optional<Blocks::Window> Blocks::find(const void* address) const {
  const std::scoped_lock lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto after = used_.upper_bound(at);
  if (after == used_.begin()) return std::nullopt;
  const auto& [begin, block] = *--after;
  if (at - begin >= block.reserved) return std::nullopt;
  return Window{block.device, block.buffer, at - begin};
}

Allocator::Allocator(Blocks& blocks, DeviceFor device_for)
    : OrtAllocator{}, blocks_(blocks), device_for_(std::move(device_for)) {
  version = kApiVersion;
  Alloc = [](OrtAllocator* self, std::size_t bytes) { return static_cast<Allocator*>(self)->allocate(bytes); };
  Reserve = Alloc;
  Free = [](OrtAllocator* self, void* address) { static_cast<Allocator*>(self)->blocks_.free(address); };
  Info = [](const OrtAllocator* self) { return static_cast<const Allocator*>(self)->blocks_.info(); };
}

/// Null, of which ONNX Runtime makes an error, where there is no memory or no device.
void* Allocator::allocate(std::size_t bytes) noexcept {
  if (bytes == 0) return nullptr;
  try {
    const Result<Device> device = device_for_();
    if (!device) return nullptr;
    const Result<void*> address = blocks_.allocate(*device, bytes);
    return address ? *address : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

struct Transfer::Callbacks {
  static const Transfer& of(const OrtDataTransferImpl* self) { return *static_cast<const Transfer*>(self); }
  static void release(OrtDataTransferImpl* self) noexcept { delete static_cast<Transfer*>(self); }
  static bool can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* from,
                       const OrtMemoryDevice* to) noexcept {
    const Transfer& transfer = of(self);
    const OrtEpApi& api = *transfer.host_.ep_api;
    const auto is_block = [&](const OrtMemoryDevice* one) { return api.MemoryDevice_AreEqual(one, transfer.memory_); };
    const auto is_known = [&](const OrtMemoryDevice* one) {
      return is_block(one) || api.MemoryDevice_GetDeviceType(one) == OrtMemoryInfoDeviceType_CPU;
    };
    return (is_block(from) || is_block(to)) && is_known(from) && is_known(to);
  }
  static OrtStatus* copy(OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to, OrtSyncStream**,
                         std::size_t count) noexcept {
    const Transfer& transfer = of(self);
    return guarded(transfer.host_, [&]() -> Result<void> {
      for (std::size_t i = 0; i < count; ++i) VKF_CHECK_OK(transfer.copy(from[i], to[i]));
      return {};
    });
  }
};

Transfer::Transfer(const Host& host, const Blocks& blocks)
    : OrtDataTransferImpl{},
      host_(host),
      blocks_(blocks),
      memory_(host.ep_api->MemoryInfo_GetMemoryDevice(blocks.info())) {
  ort_version_supported = kApiVersion;
  Release = Callbacks::release;
  CanCopy = Callbacks::can_copy;
  CopyTensors = Callbacks::copy;
}

Result<void> Transfer::copy(const OrtValue* from, OrtValue* to) const {
  VKF_TRY(source, elements_of(host_, from));
  VKF_TRY(target, memory_of(host_, to));
  if (source.bytes.size() != target.size())
    return make_error(ErrorCode::internal, "A tensor of {} bytes is copied to one of {}.", source.bytes.size(),
                      target.size());
  if (target.empty()) return {};
  const auto read_from = blocks_.find(source.bytes.data());
  const auto written_to = blocks_.find(target.data());
  if (!read_from && !written_to) return make_error(ErrorCode::internal, "Neither tensor of a copy is on the device.");
  if (!read_from) return written_to->buffer.write(source.bytes, written_to->offset);
  if (!written_to) return read_from->buffer.read(target, read_from->offset);
  std::vector<std::byte> bytes = zero_bytes(target.size());
  VKF_CHECK_OK(read_from->buffer.read(bytes, read_from->offset));
  return written_to->buffer.write(bytes, written_to->offset);
}

}  // namespace vkfuse::ort

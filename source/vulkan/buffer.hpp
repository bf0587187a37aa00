// Memory the device reads and writes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "vulkan/handle.hpp"

namespace vkfuse::vulkan {

enum class BufferKind : std::uint8_t {
  device,    ///< device-local; mapped too where that is the device's main memory
  upload,    ///< host memory, written by the host, copied from by the device
  readback,  ///< host memory, copied to by the device, read by the host
};

/// Where the buffers of a kind are expected to lie.
struct Placement {
  std::uint32_t heap = 0;
  std::uint64_t heap_bytes = 0;
  bool mapped = false;
  bool host_cached = false;
};
Placement expected_placement(const Device& device, BufferKind kind);

/// Memory of a heap that is counted as long as this lives.
class HeapShare {
 public:
  HeapShare() = default;
  HeapShare(std::shared_ptr<const Device> device, std::uint32_t heap, std::uint64_t bytes);
  HeapShare(HeapShare&& other) noexcept : device_(std::move(other.device_)), heap_(other.heap_), bytes_(other.bytes_) {}
  HeapShare& operator=(HeapShare&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(heap_, other.heap_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeapShare();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Device> device_;
  std::uint32_t heap_ = 0;
  std::uint64_t bytes_ = 0;
};

/// A storage buffer that can be copied and filled, with memory of its own. Move-only. Must outlive
/// the submissions that use it.
class Buffer {
 public:
  /// `bytes` is rounded up to a multiple of 16, and to 16 from 0. ErrorCode::out_of_memory beyond
  /// the device's largest allocation or its memory.
  static Result<Buffer> create(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind);
  /// The same as pieces of `each` bytes and a last one of what is left, each with padding of its own: for more than the
  /// device allocates at once. One buffer where `each` is 0.
  static Result<Buffer> create(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind,
                               std::uint64_t each);

  /// In one piece, in device memory that can be exported, and for nothing else afterwards: allocated() is 0.
  /// ErrorCode::unsupported where the device exports none, or takes its memory from a host program.
  static Result<Buffer> create_shared(const std::shared_ptr<const Device>& device, std::uint64_t bytes);

  /// The first `bytes` of memory that another interface has allocated and exported, `memory_bytes` in all. The
  /// descriptor is the driver's from then on, and closed after an error. ErrorCode::unsupported as of create_shared.
  static Result<Buffer> import_fd(const std::shared_ptr<const Device>& device, int fd, std::uint64_t memory_bytes,
                                  std::uint64_t bytes);

  /// A VkBuffer of the host program with storage and transfer usage, which stays the host's. Not
  /// mapped; `bytes` as it was made, which kernels may not assume to be a multiple of 16.
  static Result<Buffer> wrap(const std::shared_ptr<const Device>& device, std::uint64_t handle, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Bytes that were allocated for it alone, in one piece. 0: it is in pieces, in memory of the host program, or
  /// shared.
  [[nodiscard]] std::uint64_t allocated() const { return exported_bytes_ == 0 ? share_.bytes() : 0; }
  /// Of each piece but the last; 0: there is one.
  [[nodiscard]] std::uint64_t piece_bytes() const { return piece_bytes_; }
  [[nodiscard]] std::span<const Buffer> pieces() const {
    return pieces_.empty() ? std::span<const Buffer>(this, 1) : std::span<const Buffer>(pieces_);
  }
  /// Whether the host sees all of it, be it in pieces; then these copy from and to the host.
  [[nodiscard]] bool is_mapped() const { return pieces().front().mapped_ != nullptr; }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// The host's view of a buffer in one piece, coherent with the device, or null when the memory is not mapped: then
  /// data goes through an upload or a readback buffer. Host access and device access must not overlap.
  [[nodiscard]] std::byte* mapped() const { return mapped_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {mapped_, mapped_ ? static_cast<std::size_t>(size_) : 0}; }
  /// Host reads are cached. Mapped memory where this is false is slow to read: read it through a
  /// readback buffer when there is much of it.
  [[nodiscard]] bool host_cached() const { return host_cached_; }

  /// A file descriptor of the memory of a shared buffer (VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD), the caller's.
  [[nodiscard]] Result<int> export_fd() const;
  /// Bytes of the allocation that export_fd() gives; 0: it is not shared.
  [[nodiscard]] std::uint64_t exported_bytes() const { return exported_bytes_; }

  [[nodiscard]] VkBuffer handle() const { return handle_; }
  /// Counts the buffers of this process from 1, wherever they are moved to: what was recorded on one of a number can be
  /// submitted again as long as it is there, and no other has it.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  /// The same as a number: which memory this is, for buffers that wrap one VkBuffer too.
  [[nodiscard]] std::uint64_t number() const { return (std::uint64_t)handle_; }  // a pointer or an integer, by platform

 private:
  using Memory = Handle<VkDeviceMemory, &DeviceFunctions::FreeMemory>;

  static Result<Buffer> make(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind,
                             MemoryExport shared = MemoryExport::none);
  static Result<Buffer> make_within_limits(const std::shared_ptr<const Device>& device, std::uint64_t bytes,
                                           BufferKind kind, MemoryExport shared);
  Result<void> allocate(const std::shared_ptr<const Device>& device, BufferKind kind, MemoryExport shared);
  Result<void> allocate_type(const std::shared_ptr<const Device>& device, std::uint64_t bytes, std::uint32_t type,
                             MemoryExport shared);
  Result<void> create_handle(const std::shared_ptr<const Device>& device, std::uint64_t bytes, bool is_shared);
  Result<void> import_type(const std::shared_ptr<const Device>& device, int fd, std::uint64_t memory_bytes,
                           std::uint32_t type);
  Result<void> borrow(const std::shared_ptr<const Device>& device, std::uint64_t bytes, std::uint64_t alignment,
                      std::uint32_t type, bool mapped);
  Result<void> attach(const std::shared_ptr<const Device>& device, VkMemoryPropertyFlags flags, BufferKind kind);

  static std::uint64_t next_serial();

  std::uint64_t serial_ = next_serial();
  HeapShare share_;
  Memory memory_;                                // declared first: freed after the buffer is gone
  std::shared_ptr<const ExternalMemory> block_;  // or the host's, given back likewise
  Handle<VkBuffer, &DeviceFunctions::DestroyBuffer> buffer_;
  VkBuffer handle_ = VK_NULL_HANDLE;  // buffer_'s, or the host's
  std::uint64_t size_ = 0;
  std::uint64_t piece_bytes_ = 0;
  std::uint64_t exported_bytes_ = 0;
  std::vector<Buffer> pieces_;  ///< empty: it is its own only piece
  std::byte* mapped_ = nullptr;
  bool host_cached_ = false;
};

/// A window of a buffer, in bytes. The offset is a multiple of MemoryCaps::offset_alignment, the size at
/// most MemoryCaps::storage_buffer_range; 0 bytes stands for all that follows the offset.
struct BufferRange {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What lies in the first piece that a range of `bytes` touches, from `skipped` bytes of the range on.
BufferRange in_one_piece(const BufferRange& range, std::uint64_t bytes, std::uint64_t skipped = 0);

}  // namespace vkfuse::vulkan

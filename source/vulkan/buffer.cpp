#include "vulkan/buffer.hpp"
#include "base/host_memory.hpp"
#include "os/files.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace vkfuse::vulkan {
namespace {

constexpr std::uint64_t kGranule = 16;  // a vector load never leaves the buffer
constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kMappable = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

std::uint32_t main_heap(const VkPhysicalDeviceMemoryProperties& memory) {
  std::uint32_t best = 0;
  VkDeviceSize bytes = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryHeaps[i];
    if (!(heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap.size <= bytes) continue;
    best = i;
    bytes = heap.size;
  }
  return best;
}

// How well a memory type suits; negative when it does not.
int suitability(const VkMemoryType& type, BufferKind kind, bool in_main_heap) {
  const VkMemoryPropertyFlags flags = type.propertyFlags;
  // Protected, lazily allocated and uncached device-coherent memory need features and are slow.
  if (flags & ~(kLocal | kMappable | kCached)) return -1;
  const bool mappable = (flags & kMappable) == kMappable;
  const int local = flags & kLocal ? 1 : 0;
  const int cached = flags & kCached ? 1 : 0;
  switch (kind) {
    case BufferKind::device:
      // The small window of a discrete GPU that the host sees is its own heap: leave it alone.
      if (!local || !in_main_heap) return -1;
      return mappable ? 1 + cached : 0;
    case BufferKind::upload: return mappable ? 2 * (1 - local) + (1 - cached) : -1;
    case BufferKind::readback: return mappable ? 2 * cached + (1 - local) : -1;
  }
  return -1;
}

// Memory types that suit, the best first.
std::vector<std::uint32_t> ranked_types(const Device& device, std::uint32_t allowed, BufferKind kind) {
  const VkPhysicalDeviceMemoryProperties& memory = device.memory();
  const std::uint32_t main = main_heap(memory);
  const auto score = [&](std::uint32_t i) {
    return suitability(memory.memoryTypes[i], kind, memory.memoryTypes[i].heapIndex == main);
  };
  std::vector<std::uint32_t> types;
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed >> i & 1u) && score(i) >= 0) types.push_back(i);
  }
  std::stable_sort(types.begin(), types.end(), [&](std::uint32_t a, std::uint32_t b) { return score(a) > score(b); });
  return types;
}

}  // namespace

HeapShare::HeapShare(std::shared_ptr<const Device> device, std::uint32_t heap, std::uint64_t bytes)
    : device_(std::move(device)), heap_(heap), bytes_(bytes) {
  device_->count_allocated(heap_, bytes_);
}

HeapShare::~HeapShare() {
  if (device_) device_->count_freed(heap_, bytes_);
}

// Drivers rule out no type for plain storage buffers, as a rule; where one does, the estimate is of another heap.
Placement expected_placement(const Device& device, BufferKind kind) {
  const VkPhysicalDeviceMemoryProperties& memory = device.memory();
  const std::vector<std::uint32_t> types = ranked_types(device, ~0u, kind);
  Placement placement;
  if (types.empty()) return placement;
  const VkMemoryType& type = memory.memoryTypes[types.front()];
  placement.heap = type.heapIndex;
  placement.heap_bytes = memory.memoryHeaps[type.heapIndex].size;
  placement.mapped =
      (type.propertyFlags & kMappable) == kMappable && (kind != BufferKind::device || device.maps_device_memory());
  placement.host_cached = placement.mapped && (type.propertyFlags & kCached) != 0;
  return placement;
}

std::uint64_t Buffer::next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Result<Buffer> Buffer::create(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind) {
  return make_within_limits(device, bytes, kind, MemoryExport::none);
}

namespace {

Result<void> check_shares(const Device& device) {
  if (device.memory_export() == MemoryExport::none)
    return unsupported("The device '{}' does not share memory by file descriptors (VK_KHR_external_memory_fd).",
                       device.info().name);
  if (device.allocator().allocate)
    return unsupported("The memory of the device '{}' is a host program's, which alone can share it.",
                       device.info().name);
  return {};
}

}  // namespace

Result<Buffer> Buffer::create_shared(const std::shared_ptr<const Device>& device, std::uint64_t bytes) {
  VKF_CHECK_OK(check_shares(*device));
  return make_within_limits(device, bytes, BufferKind::device, device->memory_export());
}

Result<Buffer> Buffer::import_fd(const std::shared_ptr<const Device>& device, int fd, std::uint64_t memory_bytes,
                                 std::uint64_t bytes) {
  os::Handle owned(fd);
  VKF_CHECK_OK(check_shares(*device));
  Buffer buffer;
  VKF_CHECK_OK(buffer.create_handle(device, bytes, true));
  VkMemoryRequirements needs{};
  device->functions().GetBufferMemoryRequirements(device->handle(), buffer.handle_, &needs);
  if (needs.size > memory_bytes)
    return invalid("A buffer of {} bytes is imported from {} bytes of memory.", needs.size, memory_bytes);
  std::optional<Error> last;
  for (const std::uint32_t type : ranked_types(*device, needs.memoryTypeBits, BufferKind::device)) {
    Result<void> imported = buffer.import_type(device, fd, memory_bytes, type);
    if (imported) {
      owned.release();
      VKF_CHECK_OK(buffer.attach(device, device->memory().memoryTypes[type].propertyFlags, BufferKind::device));
      return buffer;
    }
    last = std::move(imported).error();
  }
  if (last) return *std::move(last);
  return unsupported("No type of memory of the device '{}' takes {} imported bytes.", device->info().name,
                     memory_bytes);
}

Result<void> Buffer::import_type(const std::shared_ptr<const Device>& device, int fd, std::uint64_t memory_bytes,
                                 std::uint32_t type) {
  VkImportMemoryFdInfoKHR given{VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
  given.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  given.fd = fd;
  VkMemoryDedicatedAllocateInfo dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
  dedicated.buffer = handle_;
  if (device->memory_export() == MemoryExport::dedicated) given.pNext = &dedicated;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.pNext = &given;
  info.allocationSize = memory_bytes;
  info.memoryTypeIndex = type;
  VKF_TRY(memory, Memory::create(device, device->functions().AllocateMemory, info));
  memory_ = std::move(memory);
  exported_bytes_ = memory_bytes;
  return {};
}

Result<Buffer> Buffer::make_within_limits(const std::shared_ptr<const Device>& device, std::uint64_t bytes,
                                          BufferKind kind, MemoryExport shared) {
  const std::uint64_t limit = device->caps().memory.max_allocation;
  if (bytes > limit) {
    return make_error(ErrorCode::out_of_memory,
                      "A buffer of {} bytes is beyond the {} bytes that the device '{}' allocates at once.", bytes,
                      limit, device->info().name);
  }
  Result<Buffer> made = make(device, bytes, kind, shared);
  const bool short_of_memory = !made && made.error().code == ErrorCode::out_of_memory;
  return short_of_memory && device->free_spare_memory() ? make(device, bytes, kind, shared) : std::move(made);
}

Result<void> Buffer::create_handle(const std::shared_ptr<const Device>& device, std::uint64_t bytes, bool is_shared) {
  size_ = std::max((bytes + kGranule - 1) / kGranule, std::uint64_t{1}) * kGranule;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = size_;
  info.usage = kBufferUsage;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (is_shared) info.pNext = &external;
  VKF_TRY(handle, decltype(buffer_)::create(device, device->functions().CreateBuffer, info));
  buffer_ = std::move(handle);
  handle_ = buffer_.get();
  return {};
}

Result<Buffer> Buffer::make(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind,
                            MemoryExport shared) {
  Buffer buffer;
  VKF_CHECK_OK(buffer.create_handle(device, bytes, shared != MemoryExport::none));
  if (Result<void> done = buffer.allocate(device, kind, shared); !done.ok()) {
    return std::move(done).error().within(fmt::format("allocating a buffer of {} bytes", buffer.size_));
  }
  return buffer;
}

Result<Buffer> Buffer::create(const std::shared_ptr<const Device>& device, std::uint64_t bytes, BufferKind kind,
                              std::uint64_t each) {
  if (each == 0 || bytes <= each) return create(device, bytes, kind);
  Buffer all;
  for (std::uint64_t made = 0; made < bytes; made += each) {
    VKF_TRY(piece, create(device, std::min(each, bytes - made), kind));
    all.size_ = made + piece.size_;
    all.pieces_.push_back(std::move(piece));
  }
  const auto unlike = [&](const Buffer& piece) {
    return (piece.mapped_ == nullptr) != (all.pieces_.front().mapped_ == nullptr);
  };
  if (std::any_of(all.pieces_.begin(), all.pieces_.end(), unlike)) {
    return make_error(ErrorCode::out_of_memory,
                      "The {} bytes of a buffer in pieces do not lie in one kind of memory of the device '{}'.", bytes,
                      device->info().name);
  }
  all.piece_bytes_ = each;
  all.handle_ = all.pieces_.front().handle_;
  all.host_cached_ = all.pieces_.front().host_cached_;
  return all;
}

BufferRange in_one_piece(const BufferRange& range, std::uint64_t bytes, std::uint64_t skipped) {
  const std::uint64_t each = range.buffer->piece_bytes();
  if (each == 0) return {range.buffer, range.offset + skipped, bytes - skipped};
  const std::uint64_t offset = range.offset + skipped;
  return {&range.buffer->pieces()[static_cast<std::size_t>(offset / each)], offset % each,
          std::min(bytes - skipped, each - offset % each)};
}

void Buffer::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const BufferRange part = in_one_piece({this, offset, 0}, bytes.size(), done);
    copy_bytes(bytes.subspan(done, static_cast<std::size_t>(part.bytes)), part.buffer->mapped_ + part.offset);
    done += static_cast<std::size_t>(part.bytes);
  }
}

void Buffer::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const BufferRange part = in_one_piece({this, offset, 0}, bytes.size(), done);
    copy_bytes({part.buffer->mapped_ + part.offset, static_cast<std::size_t>(part.bytes)}, bytes.data() + done);
    done += static_cast<std::size_t>(part.bytes);
  }
}

Result<void> Buffer::allocate(const std::shared_ptr<const Device>& device, BufferKind kind, MemoryExport shared) {
  VkMemoryRequirements needs{};
  device->functions().GetBufferMemoryRequirements(device->handle(), buffer_.get(), &needs);
  const std::vector<std::uint32_t> types = ranked_types(*device, needs.memoryTypeBits, kind);
  Error last = make_error(ErrorCode::out_of_memory, "The device '{}' has no memory type for such a buffer.",
                          device->info().name);
  for (std::uint32_t type : types) {
    Result<void> allocated = device->allocator().allocate
                                 ? borrow(device, needs.size, needs.alignment, type, kind != BufferKind::device)
                                 : allocate_type(device, needs.size, type, shared);
    if (allocated.ok()) return attach(device, device->memory().memoryTypes[type].propertyFlags, kind);
    last = std::move(allocated).error();
    if (last.code != ErrorCode::out_of_memory) break;  // another type would not help
  }
  return last;
}

Result<void> Buffer::allocate_type(const std::shared_ptr<const Device>& device, std::uint64_t bytes, std::uint32_t type,
                                   MemoryExport shared) {
  VkMemoryDedicatedAllocateInfo dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
  dedicated.buffer = buffer_.get();
  VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO};
  exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (shared == MemoryExport::dedicated) exported.pNext = &dedicated;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  if (shared != MemoryExport::none) info.pNext = &exported;
  info.allocationSize = bytes;
  info.memoryTypeIndex = type;
  VKF_TRY(memory, Memory::create(device, device->functions().AllocateMemory, info));
  memory_ = std::move(memory);
  share_ = HeapShare(device, device->memory().memoryTypes[type].heapIndex, bytes);
  if (shared != MemoryExport::none) exported_bytes_ = bytes;
  return {};
}

Result<int> Buffer::export_fd() const {
  if (exported_bytes_ == 0) return invalid("A buffer is exported that was not allocated to be shared.");
  const Device& device = *memory_.device();
  VkMemoryGetFdInfoKHR info{VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR};
  info.memory = memory_.get();
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int made = -1;
  VKF_CHECK_OK(device.functions().call(device.functions().GetMemoryFdKHR, device.handle(), &info, &made));
  return made;
}

Result<void> Buffer::borrow(const std::shared_ptr<const Device>& device, std::uint64_t bytes, std::uint64_t alignment,
                            std::uint32_t type, bool mapped) {
  const ExternalMemory block = device->allocator().allocate(bytes, alignment, type, mapped);
  if (block.memory == 0)
    return make_error(ErrorCode::out_of_memory, "The host's allocator has no {} bytes of memory type {}.", bytes, type);
  block_ = std::shared_ptr<const ExternalMemory>(new ExternalMemory(block), [device](const ExternalMemory* external) {
    device->allocator().release(*external);
    delete external;
  });
  if (mapped && block.mapped == nullptr)
    return invalid("The host's allocator gave {} bytes that are not mapped where mapped ones were asked for.", bytes);
  if (block.offset % alignment != 0)
    return invalid("The host's allocator gave memory at offset {} where a multiple of {} was asked for.", block.offset,
                   alignment);
  return {};
}

Result<void> Buffer::attach(const std::shared_ptr<const Device>& device, VkMemoryPropertyFlags flags, BufferKind kind) {
  const DeviceFunctions& vk = device->functions();
  const VkDeviceMemory memory =
      block_ ? (VkDeviceMemory)block_->memory : memory_.get();  // a pointer or an integer, by platform
  VKF_CHECK_OK(
      vk.call(vk.BindBufferMemory, device->handle(), buffer_.get(), memory, VkDeviceSize{block_ ? block_->offset : 0}));
  if ((flags & kMappable) != kMappable) return {};
  if (kind == BufferKind::device && !device->maps_device_memory()) return {};
  if (block_) {
    mapped_ = static_cast<std::byte*>(block_->mapped);
    host_cached_ = (flags & kCached) != 0;
    return {};
  }
  void* view = nullptr;
  VKF_CHECK_OK(vk.call(vk.MapMemory, device->handle(), memory_.get(), VkDeviceSize{0}, VkDeviceSize{VK_WHOLE_SIZE},
                       VkMemoryMapFlags{0}, &view));
  mapped_ = static_cast<std::byte*>(view);
  host_cached_ = (flags & kCached) != 0;
  return {};
}

}  // namespace vkfuse::vulkan

// What belongs to a host program: its device, its buffers, its memory.
#include "vkfuse/interop.hpp"
#include "api/imported_memory.hpp"

#include <algorithm>

#include "api/states.hpp"

namespace vkfuse {

namespace {

vulkan::Allocator to_allocator(const HostAllocator& host) {
  vulkan::Allocator made;
  if (host.allocate) {
    made.allocate = [allocate = host.allocate](std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type,
                                               bool mapped) {
      const HostMemory block = allocate(bytes, alignment, type, mapped);
      return vulkan::ExternalMemory{block.memory, block.offset, block.mapped};
    };
  }
  if (host.release) {
    // Called as buffers are destroyed, where nothing may be thrown.
    made.release = [release = host.release](const vulkan::ExternalMemory& block) noexcept {
      try {
        release({block.memory, block.offset, block.mapped});
      } catch (...) {
      }
    };
  }
  return made;
}

}  // namespace

Result<Device> Device::adopt(const HostDevice& host, const DeviceOptions& options) {
  return api::guarded([&]() -> Result<Device> {
    VKF_TRY(instance, vulkan::Instance::adopt(host.instance, host.get_instance_proc_addr));
    vulkan::ExternalDevice external;
    external.physical_device = host.physical_device;
    external.device = host.device;
    external.queue = host.queue;
    external.queue_family = host.queue_family;
    external.api_version = host.api_version;
    external.create_info = host.create_info;
    external.lock_queue = host.lock_queue;
    external.unlock_queue = host.unlock_queue;
    external.allocator = to_allocator(host.allocator);
    auto context = runtime::Context::adopt(std::move(instance), external, options);
    if (!context) return std::move(context).error().within("adopting a host's device");
    return Device(std::make_shared<State>(State{*std::move(context)}));
  });
}

namespace {

Result<void> check_offset(const vulkan::Device& device, const char* what, std::uint64_t offset) {
  const std::uint32_t alignment = device.caps().memory.offset_alignment;
  if (offset % alignment == 0) return {};
  return invalid("A buffer is {} from offset {}, but '{}' binds at multiples of {}.", what, offset, device.info().name,
                 alignment);
}

}  // namespace

Result<Buffer> Device::wrap(std::uint64_t vk_buffer, std::uint64_t bytes, std::uint64_t offset) const {
  return api::guarded([&]() -> Result<Buffer> {
    const std::shared_ptr<vulkan::Device>& device = state_->context->device();
    VKF_CHECK_OK(check_offset(*device, "wrapped", offset));
    if (bytes > UINT64_MAX - offset)
      return invalid("A buffer is wrapped with {} bytes from offset {}, which no buffer has.", bytes, offset);
    if (vk_buffer == 0 || bytes == 0) return invalid("A VkBuffer to wrap is null or has {} bytes.", bytes);
    VKF_TRY(buffer, vulkan::Buffer::wrap(device, vk_buffer, offset + bytes));
    return Buffer(std::make_shared<Buffer::State>(state_->context, std::move(buffer), bytes, offset));
  });
}

Result<Buffer> Buffer::part(std::uint64_t offset, std::uint64_t bytes) const {
  return api::guarded([&]() -> Result<Buffer> {
    if (!state_) return invalid("A part of an empty buffer is asked for.");
    if (offset > size() || bytes > size() - offset)
      return invalid("{} bytes from offset {} are no part of a buffer of {} bytes.", bytes, offset, size());
    if (offset == 0 && bytes == size()) return *this;
    state_->may_change();  // by way of the part
    const std::shared_ptr<vulkan::Device>& device = state_->context->device();
    if (state_->buffer.piece_bytes() != 0)
      return unsupported("A buffer that lies in pieces of {} bytes has no parts.", state_->buffer.piece_bytes());
    VKF_CHECK_OK(check_offset(*device, "taken", offset));
    const std::uint64_t begin = state_->offset + offset;
    // At its place there may be no 16 bytes to bind, or those of something else.
    if (bytes == 0) {
      VKF_TRY(empty, state_->context->make_buffer(0, 0));
      auto none = std::make_shared<State>(state_->context, std::move(empty), 0);
      none->whole = state_;
      return Buffer(std::move(none));
    }
    // Kernels write whole 16 bytes, which are there: sizes of buffers are multiples of 16, as offsets are.
    VKF_TRY(buffer, vulkan::Buffer::wrap(device, state_->buffer.number(),
                                         begin + std::max<std::uint64_t>((bytes + 15) / 16 * 16, 16)));
    auto made = std::make_shared<State>(state_->context, std::move(buffer), bytes, begin);
    made->whole = state_;
    return Buffer(std::move(made));
  });
}

Result<Buffer> Device::allocate_shared(std::uint64_t bytes) const {
  return api::guarded([&]() -> Result<Buffer> {
    state_->context->memory().make_room(bytes);
    VKF_TRY(buffer, vulkan::Buffer::create_shared(state_->context->device(), bytes));
    return Buffer(std::make_shared<Buffer::State>(state_->context, std::move(buffer), bytes));
  });
}

Result<Buffer> api::import_memory(const Device& device, const ExportedMemory& memory, std::uint64_t bytes) {
  return api::guarded([&]() -> Result<Buffer> {
    const std::shared_ptr<runtime::Context>& context = device.state()->context;
    VKF_TRY(buffer, vulkan::Buffer::import_fd(context->device(), memory.fd, memory.bytes, bytes));
    return Buffer(std::make_shared<Buffer::State>(context, std::move(buffer), bytes));
  });
}

bool Device::shares_memory() const {
  const vulkan::Device& device = *state_->context->device();
  return device.memory_export() != vulkan::MemoryExport::none && !device.allocator().allocate;
}

bool Device::shares_timelines() const { return state_->context->device()->exports_timelines(); }

Result<ExportedMemory> Buffer::export_memory() const {
  return api::guarded([&]() -> Result<ExportedMemory> {
    if (!state_) return invalid("An empty buffer is exported.");
    VKF_TRY(fd, state_->buffer.export_fd());
    state_->may_change();
    const bool dedicated = state_->context->device()->memory_export() == vulkan::MemoryExport::dedicated;
    return ExportedMemory{fd, state_->buffer.exported_bytes(), dedicated};
  });
}

Result<Timeline> Timeline::create(const Device& device) {
  return api::guarded([&]() -> Result<Timeline> {
    VKF_TRY(timeline, vulkan::Timeline::create(device.state()->context->device()));
    return Timeline(std::make_shared<const State>(State{std::move(timeline)}));
  });
}

Result<void> Timeline::signal(std::uint64_t value) const {
  return api::guarded([&]() -> Result<void> {
    VKF_TRY(reached, state_->timeline.value());
    if (value <= reached)
      return invalid("The timeline has reached {} and cannot be set to {}: timelines only grow.", reached, value);
    return state_->timeline.signal(value);
  });
}

Result<bool> Timeline::wait(std::uint64_t value, std::chrono::nanoseconds time) const {
  return api::guarded([&] { return state_->timeline.wait(value, time); });
}

Result<std::uint64_t> Timeline::value() const {
  return api::guarded([&] { return state_->timeline.value(); });
}

Result<int> Timeline::export_fd() const {
  return api::guarded([&] { return state_->timeline.export_fd(); });
}

std::uint64_t Buffer::vulkan_handle() const {
  // The caller may use it on another queue, or write to it.
  if (state_) state_->may_change();
  if (state_ && !state_->wait_until_filled()) return 0;
  return state_ && state_->buffer.piece_bytes() == 0 ? state_->buffer.number() : 0;
}

}  // namespace vkfuse

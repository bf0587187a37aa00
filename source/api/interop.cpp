// What belongs to a host program: its device, its buffers, its memory.
#include "vkfuse/interop.hpp"

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

Result<Buffer> Device::wrap(std::uint64_t vk_buffer, std::uint64_t bytes, std::uint64_t offset) const {
  return api::guarded([&]() -> Result<Buffer> {
    const std::shared_ptr<vulkan::Device>& device = state_->context->device();
    const std::uint32_t alignment = device->caps().memory.offset_alignment;
    if (offset % alignment != 0)
      return invalid("A buffer is wrapped from offset {}, but '{}' binds at multiples of {}.", offset,
                     device->info().name, alignment);
    if (bytes > UINT64_MAX - offset)
      return invalid("A buffer is wrapped with {} bytes from offset {}, which no buffer has.", bytes, offset);
    if (vk_buffer == 0 || bytes == 0) return invalid("A VkBuffer to wrap is null or has {} bytes.", bytes);
    VKF_TRY(buffer, vulkan::Buffer::wrap(device, vk_buffer, offset + bytes));
    return Buffer(std::make_shared<Buffer::State>(state_->context, std::move(buffer), bytes, offset));
  });
}

std::uint64_t Buffer::vulkan_handle() const {
  return state_ && state_->buffer.piece_bytes() == 0 ? state_->buffer.number() : 0;
}

}  // namespace vkfuse

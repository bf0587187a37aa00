#include "vulkan/command_buffer.hpp"

#include <algorithm>

namespace vkfuse::vulkan {
namespace {

struct Scope {
  VkPipelineStageFlags stages = 0;
  VkAccessFlags reads = 0;
  VkAccessFlags writes = 0;
};

Scope scope_of(Access access) {
  const auto has = [access](Access one) { return (static_cast<unsigned>(access) & static_cast<unsigned>(one)) != 0; };
  Scope scope;
  const auto add = [&](Access one, VkPipelineStageFlags stage, VkAccessFlags read, VkAccessFlags write) {
    if (!has(one)) return;
    scope.stages |= stage;
    scope.reads |= read;
    scope.writes |= write;
  };
  add(Access::compute, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT, VK_ACCESS_SHADER_WRITE_BIT);
  add(Access::transfer, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
  add(Access::host, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT, VK_ACCESS_HOST_WRITE_BIT);
  return scope;
}

std::uint64_t length_of(const BufferRange& range) {
  return range.bytes != 0 ? range.bytes : range.buffer->size() - std::min(range.offset, range.buffer->size());
}

}  // namespace

Result<CommandBuffer> CommandBuffer::create(const std::shared_ptr<const Device>& device, bool concurrent) {
  const DeviceFunctions& vk = device->functions();
  CommandBuffer commands;
  commands.concurrent_ = concurrent;
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = device->queue_family();
  VKF_TRY(handle, decltype(commands.pool_)::create(device, vk.CreateCommandPool, pool));
  commands.pool_ = std::move(handle);
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = commands.pool_.get();
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VKF_CHECK_OK(vk.call(vk.AllocateCommandBuffers, device->handle(), &info, &commands.commands_));
  return commands;
}

void CommandBuffer::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<void> CommandBuffer::begin() {
  const DeviceFunctions& vk = pool_.device()->functions();
  error_.reset();
  recorded_ = false;
  pipeline_ = nullptr;
  if (external_) return descriptors_.reset();
  VKF_CHECK_OK(vk.call(vk.ResetCommandPool, pool_.device()->handle(), pool_.get(), VkCommandPoolResetFlags{0}));
  VKF_CHECK_OK(descriptors_.reset());
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  if (concurrent_) info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  return vk.call(vk.BeginCommandBuffer, commands_, &info);
}

Result<void> CommandBuffer::end() {
  const DeviceFunctions& vk = pool_.device()->functions();
  Result<void> ended = external_ ? Result<void>() : vk.call(vk.EndCommandBuffer, commands_);
  if (error_) return *error_;
  recorded_ = ended.ok();
  return ended;
}

void CommandBuffer::bind(const ComputePipeline& pipeline) {
  if (error_) return;
  pipeline_ = &pipeline;
  buffers_bound_ = pipeline.buffers() == 0;
  pool_.device()->functions().CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle());
}

bool CommandBuffer::range_fits(const BufferRange& range, std::uint64_t bytes) {
  if (bytes > 0 && range.offset <= range.buffer->size() && bytes <= range.buffer->size() - range.offset) return true;
  fail(
      invalid("{} bytes at offset {} are not inside a buffer of {} bytes.", bytes, range.offset, range.buffer->size()));
  return false;
}

void CommandBuffer::bind_buffers(std::span<const BufferRange> ranges) {
  if (error_) return;
  if (pipeline_ == nullptr || ranges.size() != pipeline_->buffers()) {
    return fail(
        invalid("{} buffers are bound to a kernel that has {}.", ranges.size(), pipeline_ ? pipeline_->buffers() : 0));
  }
  if (ranges.empty()) return;
  const Caps& caps = pool_.device()->caps();
  std::vector<VkDescriptorBufferInfo> infos(ranges.size());
  std::vector<VkWriteDescriptorSet> writes(ranges.size(), {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET});
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::uint64_t bytes = length_of(ranges[i]);
    if (!range_fits(ranges[i], bytes)) return;
    const BufferRange bound = in_one_piece(ranges[i], bytes);
    if (bytes > bound.buffer->size() - bound.offset) {
      return fail(invalid(
          "Binding {} has {} bytes at offset {} of a buffer in pieces of {}, and crosses from one into the next.", i,
          bytes, ranges[i].offset, ranges[i].buffer->piece_bytes()));
    }
    if (bytes > caps.memory.storage_buffer_range || bound.offset % caps.memory.offset_alignment != 0) {
      return fail(
          unsupported("Binding {} has {} bytes at offset {}; the device '{}' binds at most {} bytes, at "
                      "multiples of {}.",
                      i, bytes, bound.offset, pool_.device()->info().name, caps.memory.storage_buffer_range,
                      caps.memory.offset_alignment));
    }
    infos[i] = {bound.buffer->handle(), bound.offset, bytes};
    writes[i].dstBinding = static_cast<std::uint32_t>(i);
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &infos[i];
  }
  bind_set(writes);
  buffers_bound_ = true;
}

void CommandBuffer::bind_set(std::span<VkWriteDescriptorSet> writes) {
  const std::shared_ptr<const Device>& device = pool_.device();
  const DeviceFunctions& vk = device->functions();
  const auto count = static_cast<std::uint32_t>(writes.size());
  if (pipeline_->pushes_descriptors()) {
    vk.CmdPushDescriptorSetKHR(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_->layout(), 0u, count,
                               writes.data());
    return;
  }
  Result<VkDescriptorSet> set = descriptors_.allocate(device, pipeline_->set_layout(), count);
  if (!set.ok()) return fail(std::move(set).error());
  for (VkWriteDescriptorSet& write : writes) write.dstSet = *set;
  vk.UpdateDescriptorSets(device->handle(), count, writes.data(), 0u, nullptr);
  vk.CmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_->layout(), 0u, 1u, &*set, 0u, nullptr);
}

void CommandBuffer::push_constants(std::span<const std::byte> bytes) {
  if (error_) return;
  if (pipeline_ == nullptr || bytes.size() > pipeline_->push_constant_bytes() || bytes.size() % 4 != 0) {
    return fail(invalid("{} bytes of push constants do not suit a kernel that has {}.", bytes.size(),
                        pipeline_ ? pipeline_->push_constant_bytes() : 0));
  }
  if (bytes.empty()) return;
  pool_.device()->functions().CmdPushConstants(commands_, pipeline_->layout(),
                                               VkShaderStageFlags{VK_SHADER_STAGE_COMPUTE_BIT}, 0u,
                                               static_cast<std::uint32_t>(bytes.size()), bytes.data());
}

bool CommandBuffer::may_dispatch(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  if (error_) return false;
  const std::uint32_t limit = pool_.device()->caps().workgroup.max_groups_per_axis;
  if (pipeline_ == nullptr || !buffers_bound_) {
    fail(invalid("A dispatch needs a kernel to be bound, and then its buffers."));
  } else if (std::max({x, y, z}) > limit) {
    fail(unsupported("A dispatch of {} x {} x {} workgroups is beyond the {} per axis of the device '{}'.", x, y, z,
                     limit, pool_.device()->info().name));
  }
  return !error_ && x != 0 && y != 0 && z != 0;
}

void CommandBuffer::dispatch(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  if (may_dispatch(x, y, z)) pool_.device()->functions().CmdDispatch(commands_, x, y, z);
}

void CommandBuffer::barrier(Access before, Access after) {
  if (error_) return;
  const Scope from = scope_of(before);
  const Scope to = scope_of(after);
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = from.writes;
  barrier.dstAccessMask = to.reads | to.writes;
  pool_.device()->functions().CmdPipelineBarrier(commands_, from.stages, to.stages, VkDependencyFlags{0}, 1u, &barrier,
                                                 0u, nullptr, 0u, nullptr);
}

void CommandBuffer::copy(const BufferRange& from, const BufferRange& to) {
  if (error_) return;
  const std::uint64_t bytes = length_of(from);
  if (!range_fits(from, bytes) || !range_fits(to, bytes)) return;
  for (std::uint64_t done = 0; done < bytes;) {
    const BufferRange a = in_one_piece(from, bytes, done), b = in_one_piece(to, bytes, done);
    const VkBufferCopy region{a.offset, b.offset, std::min(a.bytes, b.bytes)};
    pool_.device()->functions().CmdCopyBuffer(commands_, a.buffer->handle(), b.buffer->handle(), 1u, &region);
    done += region.size;
  }
}

void CommandBuffer::fill(const BufferRange& range, std::uint32_t word) {
  if (error_) return;
  const std::uint64_t bytes = length_of(range);
  if (!range_fits(range, bytes)) return;
  if (range.offset % 4 != 0 || bytes % 4 != 0) {
    return fail(invalid("A fill of {} bytes at offset {} is not made of words.", bytes, range.offset));
  }
  for (std::uint64_t done = 0; done < bytes;) {
    const BufferRange part = in_one_piece(range, bytes, done);
    pool_.device()->functions().CmdFillBuffer(commands_, part.buffer->handle(), part.offset, part.bytes, word);
    done += part.bytes;
  }
}

void CommandBuffer::reset_timestamps(const TimestampPool& pool) {
  if (error_) return;
  pool_.device()->functions().CmdResetQueryPool(commands_, pool.handle(), 0u, pool.count());
}

void CommandBuffer::write_timestamp(const TimestampPool& pool, std::uint32_t index) {
  if (error_) return;
  if (index >= pool.count()) return fail(invalid("Timestamp {} is beyond a pool of {}.", index, pool.count()));
  pool_.device()->functions().CmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool.handle(), index);
}

}  // namespace vkfuse::vulkan

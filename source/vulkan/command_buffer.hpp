// Recording kernels, copies and barriers, to be submitted any number of times.
#pragma once

#include <optional>
#include <span>

#include "vulkan/buffer.hpp"
#include "vulkan/descriptors.hpp"
#include "vulkan/pipeline.hpp"
#include "vulkan/timestamps.hpp"

namespace vkfuse::vulkan {

/// Who touches memory; combine with |.
enum class Access : std::uint8_t { compute = 1, transfer = 2, host = 4 };
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Move-only; one thread at a time. Between begin() and end() the recording calls return nothing:
/// after an error nothing more is recorded, and end() returns it. What was recorded can be submitted again and again.
class CommandBuffer {
 public:
  /// `concurrent`: may be submitted again before the last submission of it is done.
  static Result<CommandBuffer> create(const std::shared_ptr<const Device>& device, bool concurrent = false);

  /// Appends to a command buffer of the host, which begins, ends and submits it; begin() and end()
  /// then only reset and report errors. Must outlive the execution: it owns the descriptor sets.
  static Result<CommandBuffer> adopt(const std::shared_ptr<const Device>& device, void* command_buffer);

  /// Forgets what was recorded. No submission of it may be in flight.
  Result<void> begin();
  Result<void> end();

  void bind(const ComputePipeline& pipeline);
  /// One range per binding of the bound pipeline, after every bind().
  void bind_buffers(std::span<const BufferRange> ranges);
  /// From offset 0 of the push constants.
  void push_constants(std::span<const std::byte> bytes);
  /// Workgroups per axis; nothing is recorded when one is 0.
  void dispatch(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1);

  /// What `before` wrote is finished and visible to `after`. Host writes before a submission are
  /// visible without one.
  void barrier(Access before, Access after);
  void copy(const BufferRange& from, const BufferRange& to);
  /// Offset and size are multiples of 4.
  void fill(const BufferRange& range, std::uint32_t word);

  /// Queries are reset before they are written, once per submission.
  void reset_timestamps(const TimestampPool& pool);
  /// The time when everything recorded so far has ended.
  void write_timestamp(const TimestampPool& pool, std::uint32_t index);

  /// end() succeeded, so it can be submitted.
  [[nodiscard]] bool recorded() const { return recorded_; }
  [[nodiscard]] VkCommandBuffer handle() const { return commands_; }

 private:
  void fail(Error error);
  void bind_set(std::span<VkWriteDescriptorSet> writes);
  [[nodiscard]] bool may_dispatch(std::uint32_t x, std::uint32_t y, std::uint32_t z);
  [[nodiscard]] bool range_fits(const BufferRange& range, std::uint64_t bytes);

  Handle<VkCommandPool, &DeviceFunctions::DestroyCommandPool> pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  DescriptorArena descriptors_;
  const ComputePipeline* pipeline_ = nullptr;
  bool buffers_bound_ = false;
  bool recorded_ = false;
  bool concurrent_ = false;
  bool external_ = false;
  std::optional<Error> error_;
};

}  // namespace vkfuse::vulkan

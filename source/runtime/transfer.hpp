// Bytes between the host and a buffer on the device, by way of staging memory where the host does not see the buffer.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vulkan/buffer.hpp"
#include "vulkan/command_buffer.hpp"
#include "vulkan/submission.hpp"

namespace vkfuse::runtime {

/// Copies of one device. Staging memory is kept from copy to copy: in each direction two blocks, as large as the
/// largest copy and at most 32 MiB, of which one is filled or read by the host while the device copies the other.
/// Copies that nobody waits for have eight blocks of at most 4 MiB. Thread-safe; copies of several threads in one
/// direction follow each other. No run's memory counts this: 160 MiB at most, until the device is closed.
class Transfer {
 public:
  explicit Transfer(std::shared_ptr<vulkan::Device> device) : device_(std::move(device)) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  /// Waits for copies that nobody has waited for.
  ~Transfer();

  /// Returns when the bytes are there. What was submitted before is over when they are written, but for a buffer that
  /// the host sees: there it must not use these bytes any more.
  Result<void> upload(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes);
  /// The same of memory that nothing submitted uses, without waiting, unless eight such copies are behind what was
  /// submitted: then for the oldest. `filled` is the last copy, also after an error: before its end neither the host
  /// nor another queue may use these bytes.
  Result<void> fill(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes,
                    vulkan::Submission& filled);
  /// Frees a buffer that nobody has any more once its last copy has ended; does not wait for that.
  void free_after(vulkan::Buffer buffer, vulkan::Submission filled);
  /// What was submitted before is waited for.
  Result<void> download(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes);

 private:
  struct Block {
    std::optional<vulkan::Buffer> memory;
    std::optional<vulkan::CommandBuffer> commands;
    vulkan::Submission submission;  ///< of its last copy
  };
  static std::size_t block_bytes(std::size_t bytes);
  /// The block, idle and of this size at least.
  Result<void> prepare(Block& block, std::size_t bytes, vulkan::BufferKind kind);
  Result<void> submit(Block& block, const vulkan::BufferRange& from, const vulkan::BufferRange& to);
  Result<void> upload_staged(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes);
  Result<void> download_staged(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes);

  std::shared_ptr<vulkan::Device> device_;
  std::mutex upload_, download_;
  std::array<Block, 2> up_, down_;
  std::array<Block, 8> fills_;
  std::size_t turn_ = 0;  ///< of fills_, the one that was used first
  std::mutex dropping_;
  std::vector<std::pair<vulkan::Buffer, vulkan::Submission>> dropped_;
};

}  // namespace vkfuse::runtime

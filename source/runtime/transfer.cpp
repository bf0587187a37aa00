#include "runtime/transfer.hpp"

#include <algorithm>
#include <bit>

#include "base/host_memory.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kLeastBlock = std::size_t{1} << 16;
constexpr std::size_t kMostBlock = std::size_t{1} << 25;
constexpr std::size_t kMostFilled = std::size_t{1} << 22;  // at a time, by a copy that nobody waits for

bool has_ended(const vulkan::Submission& copy) {
  const auto done = copy.done();
  return !done || *done;  // nothing is in flight on a device that is lost
}

}  // namespace

std::size_t Transfer::block_bytes(std::size_t bytes) {
  return std::clamp(std::bit_ceil(bytes), kLeastBlock, kMostBlock);
}

Result<void> Transfer::prepare(Block& block, std::size_t bytes, vulkan::BufferKind kind) {
  VKF_CHECK_OK(std::exchange(block.submission, {}).wait());
  if (!block.memory || block.memory->size() < bytes) {
    block.memory.reset();
    VKF_TRY(memory, vulkan::Buffer::create(device_, bytes, kind));
    block.memory = std::move(memory);
  }
  if (!block.commands) {
    VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
    block.commands = std::move(commands);
  }
  return {};
}

Result<void> Transfer::submit(Block& block, const vulkan::BufferRange& from, const vulkan::BufferRange& to) {
  using vulkan::Access;
  vulkan::CommandBuffer& commands = *block.commands;
  VKF_CHECK_OK(commands.begin());
  commands.barrier(Access::compute | Access::transfer, Access::transfer);
  commands.copy(from, to);
  commands.barrier(Access::transfer, Access::compute | Access::transfer | Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device_->submit(commands));
  block.submission = std::move(submission);
  return {};
}

Result<void> Transfer::upload(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (to.is_mapped()) {
    to.write(offset, bytes);
    return {};
  }
  const std::scoped_lock lock(upload_);
  Result<void> done = upload_staged(to, offset, bytes);
  for (Block& block : up_) {
    const Result<void> waited = std::exchange(block.submission, {}).wait();
    if (done && !waited) done = waited;
  }
  return done;
}

Transfer::~Transfer() {
  for (const Block& block : fills_) static_cast<void>(block.submission.wait());
  for (const auto& dropped : dropped_) static_cast<void>(dropped.second.wait());
}

Result<void> Transfer::fill(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes,
                            vulkan::Submission& filled) {
  if (bytes.empty()) return {};
  if (to.is_mapped()) {
    to.write(offset, bytes);
    return {};
  }
  const std::scoped_lock lock(upload_);
  for (std::size_t first = 0; first < bytes.size(); first += kMostFilled) {
    const std::span<const std::byte> piece = bytes.subspan(first, std::min(kMostFilled, bytes.size() - first));
    Block& block = fills_[turn_];
    turn_ = (turn_ + 1) % fills_.size();
    VKF_CHECK_OK(prepare(block, block_bytes(piece.size()), vulkan::BufferKind::upload));
    copy_bytes(piece, block.memory->mapped());
    VKF_CHECK_OK(submit(block, {&*block.memory, 0, piece.size()}, {&to, offset + first, piece.size()}));
    filled = block.submission;
  }
  return {};
}

void Transfer::free_after(vulkan::Buffer buffer, vulkan::Submission filled) {
  const std::scoped_lock lock(dropping_);
  std::erase_if(dropped_, [](const auto& dropped) { return has_ended(dropped.second); });
  if (!has_ended(filled)) dropped_.emplace_back(std::move(buffer), std::move(filled));
}

Result<void> Transfer::upload_staged(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::size_t most = block_bytes(bytes.size());
  for (std::size_t first = 0, turn = 0; first < bytes.size(); first += most, turn = 1 - turn) {
    const std::span<const std::byte> piece = bytes.subspan(first, std::min(most, bytes.size() - first));
    Block& block = up_[turn];
    VKF_CHECK_OK(prepare(block, most, vulkan::BufferKind::upload));
    copy_bytes(piece, block.memory->mapped());
    VKF_CHECK_OK(submit(block, {&*block.memory, 0, piece.size()}, {&to, offset + first, piece.size()}));
  }
  return {};
}

Result<void> Transfer::download(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (from.is_mapped() && from.host_cached()) {
    VKF_CHECK_OK(device_->wait_idle());
    from.read(offset, bytes);
    return {};
  }
  const std::scoped_lock lock(download_);
  Result<void> done = download_staged(from, offset, bytes);
  for (Block& block : down_) {
    const Result<void> waited = std::exchange(block.submission, {}).wait();
    if (done && !waited) done = waited;
  }
  return done;
}

Result<void> Transfer::download_staged(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes) {
  const std::size_t most = block_bytes(bytes.size());
  const auto piece_at = [&](std::size_t first) { return bytes.subspan(first, std::min(most, bytes.size() - first)); };
  const auto start = [&](Block& block, std::size_t first) -> Result<void> {
    VKF_CHECK_OK(prepare(block, most, vulkan::BufferKind::readback));
    return submit(block, {&from, offset + first, piece_at(first).size()}, {&*block.memory, 0, piece_at(first).size()});
  };
  VKF_CHECK_OK(start(down_[0], 0));
  for (std::size_t first = 0, turn = 0; first < bytes.size(); first += most, turn = 1 - turn) {
    if (first + most < bytes.size()) VKF_CHECK_OK(start(down_[1 - turn], first + most));
    VKF_CHECK_OK(std::exchange(down_[turn].submission, {}).wait());
    copy_bytes({down_[turn].memory->mapped(), piece_at(first).size()}, piece_at(first).data());
  }
  return {};
}

}  // namespace vkfuse::runtime

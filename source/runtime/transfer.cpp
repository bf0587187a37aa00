#include "runtime/transfer.hpp"

#include <cstring>

#include "vulkan/command_buffer.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMostStaged = std::size_t{1} << 28;  // bytes that cross from host to device, or back, at a time

}  // namespace

Result<void> upload(const std::shared_ptr<vulkan::Device>& device, const vulkan::Buffer& to, std::uint64_t offset,
                    std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (to.is_mapped()) {
    to.write(offset, bytes);
    return {};
  }
  if (bytes.size() > kMostStaged) {
    VKF_CHECK_OK(upload(device, to, offset, bytes.first(kMostStaged)));
    return upload(device, to, offset + kMostStaged, bytes.subspan(kMostStaged));
  }
  VKF_TRY(staging, vulkan::Buffer::create(device, bytes.size(), vulkan::BufferKind::upload));
  std::memcpy(staging.mapped(), bytes.data(), bytes.size());
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.copy({&staging, 0, bytes.size()}, {&to, offset, bytes.size()});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::compute | vulkan::Access::transfer);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device->submit(commands));
  return submission.wait();
}

Result<void> download(const std::shared_ptr<vulkan::Device>& device, const vulkan::Buffer& from, std::uint64_t offset,
                      std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (from.is_mapped() && from.host_cached()) {
    VKF_CHECK_OK(device->wait_idle());
    from.read(offset, bytes);
    return {};
  }
  if (bytes.size() > kMostStaged) {
    VKF_CHECK_OK(download(device, from, offset, bytes.first(kMostStaged)));
    return download(device, from, offset + kMostStaged, bytes.subspan(kMostStaged));
  }
  VKF_TRY(staging, vulkan::Buffer::create(device, bytes.size(), vulkan::BufferKind::readback));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.barrier(vulkan::Access::compute | vulkan::Access::transfer, vulkan::Access::transfer);
  commands.copy({&from, offset, bytes.size()}, {&staging, 0, bytes.size()});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device->submit(commands));
  VKF_CHECK_OK(submission.wait());
  std::memcpy(bytes.data(), staging.mapped(), bytes.size());
  return {};
}

}  // namespace vkfuse::runtime

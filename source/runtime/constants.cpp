#include "runtime/constants.hpp"

#include <algorithm>

#include "runtime/open_device.hpp"
#include "vulkan/device.hpp"

namespace vkfuse::runtime {

namespace {

/// FNV-1a over the size and at most some hundred bytes: weights of gigabytes are not read to find that they are new,
/// and candidates are compared whole anyway.
std::uint64_t key_of(const std::vector<std::byte>& bytes) {
  constexpr std::size_t kSamples = 256;
  std::uint64_t hash = 14695981039346656037ull ^ bytes.size();
  const std::size_t stride = std::max<std::size_t>(1, bytes.size() / kSamples);
  for (std::size_t i = 0; i < bytes.size(); i += stride)
    hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * 1099511628211ull;
  return hash;
}

}  // namespace

std::shared_ptr<const DeviceConstant> Constants::find(std::uint64_t key, const ir::Bytes& bytes) {
  auto [at, end] = known_.equal_range(key);
  while (at != end) {
    std::shared_ptr<const DeviceConstant> one = at->second.lock();
    if (one == nullptr) {
      at = known_.erase(at);
      continue;
    }
    if (one->bytes == bytes || *one->bytes == *bytes) return one;
    ++at;
  }
  return nullptr;
}

bool Constants::has(const ir::Bytes& bytes) {
  const std::uint64_t key = key_of(*bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  return find(key, bytes) != nullptr;
}

Result<std::shared_ptr<const DeviceConstant>> Constants::get(OpenDevice& opened, const ir::Bytes& bytes) {
  const std::uint64_t key = key_of(*bytes);
  // Held while it is uploaded: another thread with the same constant would upload it too.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (auto known = find(key, bytes)) return known;
  VKF_TRY(buffer, vulkan::Buffer::create(opened.device(), bytes->size(), vulkan::BufferKind::device));
  VKF_CHECK_OK(opened.transfer().upload(buffer, 0, *bytes));
  auto made = std::make_shared<const DeviceConstant>(DeviceConstant{bytes, std::move(buffer)});
  known_.emplace(key, made);
  return made;
}

}  // namespace vkfuse::runtime

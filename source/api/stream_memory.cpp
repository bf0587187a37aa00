#include "api/stream_memory.hpp"

#include <algorithm>

namespace vkfuse::api {

namespace {

constexpr std::size_t kMostRunning = 64;
constexpr std::size_t kMostWaiting = 64;

/// Sizes in steps of a quarter of a power of two, so that what grows a little fits what there was.
std::uint64_t size_class(std::uint64_t bytes) {
  std::uint64_t step = 64;
  while (step * 8 < bytes) step *= 2;
  return std::max<std::uint64_t>((bytes + step - 1) / step, 1) * step;
}

}  // namespace

StreamStorage::~StreamStorage() {
  const auto memory = home.lock();
  if (memory == nullptr) return;
  if (is_handed_out) {
    memory->part_with(buffer);
  } else {
    memory->give_back(std::move(buffer));
  }
}

void StreamMemory::look() {
  while (!running_.empty() && running_.front().done()) {
    running_.pop_front();
    ++done_;
  }
}

Result<std::shared_ptr<StreamStorage>> StreamMemory::take(std::uint64_t bytes, bool idle) {
  look();
  const std::uint64_t requested = size_class(bytes);
  auto storage = std::make_shared<StreamStorage>();
  storage->used = bytes;
  const auto fits = [&](const Waiting& one) {
    return one.buffer.size() == requested && (!idle || one.submitted <= done_);
  };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), fits);
  if (found != waiting_.end()) {
    storage->buffer = std::move(found->buffer);
    waiting_.erase(found);
  } else {
    VKF_TRY(made, device_.allocate(requested));
    storage->buffer = std::move(made);
    bytes_ += requested;
  }
  storage->home = weak_from_this();
  return storage;
}

void StreamMemory::give_back(Buffer buffer) {
  waiting_.push_back({std::move(buffer), submitted_});
  if (waiting_.size() <= kMostWaiting) return;
  bytes_ -= waiting_.front().buffer.size();
  waiting_.pop_front();  // submissions that use it keep it
}

Result<void> StreamMemory::add(Submission submission) {
  running_.push_back(std::move(submission));
  ++submitted_;
  look();
  if (running_.size() <= kMostRunning) return {};
  return running_.front().wait();
}

Result<void> StreamMemory::copy(const Buffer& from, const Buffer& to, std::uint64_t to_offset, std::uint64_t bytes) {
  using vulkan::Access;
  if (bytes == 0) return {};
  to.state()->may_change();
  const auto& device = device_.state()->context->device();
  auto state = std::make_shared<Submission::State>();
  state->buffers = {from.state(), to.state()};
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.barrier(Access::compute | Access::transfer, Access::transfer);
  commands.copy({&from.state()->buffer, from.state()->offset, bytes},
                {&to.state()->buffer, to.state()->offset + to_offset, bytes});
  commands.barrier(Access::transfer, Access::compute | Access::transfer | Access::host);
  VKF_CHECK_OK(commands.end());
  state->commands.push_back(std::move(commands));
  VKF_TRY(submission, device->submit(state->commands.front()));
  state->submission = std::move(submission);
  return add(Submission(std::move(state)));
}

}  // namespace vkfuse::api

#include "nccl/link.hpp"

#include <thread>

#include "api/imported_memory.hpp"
#include "api/states.hpp"
#include "base/error.hpp"
#include "parallel/staged_link.hpp"
#include "parallel/waiting.hpp"

namespace vkfuse::nccl {

namespace {

/// What CUDA's memory is a multiple of.
constexpr std::uint64_t kGranularity = 2 << 20;
/// How long a stream may take to end after an error, where no rank is lost.
constexpr std::chrono::milliseconds kPatience{200};
constexpr CudaStatus kNotReady = 600;  // CUDA_ERROR_NOT_READY
constexpr int kPosixDescriptor = 1;    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

const std::shared_ptr<Buffer::State>& whole_of(const Buffer& buffer) {
  return buffer.state()->whole != nullptr ? buffer.state()->whole : buffer.state();
}

}  // namespace

Link::Link(const Device& device, std::shared_ptr<Cuda> cuda, std::unique_ptr<Communicator> ranks, const ByHost& by_host)
    : device_(device),
      cuda_(std::move(cuda)),
      ranks_(std::move(ranks)),
      host_(parallel::staged_link(device, by_host.messages)),
      least_bytes_(by_host.least_bytes),
      rank_(by_host.messages.rank()),
      size_(by_host.messages.size()) {}

// ---- memory ----

/// What nobody else has any more is not in flight: a run that uses it has it. The map has it once, a mapping once more.
void Link::drop_unused() {
  std::erase_if(blocks_, [&](const auto& one) {
    const Block& block = one.second;
    if (block.is_window) return false;  // to take a window away is for all ranks at once
    if (one.first.use_count() > (block.mapped != nullptr ? 2 : 1)) return false;
    if (block.window_bytes > 0) ranks_->free(block.pointer);
    return true;
  });
}

Result<Buffer> Link::allocate(std::uint64_t bytes) {
  // What is shorter than the messages that NCCL carries is part of none.
  if (bytes < least_bytes_) return host_->allocate(bytes);
  const Cuda::Current current(*cuda_);
  drop_unused();
  if (ranks_->has_windows()) return allocate_window(bytes);
  VKF_TRY(buffer, device_.allocate_shared(bytes));
  VKF_TRY(mapped, MappedMemory::create(cuda_, buffer));
  const CudaPointer pointer = mapped->pointer();
  blocks_.emplace(buffer.state(), Block{std::move(mapped), pointer, 0, false});
  return buffer;
}

Result<Buffer> Link::allocate_window(std::uint64_t bytes) {
  const CudaFunctions& cuda = cuda_->functions();
  const std::uint64_t all = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  VKF_TRY(pointer, ranks_->allocate(all));
  std::uint64_t allocation = 0;
  int fd = -1;
  Result<void> exported = cuda_->checked("cuMemRetainAllocationHandle",
                                         cuda.retain_allocation(&allocation, reinterpret_cast<void*>(pointer)));
  if (exported) {
    exported =
        cuda_->checked("cuMemExportToShareableHandle", cuda.export_allocation(&fd, allocation, kPosixDescriptor, 0));
    cuda.release_allocation(allocation);
  }
  Result<Buffer> buffer =
      exported ? api::import_memory(device_, {fd, all, false}, bytes) : Result<Buffer>(std::move(exported).error());
  if (!buffer) {
    ranks_->free(pointer);
    return buffer;
  }
  blocks_.emplace(buffer->state(), Block{nullptr, pointer, all, false});
  return buffer;
}

Result<Link::Place> Link::place_of(const Buffer& buffer) {
  const auto known = blocks_.find(whole_of(buffer));
  if (known == blocks_.end())
    return invalid("A buffer of {} bytes is exchanged that this link has not allocated.", buffer.size());
  return Place{&known->second, known->second.pointer + buffer.state()->offset};
}

Result<void> Link::make_window(Block& block, std::chrono::steady_clock::time_point deadline) {
  if (block.is_window) return {};
  VKF_CHECK_OK(finish());  // what NCCL does for it may follow what the stream has been given
  VKF_CHECK_OK(ranks_->add_window(block.pointer, block.window_bytes, deadline));
  block.is_window = true;
  return {};
}

Result<const MappedTimeline*> Link::timeline_of(const Timeline& timeline) {
  auto& known = timelines_[timeline.state()];
  if (known == nullptr) {
    VKF_TRY(mapped, MappedTimeline::create(cuda_, timeline));
    known = std::move(mapped);
  }
  return known.get();
}

// ---- exchanges ----

bool Link::goes_to_all(const DeviceExchange& exchange) const {
  const auto count = static_cast<std::size_t>(size_);
  if (exchange.sends.size() != count || exchange.receives.size() != count) return false;
  const bool is_divided = exchange.sends.back().offset != 0;
  for (std::size_t i = 0; i < count; ++i) {
    const BufferPart &sent = exchange.sends[i], &received = exchange.receives[i];
    const bool is_in_place = sent.rank == static_cast<int>(i) && received.rank == sent.rank;
    const std::uint64_t offset = i * exchange.message_bytes;
    if (!is_in_place || sent.offset != (is_divided ? offset : 0) || received.offset != offset) return false;
  }
  return true;
}

Result<void> Link::exchange(const DeviceExchange& exchange) {
  if (is_given_up_) return make_error(ErrorCode::io, "Rank {} has given up NCCL after an error.", rank_);
  const bool is_short = exchange.message_bytes < least_bytes_;
  const bool is_of_others = exchange.sends.empty() && exchange.receives.empty();
  if (is_of_others) return is_short ? host_->exchange(exchange) : Result<void>{};
  const bool is_copied = !is_short && ranks_->has_windows() && goes_to_all(exchange);
  // What copy engines were given ends in finish(), and exchanges end in order.
  if (!is_copied) VKF_CHECK_OK(finish());
  if (is_short || is_copied) VKF_CHECK_OK(wait_for_kernels());
  if (is_short) return host_->exchange(exchange);
  const Cuda::Current current(*cuda_);
  return is_copied ? by_copy_engines(exchange) : by_kernels(exchange);
}

Result<void> Link::by_copy_engines(const DeviceExchange& exchange) {
  VKF_TRY(from, place_of(exchange.from));
  VKF_TRY(to, place_of(exchange.to));
  const auto deadline = parallel::deadline_after(exchange.timeout);
  VKF_CHECK_OK(make_window(*to.block, deadline));
  VKF_CHECK_OK(make_window(*from.block, deadline));
  if (flags_ == nullptr) {
    VKF_TRY(made, Flags::create(cuda_));
    flags_ = std::move(made);
  }
  // Before the value is there: what NCCL does until it copies is done by then.
  const std::uint32_t number = ++number_;
  flights_.push_back({number, exchange.message_bytes, exchange.after, exchange.done, exchange.timeout});
  VKF_CHECK_OK(flags_->close_gate(number));
  const bool is_divided = exchange.sends.back().offset != 0;
  VKF_CHECK_OK(ranks_->exchange_windows(is_divided, {rank_, from.pointer, exchange.message_bytes},
                                        {rank_, to.pointer, exchange.message_bytes}, deadline));
  return flags_->mark(number);
}

Result<void> Link::finish() {
  for (const Flight& flight : flights_) {
    VKF_CHECK_OK(parallel::wait_for(flight.after));
    flags_->open_gate(flight.number);
  }
  while (!flights_.empty()) {
    const Flight flight = flights_.front();
    const auto deadline = parallel::deadline_after(flight.timeout);
    while (!flags_->is_passed(flight.number)) {
      if (parallel::Clock::now() >= deadline) {
        return make_error(ErrorCode::io, "Parts of {} bytes have not come to rank {} until the timeout.", flight.bytes,
                          rank_);
      }
      std::this_thread::yield();
    }
    VKF_CHECK_OK(parallel::signal_in_order(flight.done, deadline));
    flights_.pop_front();
  }
  return {};
}

Result<void> Link::by_kernels(const DeviceExchange& exchange) {
  const auto parts_of = [&](const Buffer& buffer, const std::vector<BufferPart>& parts) {
    std::vector<Communicator::Part> made;
    auto place = parts.empty() ? Result<Place>(Place{}) : place_of(buffer);
    if (!place) return Result<decltype(made)>(std::move(place).error());
    for (const BufferPart& part : parts) made.push_back({part.rank, place->pointer + part.offset, part.bytes});
    return Result<decltype(made)>(std::move(made));
  };
  VKF_TRY(sends, parts_of(exchange.from, exchange.sends));
  VKF_TRY(receives, parts_of(exchange.to, exchange.receives));
  const bool is_shared = device_.shares_timelines();
  if (is_shared) {
    VKF_TRY(after, timeline_of(exchange.after.timeline));
    VKF_CHECK_OK(after->wait(exchange.after.value));
  } else {
    VKF_CHECK_OK(parallel::wait_for(exchange.after));
  }
  VKF_CHECK_OK(ranks_->exchange(sends, receives, parallel::deadline_after(exchange.timeout)));
  if (is_shared) {
    VKF_TRY(done, timeline_of(exchange.done.timeline));
    by_kernels_.push_back({0, exchange.message_bytes, exchange.after, exchange.done, exchange.timeout});
    return done->signal(exchange.done.value);
  }
  VKF_CHECK_OK(wait_for_stream(parallel::deadline_after(exchange.timeout)));
  return parallel::signal_in_order(exchange.done, parallel::deadline_after(exchange.timeout));
}

/// What the host waits for next follows from what they bring, and so from a rank that may be lost.
Result<void> Link::wait_for_kernels() {
  for (const Flight& flight : std::exchange(by_kernels_, {})) {
    VKF_CHECK_OK(parallel::wait_for(flight.after));
    VKF_TRY(has_come,
            parallel::wait_until(flight.done.timeline, flight.done.value, parallel::deadline_after(flight.timeout)));
    if (has_come) continue;
    return make_error(ErrorCode::io, "Parts of {} bytes have not come to rank {} until the timeout.", flight.bytes,
                      rank_);
  }
  return {};
}

Result<void> Link::wait_for_stream(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const CudaStatus status = cuda_->functions().query(cuda_->stream());
    if (status != kNotReady) return cuda_->checked("cuStreamQuery", status);
    if (parallel::Clock::now() >= deadline)
      return make_error(ErrorCode::io, "What NCCL does on rank {} has not ended until the timeout.", rank_);
    std::this_thread::yield();
  }
}

bool Link::is_through(const Flight& last) const {
  flags_->open_gate(last.number);
  const auto deadline = parallel::Clock::now() + kPatience;
  while (!flags_->is_passed(last.number)) {
    if (parallel::Clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void Link::abandon() {
  const Cuda::Current current(*cuda_);
  if (std::exchange(is_given_up_, true)) return;
  const bool is_stuck = !flights_.empty() && !is_through(flights_.back());
  for (const Flight& flight : flights_) static_cast<void>(flight.done.timeline.signal(flight.done.value));
  if (is_stuck) {
    // Copy engines that wait for a rank which is gone wait for good: what they are at outlives this process's use.
    ranks_->leak();
    static_cast<void>(new std::shared_ptr<Cuda>(cuda_));
    static_cast<void>(new decltype(blocks_)(std::move(blocks_)));
    static_cast<void>(flags_.release());
    return;
  }
  ranks_->abort();
  cuda_->functions().synchronize(cuda_->stream());
  std::erase_if(blocks_, [&](const auto& one) {
    const bool is_ours = one.second.window_bytes > 0 && one.first.use_count() == 1;
    if (is_ours) ranks_->free(one.second.pointer);
    return is_ours;
  });
}

}  // namespace vkfuse::nccl

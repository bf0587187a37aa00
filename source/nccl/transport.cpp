// Ranks that speak by another transport, and whose values go from GPU to GPU by NCCL.
#include <map>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "nccl/communicator.hpp"
#include "parallel/deadline.hpp"
#include "vkfuse/nccl.hpp"

namespace vkfuse {

namespace {

using nccl::Communicator;
using nccl::Cuda;
using nccl::MappedMemory;
using nccl::MappedTimeline;

/// How long ranks may take to find each other.
constexpr std::chrono::seconds kMeeting{120};

class NcclLink final : public DeviceLink {
 public:
  NcclLink(Device device, std::shared_ptr<Cuda> cuda, std::unique_ptr<Communicator> ranks)
      : device_(std::move(device)), cuda_(std::move(cuda)), ranks_(std::move(ranks)) {}
  ~NcclLink() override { abandon(); }

  Result<Buffer> allocate(std::uint64_t bytes) override {
    // What nobody else has any more is not in flight: a run that uses it has it.
    std::erase_if(memory_, [](const auto& one) { return one.first.use_count() == 2; });
    VKF_TRY(buffer, device_.allocate_shared(bytes));
    VKF_TRY(mapped, MappedMemory::create(cuda_, buffer));
    memory_.emplace(buffer.state(), std::move(mapped));
    return buffer;
  }

  Result<void> exchange(const DeviceExchange& exchange) override {
    VKF_TRY(sends, parts_of(exchange.from, exchange.sends));
    VKF_TRY(receives, parts_of(exchange.to, exchange.receives));
    const bool is_shared = device_.shares_timelines();
    const Cuda::Current current(*cuda_);
    if (is_shared) {
      VKF_TRY(after, timeline_of(exchange.after.timeline));
      VKF_CHECK_OK(after->wait(exchange.after.value));
    } else {
      VKF_CHECK_OK(wait_on_the_host(exchange.after));
    }
    const auto deadline = parallel::deadline_after(exchange.timeout);
    if (!sends.empty() || !receives.empty()) VKF_CHECK_OK(ranks_->exchange(sends, receives, deadline));
    if (is_shared) {
      VKF_TRY(done, timeline_of(exchange.done.timeline));
      return done->signal(exchange.done.value);
    }
    VKF_CHECK_OK(cuda_->checked("cuStreamSynchronize", cuda_->functions().synchronize(cuda_->stream())));
    return exchange.done.timeline.signal(exchange.done.value);
  }

  void abandon() override {
    ranks_->abort();
    const Cuda::Current current(*cuda_);
    cuda_->functions().synchronize(cuda_->stream());
  }

 private:
  static Result<void> wait_on_the_host(const TimelinePoint& point) {
    for (;;) {
      VKF_TRY(is_reached, point.timeline.wait(point.value, std::chrono::seconds(1)));
      if (is_reached) return {};
    }
  }

  Result<std::vector<Communicator::Part>> parts_of(const Buffer& buffer, const std::vector<BufferPart>& parts) const {
    std::vector<Communicator::Part> made;
    if (parts.empty()) return made;
    const auto known = memory_.find(buffer.state());
    if (known == memory_.end())
      return invalid("A buffer of {} bytes is exchanged that this link has not allocated.", buffer.size());
    for (const BufferPart& part : parts)
      made.push_back({part.rank, known->second->pointer() + part.offset, part.bytes});
    return made;
  }

  Result<const MappedTimeline*> timeline_of(const Timeline& timeline) {
    auto& known = timelines_[timeline.state()];
    if (known == nullptr) {
      VKF_TRY(mapped, MappedTimeline::create(cuda_, timeline));
      known = std::move(mapped);
    }
    return known.get();
  }

  Device device_;
  std::shared_ptr<Cuda> cuda_;
  std::unique_ptr<Communicator> ranks_;
  std::map<std::shared_ptr<Buffer::State>, std::unique_ptr<MappedMemory>> memory_;
  std::map<std::shared_ptr<const Timeline::State>, std::unique_ptr<MappedTimeline>> timelines_;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<Transport> messages, nccl::CudaFunctions cuda, nccl::NcclFunctions functions)
      : messages_(std::move(messages)), cuda_(cuda), nccl_(functions) {}

  [[nodiscard]] int rank() const override { return messages_->rank(); }
  [[nodiscard]] int size() const override { return messages_->size(); }
  Result<void> exchange(const Exchange& exchange) override { return messages_->exchange(exchange); }
  void fail(std::string_view sentence) override { messages_->fail(sentence); }

  /// One for each device, which its programs share.
  Result<std::shared_ptr<DeviceLink>> link(const Device& device) override {
    std::shared_ptr<DeviceLink>& known = links_[device.state()];
    if (known == nullptr) {
      auto made = new_link(device);
      if (!made) return std::move(made).error().within(fmt::format("opening NCCL on rank {}", rank()));
      known = *std::move(made);
    }
    return known;
  }

 private:
  Result<std::shared_ptr<DeviceLink>> new_link(const Device& device) {
    if (!device.shares_memory()) {
      return unsupported("The driver of {} shares no memory with CUDA, and {} ranks use NCCL.",
                         device.description().name, size());
    }
    VKF_TRY(opened, Cuda::open(cuda_, device.description()));
    const std::shared_ptr<Cuda> cuda = std::move(opened);
    Communicator::Place place{rank(), size(), {}, std::chrono::steady_clock::now() + kMeeting};
    VKF_TRY(id, common_id(place.deadline));
    place.id = id;
    VKF_TRY(ranks, Communicator::create(nccl_, cuda, place));
    return std::shared_ptr<DeviceLink>(std::make_shared<NcclLink>(device, cuda, std::move(ranks)));
  }

  /// Rank 0's, on every rank.
  Result<nccl::UniqueId> common_id(std::chrono::steady_clock::time_point deadline) {
    auto id = std::make_shared<nccl::UniqueId>();
    Exchange exchange;
    exchange.number = take_numbers(1);
    exchange.deadline = deadline;
    exchange.memory = id;
    if (rank() == 0) {
      if (const int status = nccl_.unique_id(id.get()); status != 0)
        return make_error(ErrorCode::io, "ncclGetUniqueId failed: {} ({}).", nccl_.error_string(status), status);
      for (int other = 1; other < size(); ++other) exchange.sends.push_back({other, *id});
    } else {
      exchange.receives.push_back({0, *id});
    }
    VKF_CHECK_OK(messages_->exchange(exchange));
    return *id;
  }

  std::shared_ptr<Transport> messages_;
  nccl::CudaFunctions cuda_;
  nccl::NcclFunctions nccl_;
  std::map<std::shared_ptr<Device::State>, std::shared_ptr<DeviceLink>> links_;
};

}  // namespace

Result<std::shared_ptr<Transport>> open_nccl(std::shared_ptr<Transport> messages, const NcclOptions& options) {
  if (messages == nullptr)
    return invalid("NCCL carries values, and needs a transport for messages, but none is given.");
  VKF_TRY(cuda, nccl::load_cuda(options.cuda));
  VKF_TRY(functions, nccl::load_nccl(options.nccl));
  return std::shared_ptr<Transport>(std::make_shared<NcclTransport>(std::move(messages), cuda, functions));
}

}  // namespace vkfuse

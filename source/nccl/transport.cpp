// Ranks that speak by another transport, and whose values go from GPU to GPU by NCCL.
#include <map>
#include <utility>

#include "base/error.hpp"
#include "nccl/link.hpp"
#include "vkfuse/nccl.hpp"

namespace vkfuse {

namespace {

using nccl::Communicator;
using nccl::Cuda;

/// How long ranks may take to find each other.
constexpr std::chrono::seconds kMeeting{120};

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::shared_ptr<Transport> messages, nccl::CudaFunctions cuda, nccl::NcclFunctions functions,
                std::uint64_t least_bytes)
      : messages_(std::move(messages)), cuda_(cuda), nccl_(functions), least_bytes_(least_bytes) {}

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
    return std::shared_ptr<DeviceLink>(
        std::make_shared<nccl::Link>(device, cuda, std::move(ranks), nccl::ByHost{*this, least_bytes_}));
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
  std::uint64_t least_bytes_;
  std::map<std::shared_ptr<Device::State>, std::shared_ptr<DeviceLink>> links_;
};

}  // namespace

Result<std::shared_ptr<Transport>> open_nccl(std::shared_ptr<Transport> messages, const NcclOptions& options) {
  if (messages == nullptr)
    return invalid("NCCL carries values, and needs a transport for messages, but none is given.");
  VKF_TRY(cuda, nccl::load_cuda(options.cuda));
  VKF_TRY(functions, nccl::load_nccl(options.nccl));
  return std::shared_ptr<Transport>(
      std::make_shared<NcclTransport>(std::move(messages), cuda, functions, options.least_bytes));
}

}  // namespace vkfuse

// Values of one rank between its device and those of other ranks.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "nccl/communicator.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse::nccl {

/// What carries messages that are short, and how short.
struct ByHost {
  Transport& messages;  ///< outlives the link
  std::uint64_t least_bytes = 0;
};

/// Where NCCL has windows, it allocates the memory and Vulkan imports it. Then what goes between all ranks is copied by
/// copy engines: the host tells CUDA's stream when a value is there, and the next kernels when it has come, so that the
/// compute engine stays with Vulkan. Else NCCL's kernels send and receive in memory of Vulkan's, which CUDA imports.
class Link final : public DeviceLink {
 public:
  Link(const Device& device, std::shared_ptr<Cuda> cuda, std::unique_ptr<Communicator> ranks, const ByHost& by_host);
  ~Link() override { abandon(); }

  Result<Buffer> allocate(std::uint64_t bytes) override;
  Result<void> exchange(const DeviceExchange& exchange) override;
  /// Of exchanges by copy engines: opens the stream's gate when a value is there, and says when what it gets has come.
  Result<void> finish() override;
  void abandon() override;

 private:
  /// Memory that both interfaces have.
  struct Block {
    std::unique_ptr<MappedMemory> mapped;  ///< of Vulkan's, in CUDA
    CudaPointer pointer = 0;
    std::uint64_t window_bytes = 0;  ///< of NCCL's
    bool is_window = false;
  };
  /// An exchange by copy engines that the stream has been given.
  struct Flight {
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
    TimelinePoint after, done;
    std::chrono::milliseconds timeout{};
  };
  struct Place {
    Block* block = nullptr;
    CudaPointer pointer = 0;  ///< of the buffer, which may be a part
  };

  Result<Buffer> allocate_window(std::uint64_t bytes);
  void drop_unused();
  Result<Place> place_of(const Buffer& buffer);
  /// Whether each rank sends all of them one value, or each a part of one, and has room for what it gets, in order.
  [[nodiscard]] bool goes_to_all(const DeviceExchange& exchange) const;
  Result<void> by_copy_engines(const DeviceExchange& exchange);
  Result<void> by_kernels(const DeviceExchange& exchange);
  Result<void> make_window(Block& block, std::chrono::steady_clock::time_point deadline);
  Result<void> wait_for_kernels();
  /// Whether the stream comes to its end when its gates are open.
  [[nodiscard]] bool is_through(const Flight& last) const;
  Result<void> wait_for_stream(std::chrono::steady_clock::time_point deadline);
  Result<const MappedTimeline*> timeline_of(const Timeline& timeline);

  Device device_;
  std::shared_ptr<Cuda> cuda_;
  std::unique_ptr<Communicator> ranks_;
  std::shared_ptr<DeviceLink> host_;
  std::uint64_t least_bytes_;
  int rank_, size_;
  std::unique_ptr<Flags> flags_;
  std::uint32_t number_ = 0;        ///< of exchanges by copy engines
  std::deque<Flight> flights_;      ///< by copy engines, until finish() has seen their ends
  std::vector<Flight> by_kernels_;  ///< that CUDA's stream signals
  bool is_given_up_ = false;
  std::map<std::shared_ptr<Buffer::State>, Block> blocks_;
  std::map<std::shared_ptr<const Timeline::State>, std::unique_ptr<MappedTimeline>> timelines_;
};

}  // namespace vkfuse::nccl

#include "parallel/staged_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "api/states.hpp"
#include "base/error.hpp"
#include "base/mutations.hpp"
#include "parallel/waiting.hpp"
#include "vulkan/command_buffer.hpp"
#include "vulkan/device.hpp"

namespace vkfuse {

Result<std::shared_ptr<DeviceLink>> Transport::link(const Device&) { return std::shared_ptr<DeviceLink>(); }

}  // namespace vkfuse

namespace vkfuse::parallel {

namespace {

/// Of all messages of a round together, and the least of one.
constexpr std::uint64_t kRoundBytes = 16 << 20, kLeastChunk = 64 << 10;

/// Bytes of a round in the host's memory: `memory` keeps them for a transport that is still at them after an error.
struct Lane {
  std::optional<vulkan::Buffer> staging;
  std::optional<vulkan::CommandBuffer> commands;
  vulkan::Submission copy;  ///< the last one of the device to or from it
};

/// Messages of one direction. Where the host sees the buffer, they are in it; else each round has its bytes in one of
/// two lanes.
class Side {
 public:
  Side(std::shared_ptr<vulkan::Device> device, vulkan::BufferKind kind) : device_(std::move(device)), kind_(kind) {}

  void begin(const Buffer& buffer, const std::vector<BufferPart>& parts, std::uint64_t chunk) {
    buffer_ = buffer.state();
    if (kind_ == vulkan::BufferKind::upload) buffer.state()->may_change();
    parts_ = parts;
    chunk_ = chunk;
    // A part of a buffer is mapped where the whole is.
    const Buffer::State* whole = buffer_.get();
    while (whole->whole != nullptr) whole = whole->whole.get();
    mapped_ = whole->buffer.host_cached() ? whole->buffer.mapped() : nullptr;
    is_direct_ = mapped_ != nullptr;
  }

  /// Where the bytes of a part are in a round; its length is 0 behind the last.
  std::span<std::byte> bytes(std::size_t part, std::uint64_t round) {
    const std::uint64_t length = length_of(part, round);
    std::byte* const at = is_direct_ ? mapped_ + buffer_->offset + parts_[part].offset + round * chunk_
                                     : lanes_[round % 2]->staging->mapped() + part * chunk_;
    return {at, static_cast<std::size_t>(length)};
  }

  /// A lane for the round, which the device is not at any more.
  Result<void> prepare(std::uint64_t round) {
    if (is_direct_ || parts_.empty()) return {};
    std::shared_ptr<Lane>& lane = lanes_[round % 2];
    if (lane != nullptr) VKF_CHECK_OK(std::exchange(lane->copy, {}).wait());
    const std::uint64_t needed = parts_.size() * chunk_;
    if (lane != nullptr && lane->staging->size() >= needed) return {};
    lane.reset();  // its memory lives on where a transport has kept it
    auto made = std::make_shared<Lane>();
    VKF_TRY(staging, vulkan::Buffer::create(device_, needed, kind_));
    made->staging = std::move(staging);
    VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
    made->commands = std::move(commands);
    lane = std::move(made);
    return {};
  }

  /// Has the device copy a round, to the host or from it.
  Result<void> copy(std::uint64_t round) {
    if (is_direct_ || parts_.empty()) return {};
    using vulkan::Access;
    Lane& lane = *lanes_[round % 2];
    vulkan::CommandBuffer& commands = *lane.commands;
    VKF_CHECK_OK(commands.begin());
    commands.barrier(Access::compute | Access::transfer, Access::transfer);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const std::uint64_t length = length_of(part, round);
      if (length == 0) continue;
      const vulkan::BufferRange staged{&*lane.staging, part * chunk_, length};
      const vulkan::BufferRange there{&buffer_->buffer, buffer_->offset + parts_[part].offset + round * chunk_, length};
      if (kind_ == vulkan::BufferKind::readback) commands.copy(there, staged);
      if (kind_ == vulkan::BufferKind::upload) commands.copy(staged, there);
    }
    commands.barrier(Access::transfer, Access::compute | Access::transfer | Access::host);
    VKF_CHECK_OK(commands.end());
    VKF_TRY(submission, device_->submit(commands));
    lane.copy = std::move(submission);
    return {};
  }

  /// Until the device has copied a round.
  Result<void> wait(std::uint64_t round) {
    if (is_direct_ || parts_.empty()) return {};
    return std::exchange(lanes_[round % 2]->copy, {}).wait();
  }
  Result<void> wait_for_all() {
    for (const std::shared_ptr<Lane>& lane : lanes_) {
      if (lane != nullptr) VKF_CHECK_OK(std::exchange(lane->copy, {}).wait());
    }
    return {};
  }

  /// What the bytes lie in.
  [[nodiscard]] std::vector<std::shared_ptr<void>> memory() const { return {buffer_, lanes_[0], lanes_[1]}; }
  [[nodiscard]] const std::vector<BufferPart>& parts() const { return parts_; }

 private:
  [[nodiscard]] std::uint64_t length_of(std::size_t part, std::uint64_t round) const {
    const std::uint64_t all = parts_[part].bytes, before = round * chunk_;
    return before >= all ? 0 : std::min(chunk_, all - before);
  }

  std::shared_ptr<vulkan::Device> device_;
  vulkan::BufferKind kind_;
  std::shared_ptr<Buffer::State> buffer_;
  std::vector<BufferPart> parts_;
  std::uint64_t chunk_ = 0;
  bool is_direct_ = false;
  std::byte* mapped_ = nullptr;
  std::array<std::shared_ptr<Lane>, 2> lanes_;
};

class StagedLink final : public DeviceLink {
 public:
  StagedLink(const Device& device, Transport& transport)
      : device_(device),
        transport_(transport),
        down_(device.state()->context->device(), vulkan::BufferKind::readback),
        up_(device.state()->context->device(), vulkan::BufferKind::upload) {}

  Result<Buffer> allocate(std::uint64_t bytes) override { return device_.allocate(bytes); }

  Result<void> exchange(const DeviceExchange& exchange) override {
    const auto peers = static_cast<std::uint64_t>(std::max(transport_.size() - 1, 1));
    const std::uint64_t most = std::max(kRoundBytes / peers / 16 * 16, kLeastChunk);
    const std::uint64_t chunk = std::min(most, std::max<std::uint64_t>((exchange.message_bytes + 15) / 16 * 16, 16));
    const std::uint64_t rounds = (exchange.message_bytes + chunk - 1) / chunk;
    const std::uint64_t first = transport_.take_numbers(rounds);
    const auto deadline = deadline_after(exchange.timeout);
    if (exchange.sends.empty() && exchange.receives.empty()) return {};  // between other ranks, by the same numbers
    VKF_CHECK_OK(wait_for(exchange.after));
    down_.begin(exchange.from, moved(exchange, exchange.sends), chunk);
    up_.begin(exchange.to, moved(exchange, exchange.receives), chunk);
    if (rounds > 0) VKF_CHECK_OK(fetch(0));
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (round + 1 < rounds) VKF_CHECK_OK(fetch(round + 1));
      VKF_CHECK_OK(down_.wait(round));
      VKF_CHECK_OK(up_.prepare(round));
      VKF_CHECK_OK(run(round, first + round, deadline));
      VKF_CHECK_OK(up_.copy(round));
    }
    VKF_CHECK_OK(up_.wait_for_all());
    return signal_in_order(exchange.done, deadline);
  }

  // Nothing is in flight when exchange() has returned.
  Result<void> finish() override { return {}; }
  void abandon() override {}

 private:
  /// The parts without what is where it goes: a value of this rank's that lies in the result.
  std::vector<BufferPart> moved(const DeviceExchange& exchange, const std::vector<BufferPart>& parts) const {
    const auto own = [&](const BufferPart& part) { return part.rank == transport_.rank(); };
    const auto sent = std::ranges::find_if(exchange.sends, own),
               received = std::ranges::find_if(exchange.receives, own);
    if (sent == exchange.sends.end() || received == exchange.receives.end()) return parts;
    const Buffer::State &from = *exchange.from.state(), &to = *exchange.to.state();
    const bool is_there =
        from.buffer.number() == to.buffer.number() && from.offset + sent->offset == to.offset + received->offset;
    std::vector<BufferPart> left = parts;
    if (is_there) std::erase_if(left, own);
    return left;
  }

  Result<void> fetch(std::uint64_t round) {
    VKF_CHECK_OK(down_.prepare(round));
    return down_.copy(round);
  }

  Result<void> run(std::uint64_t round, std::uint64_t number, std::chrono::steady_clock::time_point deadline) {
    Exchange one;
    one.number = number;
    one.deadline = deadline;
    auto memory = std::make_shared<std::vector<std::shared_ptr<void>>>(down_.memory());
    std::ranges::copy(up_.memory(), std::back_inserter(*memory));
    one.memory = std::move(memory);
    std::vector<std::span<const std::byte>> own;  // sent to itself
    for (std::size_t i = 0; i < down_.parts().size(); ++i) {
      const std::span<const std::byte> bytes = down_.bytes(i, round);
      const int to = down_.parts()[i].rank;
      if (to == transport_.rank()) own.push_back(bytes);
      if (to != transport_.rank() && !bytes.empty()) one.sends.push_back({to, bytes});
    }
    for (std::size_t i = 0, copied = 0; i < up_.parts().size(); ++i) {
      const std::span<std::byte> bytes = up_.bytes(i, round);
      const int from = up_.parts()[i].rank;
      if (from == transport_.rank()) {
        if (!bytes.empty()) std::memcpy(bytes.data(), own[copied].data(), bytes.size());
        ++copied;
      } else if (!bytes.empty()) {
        one.receives.push_back({from, bytes});
      }
    }
    return transport_.exchange(one);
  }

  Device device_;
  Transport& transport_;
  Side down_, up_;
};

}  // namespace

std::shared_ptr<DeviceLink> staged_link(const Device& device, Transport& transport) {
  return std::make_shared<StagedLink>(device, transport);
}

}  // namespace vkfuse::parallel

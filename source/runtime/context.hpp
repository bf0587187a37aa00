// An open device as the runtime sees it: the Vulkan device, what may be used of it, and what programs share on it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/constants.hpp"
#include "runtime/feature_tiers.hpp"
#include "runtime/kernel_cache.hpp"
#include "runtime/memory_budget.hpp"
#include "runtime/open_device.hpp"
#include "runtime/readback_slots.hpp"
#include "runtime/stoppable_mutex.hpp"

namespace vkfuse::runtime {

/// What memory is filled with before one run and before the next (DeviceOptions::self_check): no bit is the same in
/// both.
inline constexpr std::array<std::uint32_t, 2> kPoison = {0xA5A5A5A5u, 0x5A5A5A5Au};

/// Owns one of each. Thread-safe.
class Context {
 public:
  /// Picks, opens and restricts a device. `without` is for tests: drivers without hardware lack what every device has.
  static Result<std::shared_ptr<Context>> open(const DeviceOptions& options, const vulkan::DeviceOptions& without = {});

  /// On the device of a host program; `options.name` says nothing.
  static Result<std::shared_ptr<Context>> adopt(std::shared_ptr<const vulkan::Instance> instance,
                                                const vulkan::ExternalDevice& external, const DeviceOptions& options);

  /// Every device of this machine, in the order of their indices.
  static Result<std::vector<vulkan::DeviceInfo>> devices();

  [[nodiscard]] const std::shared_ptr<vulkan::Device>& device() const { return opened_.device(); }
  [[nodiscard]] OpenDevice& opened() { return opened_; }
  [[nodiscard]] Transfer& transfer() { return opened_.transfer(); }
  [[nodiscard]] FeatureTiers& tiers() { return tiers_; }
  [[nodiscard]] KernelCache& kernels() { return kernels_; }
  [[nodiscard]] const MemoryBudget& memory() const { return memory_; }
  /// Device memory for `bytes`, in pieces of `each` where that is above 0 and below: a spare buffer or a new one.
  Result<vulkan::Buffer> make_buffer(std::uint64_t bytes, std::uint64_t each);
  [[nodiscard]] Constants& constants() { return constants_; }
  /// Memory of the host for a small result; null where there is none left.
  std::shared_ptr<const ReadbackSlots::Slot> take_readback_slot();
  /// Of those who measure schedules in the background.
  [[nodiscard]] StoppableMutex& searches() { return searches_; }

  /// Whether memory is filled before each run: see DeviceOptions::self_check.
  [[nodiscard]] bool self_checks() const { return self_checks_; }
  /// The word for the next run on the caller's buffers.
  [[nodiscard]] std::uint32_t next_poison() { return kPoison[poisoned_runs_++ % kPoison.size()]; }

 private:
  Context(const std::shared_ptr<vulkan::Device>& device, std::size_t index, const Caps& caps,
          const DeviceOptions& options, std::uint64_t memory_limit);
  /// What open() and adopt() have in common.
  static Result<std::shared_ptr<Context>> over(const std::shared_ptr<vulkan::Device>& device, std::size_t index,
                                               const Caps& caps, const DeviceOptions& options);

  OpenDevice opened_;  ///< the others refer to it
  FeatureTiers tiers_;
  KernelCache kernels_;
  MemoryBudget memory_;
  Constants constants_;
  StoppableMutex searches_;
  std::once_flag made_slots_;
  std::shared_ptr<ReadbackSlots> slots_;  ///< null before the first is taken, and where the host has no memory
  bool self_checks_ = false;
  std::atomic<std::size_t> poisoned_runs_ = 0;
};

}  // namespace vkfuse::runtime

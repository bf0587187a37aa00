// Small results that the host can read before the run that makes them has ended: the run copies each to memory of the
// host right after the kernel that stores it. Of a training step, the loss.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "runtime/program.hpp"
#include "runtime/readback_slots.hpp"
#include "vulkan/submission.hpp"

namespace vkfuse::runtime {

/// A result on the host once the part of the run that makes it has ended.
struct EarlyCopy {
  std::shared_ptr<const ReadbackSlots::Slot> slot;
  vulkan::Submission made;
};

/// The result that is copied at the end of a part, by its output's name.
struct EarlyResult {
  std::size_t part = 0;
  std::string output;
  std::shared_ptr<const ReadbackSlots::Slot> slot;
};

/// Some kernels of a run in a row, and the results that are complete after them.
struct EarlyPart {
  Part kernels;
  std::vector<ir::NodeId> complete;
};

/// Cuts a run further: after its first 64 kernels, which begin while the others are recorded, and after each kernel
/// that completes some of `results`, unless it is in the last part and fewer than 64 kernels follow.
std::vector<EarlyPart> cut_early(const plan::Plan& plan, const std::vector<Part>& run,
                                 const std::vector<ir::NodeId>& results);

}  // namespace vkfuse::runtime

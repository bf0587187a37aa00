// What a run takes, before anything is allocated.
#include <algorithm>
#include <set>

#include "runtime/program.hpp"

namespace vkfuse::runtime {

namespace {

/// As vulkan::Buffer allocates it.
std::uint64_t buffer_bytes(std::int64_t bytes) {
  return std::max<std::uint64_t>((static_cast<std::uint64_t>(bytes) + 15) / 16, 1) * 16;
}

Result<void> check_size(const Target& target, const std::string& what, std::uint64_t bytes) {
  if (bytes <= target.caps.memory.max_allocation) return {};
  return make_error(ErrorCode::out_of_memory,
                    "{} takes {} bytes, and the device '{}' allocates at most {} at once (max_allocation).", what,
                    bytes, target.name, target.caps.memory.max_allocation);
}

}  // namespace

Result<MemoryUse> Program::memory_of(const SymbolValues& symbols, const plan::ScheduledKernels& steps,
                                     const plan::Memory& memory) const {
  const vulkan::Device& device = *context_->device();
  const vulkan::Placement main = expected_placement(device, vulkan::BufferKind::device);
  MemoryUse use;
  use.arena = static_cast<std::uint64_t>(memory.arena_bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, bytes] : constants_read_)
      use.constants += buffer_bytes(static_cast<std::int64_t>(bytes->size()));
  }
  for (ir::NodeId id : plan_.graph.inputs()) {
    VKF_TRY(bytes, bytes_of(id, symbols));
    use.inputs += buffer_bytes(bytes);
    if (!main.mapped) use.staging += buffer_bytes(bytes);
  }
  std::set<ir::NodeId> seen;  // of outputs that are the same value or an alias, there is one
  for (const plan::ScheduledKernel& step : steps) {
    if (step.alias) seen.insert(step.loops.stores[0].node);
  }
  for (const ir::Output& output : plan_.graph.outputs()) {
    if (!seen.insert(output.value).second) continue;
    VKF_TRY(bytes, bytes_of(output.value, symbols));
    use.outputs += buffer_bytes(bytes);
    if (!main.host_cached) use.staging += buffer_bytes(bytes);
  }
  return use;
}

Result<MemoryUse> Program::memory(const SymbolValues& symbols) {
  if (const auto known = known_specialization(symbols)) return memory_of(symbols, known->steps, known->memory);
  plan::ScheduledKernels steps;
  plan::Memory memory;
  const auto lay_out = [&](const plan::Plan& plan, Result<plan::ScheduledKernels> scheduled) -> Result<void> {
    if (!scheduled) return std::move(scheduled).error();
    VKF_TRY(made, plan::plan_memory(plan, symbols, *scheduled));
    steps = *std::move(scheduled);
    memory = std::move(made);
    return {};
  };
  if (symbols.empty()) {
    VKF_TRY(scheduled, plan::schedule_all(plan_, symbols, options_.tuning));
    VKF_CHECK_OK(lay_out(plan_, plan::ScheduledKernels(std::move(scheduled))));
  } else {
    VKF_CHECK_OK(with_plan_for(symbols, [&](ShapeBuckets& shape_buckets, const std::shared_ptr<Planned>& other) {
      return lay_out(other ? other->plan : plan_, shape_buckets.schedule(symbols));
    }));
  }
  return memory_of(symbols, steps, memory);
}

Result<void> Program::check_memory(const Specialization& specialization, const plan::Memory& memory, bool ports) {
  VKF_TRY(use, memory_of(specialization.symbols, specialization.steps, memory));
  for (const std::int64_t bytes : memory.pieces)
    VKF_CHECK_OK(
        check_size(plan_.target, "What a segment leaves of partial results", static_cast<std::uint64_t>(bytes)));
  std::uint64_t missing = 0;  // constants that no program has uploaded
  std::set<const void*> counted;
  std::unique_lock<std::mutex> lock(mutex_);
  for (const auto& [id, bytes] : constants_read_) {
    // Those of this program need not be looked for among those of all.
    if (constants_.count(id) != 0 || !counted.insert(bytes.get()).second || context_->constants().has(bytes)) continue;
    VKF_CHECK_OK(check_size(plan_.target, fmt::format("The constant %{}", id),
                            buffer_bytes(static_cast<std::int64_t>(bytes->size()))));
    missing += buffer_bytes(static_cast<std::int64_t>(bytes->size()));
  }
  lock.unlock();
  std::uint64_t needed = use.arena + missing + (ports ? use.inputs + use.outputs : 0);
  const vulkan::Device& device = *context_->device();
  const bool shared_heap = expected_placement(device, vulkan::BufferKind::device).heap ==
                           expected_placement(device, vulkan::BufferKind::upload).heap;
  if (ports && shared_heap) needed += use.staging;
  const std::uint64_t left = context_->memory().left(vulkan::BufferKind::device);
  if (needed <= left) {
    context_->memory().make_room(needed);
    return {};
  }
  return make_error(ErrorCode::out_of_memory,
                    "A run of '{}' needs {} bytes of device memory ({} of intermediate values, {} of constants{}), and "
                    "the device '{}' has {} left.",
                    plan_.graph.name, needed, use.arena, missing,
                    ports ? fmt::format(", {} of inputs, outputs and staging", needed - use.arena - missing) : "",
                    plan_.target.name, left);
}

}  // namespace vkfuse::runtime

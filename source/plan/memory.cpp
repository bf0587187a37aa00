#include <algorithm>
#include <map>

#include "base/mutations.hpp"
#include "plan/plan.hpp"

namespace vkfuse::plan {

namespace {

struct Lifetime {
  ir::NodeId value = 0;
  std::size_t first = 0;  // the step that writes it
  std::size_t last = 0;   // the last step that reads it
  std::int64_t bytes = 0;
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  std::vector<bool> is_output(plan.graph.size(), false);
  for (const ir::Output& output : plan.graph.outputs()) is_output[output.value] = true;
  std::vector<Lifetime> all;
  std::map<ir::NodeId, std::size_t> at;
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    for (ir::NodeId value : plan.steps[step].segment.reads) {
      if (at.count(value) != 0) all[at[value]].last = VKF_PLANT(short_lifetime, step, all[at[value]].first);
    }
    for (ir::NodeId value : plan.steps[step].segment.stores) {
      if (is_output[value]) continue;
      at[value] = all.size();
      all.push_back({value, step, step, 0});
    }
  }
  return all;
}

std::int64_t ceil_to(std::int64_t bytes, std::int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

Result<Memory> plan_memory(const Plan& plan, const SymbolValues& symbols, const std::vector<Scheduled>& steps) {
  const std::int64_t alignment = std::max<std::int64_t>(256, plan.target.caps.offset_alignment);
  std::vector<Lifetime> values = lifetimes(plan);
  for (Lifetime& value : values) {
    const TensorType& type = plan.graph.node(value.value).type;
    VKF_TRY(sizes, resolve(type.shape, symbols));
    VKF_TRY(bytes, byte_count(type.dtype, sizes));
    const auto padded = checked_add(bytes, alignment - 1);
    if (!padded) return invalid("The value %{} of type {} is too large.", value.value, to_text(type));
    value.bytes = *padded / alignment * alignment;
  }
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::int64_t bytes = steps[step].schedule.scratch_bytes;
    if (bytes > 0) values.push_back({scratch_id(plan, step), step, step, ceil_to(bytes, alignment)});
  }
  // Largest first: what is hard to place is placed while there is room; ties keep running order.
  std::stable_sort(values.begin(), values.end(), [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });

  Memory memory;
  std::vector<Lifetime> placed;
  for (const Lifetime& value : values) {
    // The lowest gap between values that are alive at the same time.
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i].last < value.first || value.last < placed[i].first) continue;
      taken.emplace_back(memory.slots[i].offset, memory.slots[i].offset + memory.slots[i].bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const std::pair<std::int64_t, std::int64_t>& range : taken) {
      if (range.first - offset >= value.bytes) break;
      offset = std::max(offset, range.second);
    }
    const auto end = checked_add(offset, value.bytes);
    if (!end) return invalid("The intermediate values of the graph '{}' need more than 2^63 bytes.", plan.graph.name);
    memory.arena_bytes = std::max(memory.arena_bytes, *end);
    memory.slots.push_back({value.value, offset, value.bytes});
    placed.push_back(value);
  }
  return memory;
}

}  // namespace vkfuse::plan

#include <algorithm>

#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

using segment::Loops;

bool uses_cooperative_matrices(const Problem& problem) {
  return problem.target.has(FeatureTier::cooperative_matrix) &&
         problem.tuning.cooperative_matrix.value_or(problem.target.type != DeviceType::cpu);
}

Loops merge_reduction_axes(const Loops& loops, int count) {
  const int end = static_cast<int>(loops.axes.size());
  std::vector<int> axes;
  for (int axis = end - count; axis < end; ++axis) axes.push_back(axis);
  return segment::with_axes_merged(loops, axes, axes.back());
}

Loops scheduled_loops(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  const auto moved = schedule.transforms.sunk_scales ? segment::with_sunk_scales(graph, loops) : std::nullopt;
  const Loops& scaled = moved ? *moved : loops;
  const auto exact = schedule.transforms.sunk_literals ? segment::with_sunk_literals(graph, scaled) : std::nullopt;
  const Loops& changed = exact ? *exact : scaled;
  const auto together = schedule.transforms.register_block_rows > 1
                            ? segment::with_register_blocking(changed, schedule.transforms.register_block_axis,
                                                              schedule.transforms.register_block_rows)
                            : std::nullopt;
  const Loops& rows = together ? *together : changed;
  const auto paired = schedule.transforms.online ? segment::with_online_reductions(graph, rows) : std::nullopt;
  const Loops& joined = paired ? *paired : rows;
  return schedule.transforms.merged_reduction_axes > 1
             ? merge_reduction_axes(joined, schedule.transforms.merged_reduction_axes)
             : joined;
}

CostModel default_costs(DeviceType type) {
  switch (type) {
    case DeviceType::discrete: return {500, 4, 10000, 500e3};
    case DeviceType::integrated: return {50, 8, 1000, 50e3};
    case DeviceType::cpu: return {10, 20, 20, 8e3};
    default: return {};
  }
}

CostModel costs_of(const Target& target) { return target.costs.value_or(default_costs(target.type)); }

bool may_shuffle(const Target& target) {
  return target.has(FeatureTier::subgroup) && target.caps.subgroup.shuffle && target.caps.subgroup.full;
}

int thread_register_limit(const Target& target) {
  // Estimates are that much short at times: with Mali's 64, tiles estimated at 60 do not spill and those at 64 do.
  constexpr int kShort = 4;
  return static_cast<int>(target.caps.registers.per_thread + device_model(target).registers.elsewhere) - kShort;
}

bool overfills_registers(const Target& target, std::int64_t estimated, std::int64_t threads) {
  const auto own = estimated - static_cast<std::int64_t>(device_model(target).registers.elsewhere);
  return own * threads > target.caps.registers.per_workgroup;
}

int registers_over(const Target& target, int estimated) {
  if (target.caps.registers.per_thread == kUnknownRegistersPerThread) return 0;
  return std::max(0, estimated - thread_register_limit(target));
}

double cost_of_spilling(const Target& target, int estimated) {
  constexpr double kOfEach = 0.2;  // stored and loaded again in every step
  return 1 + kOfEach * registers_over(target, estimated);
}

namespace {

/// Every symbol at `size`, or as near to it as its facts allow.
SymbolValues symbols_near(const ir::Graph& graph, std::int64_t size) {
  SymbolValues values;
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (!dim.is_symbol()) continue;
      const DimFacts facts = dim.facts();
      const std::int64_t clamped = std::clamp(size, facts.min, facts.max);
      const std::int64_t down = clamped / facts.multiple_of * facts.multiple_of;
      values[dim.name()] = down >= facts.min ? down : down + facts.multiple_of;
    }
  }
  return values;
}

bool all_within(const ir::Graph& graph, const SymbolValues& symbols, std::int64_t most_bytes) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    auto sizes = resolve(node.type.shape, symbols);
    // Nothing is no reason for other axes to be as long as they like: in loops, and for limits, it counts as one.
    for (std::size_t i = 0; sizes && i < sizes->size(); ++i) (*sizes)[i] = std::max<std::int64_t>((*sizes)[i], 1);
    const auto count = sizes ? element_count(*sizes) : Result<std::int64_t>(0);
    // Elements of fewer bytes count as four: they may be sorted beside their positions, or added up in f32.
    return count && *count <= most_bytes / std::max<std::int64_t>(4, size_of(node.type.dtype));
  });
}

}  // namespace

SymbolValues representative_symbols(const ir::Graph& graph) {
  // Tensors with several symbols must not be refused for a size that nobody asked for: half of what every device of
  // Vulkan has room for in one storage buffer, so that what a sort keeps between its dispatches fits as well.
  constexpr std::int64_t kMostBytesOfValue = std::int64_t{1} << 26;
  std::int64_t size = 4096;
  while (size > 1 && !all_within(graph, symbols_near(graph, size), kMostBytesOfValue)) size /= 2;
  return symbols_near(graph, size);
}

}  // namespace vkfuse::schedule

#include <algorithm>

#include "schedule/access.hpp"

namespace vkfuse::schedule {

using segment::Loops;

Result<Schedule> best(const ir::Graph& graph, const segment::Loops& loops, const Target& target, const Tuning& tuning) {
  if (loops.opaque) return only_custom(graph, loops, target);
  const bool sorts = std::any_of(loops.values.begin(), loops.values.end(),
                                 [](const segment::Value& value) { return value.kind == segment::Value::Kind::sort; });
  if (sorts) return best_sort(graph, loops, target, tuning);
  const bool runs_over_columns = std::any_of(loops.axes.begin(), loops.axes.end(), [](const segment::Axis& axis) {
    return axis.role == segment::Role::reduction;
  });
  if (runs_over_columns) {
    const auto moved = segment::with_sunk_scales(graph, loops);
    const Loops& changed = moved ? *moved : loops;
    const bool has_epilogue_reductions =
        std::any_of(loops.values.begin(), loops.values.end(),
                    [](const segment::Value& value) { return value.kind == segment::Value::Kind::epilogue; });
    std::optional<Schedule> matrix;
    if (tuning.matmul.value_or(true) || has_epilogue_reductions || loops.inner() != 0)
      matrix = best_matmul(graph, changed, target, tuning, moved.has_value());
    if (const auto paired = matrix ? std::nullopt : segment::with_online_reductions(graph, changed)) {
      matrix = best_attention(graph, *paired, target, tuning, moved.has_value());
      if (matrix) matrix->online = true;
    }
    if (matrix) matrix->sunk_scales = moved.has_value();
    if (!matrix && loops.inner() != 0) {
      return unsupported(
          "A contraction at every element of rows that are folded is one kernel where they are a softmax whose weights "
          "are multiplied and added up, or "
          "where a tile of the product has whole rows, of at most 256 elements each; a reduction of its own beside a "
          "contraction is where it is of rows of the first factor.");
    }
    auto rows = best_reduction(graph, loops, target, tuning);
    if (!matrix && has_epilogue_reductions)
      return unsupported(
          "A product and reductions of its results are one kernel where tiles have whole rows of what is folded: a "
          "multiple "
          "of four, at most 256 elements.");
    if (has_epilogue_reductions) return *std::move(matrix);
    const bool forced = tuning.matmul.value_or(false) || tuning.attention || loops.inner() != 0;
    if (matrix && (!rows || forced || matrix->modelled_us < rows->modelled_us)) return *matrix;
    return rows;
  }
  VKF_TRY(schedule, best_pointwise(graph, loops, target, tuning));
  if (!tuning.tiled.value_or(true)) return schedule;
  if (auto tiled = best_tiled(graph, loops, target, tuning)) {
    if (tuning.tiled || tiled->modelled_us < schedule.modelled_us) return *std::move(tiled);
  }
  return schedule;
}

std::optional<Schedule> at_other_sizes(const ir::Graph& graph, const Loops& loops, const Target& target,
                                       const Tuning& tuning, const Schedule& model) {
  if (loops.values.size() != model.loads.size() || loops.stores.size() != model.stores.size() || loops.empty)
    return std::nullopt;
  switch (model.kind) {
    case Template::pointwise: return pointwise_at_other_sizes(graph, loops, target, tuning, model);
    case Template::reduction: return reduction_at_other_sizes(graph, loops, target, tuning, model);
    case Template::matmul: return matmul_at_other_sizes(graph, loops, target, tuning, model);
    case Template::attention: return attention_at_other_sizes(graph, loops, target, tuning, model);
    default:
      return std::nullopt;  // what is sorted in blocks and what crosses shared memory in boxes has its own text at each
                            // size
  }
}

Loops scheduled_loops(const ir::Graph& graph, const Loops& loops, const Schedule& schedule) {
  const auto moved = schedule.sunk_scales ? segment::with_sunk_scales(graph, loops) : std::nullopt;
  const Loops& changed = moved ? *moved : loops;
  const auto together =
      schedule.register_block_rows > 1
          ? segment::with_register_blocking(changed, schedule.register_block_axis, schedule.register_block_rows)
          : std::nullopt;
  const Loops& rows = together ? *together : changed;
  const auto paired = schedule.online ? segment::with_online_reductions(graph, rows) : std::nullopt;
  const Loops& joined = paired ? *paired : rows;
  return schedule.merged_reduction_axes > 1 ? merge_reduction_axes(joined, schedule.merged_reduction_axes) : joined;
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

int thread_register_limit(const Target& target) {
  // Estimates are that much short at times: with Mali's 64, tiles estimated at 60 do not spill and those at 64 do.
  constexpr int kShort = 4;
  return static_cast<int>(target.caps.registers_per_thread) - kShort;
}

int registers_over(const Target& target, int estimated) {
  if (target.caps.registers_per_thread == kUnknownRegistersPerThread) return 0;
  return std::max(0, estimated - thread_register_limit(target));
}

double cost_of_spilling(const Target& target, int estimated) {
  constexpr double kOfEach = 0.1;  // stored and loaded again in every step
  return 1 + kOfEach * registers_over(target, estimated);
}

double modelled_us(const CostModel& costs, int dispatches, double traffic, double compute, std::int64_t accesses) {
  const double memory_us = traffic / (costs.copy_gb_per_s * 1e3);
  const double compute_us = compute / (costs.gflops * 1e3) + static_cast<double>(accesses) / costs.accesses_per_us;
  return dispatches * costs.launch_us + std::max(memory_us, compute_us) + 0.05 * std::min(memory_us, compute_us);
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
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 26;
  std::int64_t size = 4096;
  while (size > 1 && !all_within(graph, symbols_near(graph, size), kMostBytes)) size /= 2;
  return symbols_near(graph, size);
}

}  // namespace vkfuse::schedule

#include "templates/stencil/cost.hpp"

#include <algorithm>

#include "device_model/device_model.hpp"
#include "index/index.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

using segment::Value;
using segment::ValueId;

namespace {

/// Of one element of every reduction, in multiply-adds. A sum takes its product along.
double cost_of_tap(const Problem& problem, const StencilParams& params) {
  double cost = 0;
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    const Value& value = problem.loops.values[i];
    const ir::Node& node = problem.graph.node(value.node);
    if (value.kind == Value::Kind::reduction) cost += cost_of(node);
    if (params.roles[i] == StencilRole::tap && !ops::element_row(*node.op).is_product) cost += cost_of(node);
  }
  return cost;
}

/// Of all values of a role at one element.
double cost_of_role(const Problem& problem, const StencilParams& params, StencilRole role) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    if (params.roles[i] == role) ids.push_back(static_cast<ValueId>(i));
  }
  return cost_of(problem.graph, problem.loops, ids);
}

/// Cache lines that a subgroup touches by a load of single elements, relative to a load of consecutive ones: where
/// neighbours along the chunk's axis are apart in memory, no two threads share a line.
double lines_of_load(const Problem& problem, const StencilParams& params, const Schedule& schedule, ValueId id) {
  const Value& load = problem.loops.values[id];
  if (problem.target.type == DeviceType::cpu || schedule.loads[id].kind != AccessKind::element) return 1;
  const auto stride = index::stride_of(load.offset, params.chunk_axis);
  if (!stride || *stride == 0) return 1;
  const ComputeUnits& units = device_model(problem.target).units;
  const double threads = std::max(8u, problem.target.caps.subgroup.size);
  const double bytes = static_cast<double>(schedule.chunk_size) * size_of(problem.graph.node(load.node).type.dtype);
  const auto touched = [&](double between) {
    return std::clamp(threads * between / units.cache_line_bytes, 1.0, threads);
  };
  return touched(bytes * static_cast<double>(std::abs(*stride))) / touched(bytes);
}

/// Accesses that would take as long as what loads of the windows, of `elements` side by side, take for that.
double accesses_of_strides(const Problem& problem, const Schedule& schedule, std::int64_t elements) {
  const auto& params = schedule.as<StencilParams>();
  double count = 0;
  for (ValueId id = 0; id < params.roles.size(); ++id) {
    const Value& value = problem.loops.values[id];
    if (value.kind != Value::Kind::load || params.roles[id] != StencilRole::window) continue;
    const int bytes = size_of(problem.graph.node(value.node).type.dtype);
    count += (lines_of_load(problem, params, schedule, id) - 1) *
             static_cast<double>(instructions(schedule.loads[id], bytes, static_cast<int>(elements)));
  }
  return count;
}

/// Instructions of a role's loads, for `elements` side by side.
std::int64_t instructions_of_role(const Problem& problem, const Schedule& schedule, StencilRole role,
                                  std::int64_t elements) {
  const auto& params = schedule.as<StencilParams>();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < params.roles.size(); ++i) {
    const Value& value = problem.loops.values[i];
    if (value.kind != Value::Kind::load || params.roles[i] != role) continue;
    const int bytes = size_of(problem.graph.node(value.node).type.dtype);
    count += instructions(schedule.loads[i], bytes, static_cast<int>(elements));
  }
  return count;
}

std::int64_t instructions_of_stores(const Problem& problem, const Schedule& schedule) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < problem.loops.stores.size(); ++i) {
    const int bytes = size_of(problem.graph.node(problem.loops.stores[i].node).type.dtype);
    count += instructions(schedule.stores[i], bytes, schedule.chunk_size);
  }
  return count;
}

/// Threads that hide each other's waiting: a launch of fewer takes longer for what each of them does.
double share_of_device(const Target& target, const Schedule& schedule) {
  if (target.type == DeviceType::cpu) return 1;
  const ComputeUnits& units = device_model(target).units;
  const double threads = static_cast<double>(schedule.launch.workgroups) * schedule.workgroup;
  return std::min(1.0, threads / std::max(1.0, units.count * units.threads / 4));
}

}  // namespace

StencilCounts counts_of(const StencilBlocks& blocks, const StencilParams& params) {
  StencilCounts counts;
  counts.volume = counts.unrolled = block_volume(params);
  for (std::size_t w = 0; w < params.windows.size(); ++w) {
    const std::int64_t extent = blocks.extent(params.windows[w].position);
    const bool is_row = params.has_row && w + 1 == params.windows.size();
    counts.taps *= blocks.taps(w);
    counts.weights *= blocks.taps(w);
    if (is_row) {
      counts.row = blocks.window_extent(w);
    } else {
      counts.rows *= extent > 1 ? blocks.window_extent(w) : blocks.taps(w);
      if (!params.keeps_weights) counts.weights *= extent;
    }
    if (is_row || extent > 1) counts.unrolled *= blocks.taps(w);
  }
  for (int axis : params.serial) {
    const std::int64_t size = size_of_axis(blocks.loops(), axis);
    counts.taps *= size;
    counts.rows *= size;
    counts.weights *= size;
  }
  return counts;
}

std::int64_t unrolled_window_loads(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  const StencilCounts counts = counts_of(blocks, params);
  const std::size_t windows = params.windows.size() - (params.has_row ? 1 : 0);  // the last is a row's own
  std::int64_t rows = 1;
  for (std::size_t w = 0; w < windows; ++w) {
    if (blocks.extent(params.windows[w].position) > 1) rows *= blocks.window_extent(w);
  }
  const std::int64_t runs = params.along_window ? 1 : counts.row;
  const std::int64_t run = params.along_window ? counts.row : schedule.chunk_size;
  return rows * runs * instructions_of_role(problem, schedule, StencilRole::window, run);
}

void model_stencil(const Problem& problem, const StencilBlocks& blocks, Schedule& schedule) {
  const auto& params = schedule.as<StencilParams>();
  const StencilCounts counts = counts_of(blocks, params);
  const int chunk = schedule.chunk_size;
  const std::int64_t runs = params.along_window ? 1 : counts.row;  // that a row of the window is loaded in
  const std::int64_t run = params.along_window ? counts.row : chunk;
  const std::int64_t chunks = counts.volume / chunk;
  const std::int64_t loads = counts.rows * runs * instructions_of_role(problem, schedule, StencilRole::window, run) +
                             counts.weights * instructions_of_role(problem, schedule, StencilRole::weight, chunk) +
                             instructions_of_role(problem, schedule, StencilRole::fixed, chunk) +
                             chunks * instructions_of_role(problem, schedule, StencilRole::result, chunk);
  const std::int64_t stores = chunks * instructions_of_stores(problem, schedule);
  const auto volume = static_cast<double>(counts.volume);
  const double of_taps = volume * static_cast<double>(counts.taps) * cost_of_tap(problem, params);
  const double of_elements = static_cast<double>(counts.rows * runs * run);
  const double of_weights = static_cast<double>(counts.weights * (params.along_window ? 1 : chunk));
  // Every element is unpacked, and replaced where it is padding.
  const double compute = of_taps + of_elements * (2 + cost_of_role(problem, params, StencilRole::window)) +
                         of_weights * (1 + cost_of_role(problem, params, StencilRole::weight)) +
                         volume * cost_of_role(problem, params, StencilRole::result);

  const std::int64_t count = blocks.count();
  count_bytes(problem.graph, problem.loops, schedule);
  schedule.cost.loads_executed = count * loads;
  schedule.cost.stores_executed = count * stores;
  const std::int64_t subgroup = std::max(8u, problem.target.caps.subgroup.size);
  schedule.cost.transactions = ceil_div(count, subgroup) * (loads + stores);
  const auto moved = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  const double slowness =
      cost_of_spilling(problem.target, schedule.cost.registers) / share_of_device(problem.target, schedule);
  const double strided = static_cast<double>(counts.rows * runs) * accesses_of_strides(problem, schedule, run);
  const double accesses = static_cast<double>(schedule.cost.loads_executed + schedule.cost.stores_executed) +
                          static_cast<double>(count) * strided;
  schedule.cost.modelled_us =
      modelled_us(costs_of(problem.target), 1, moved, static_cast<double>(count) * compute * slowness,
                  static_cast<std::int64_t>(accesses * slowness));
}

}  // namespace vkfuse::schedule

#include "templates/stencil/cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "device_model/device_model.hpp"
#include "index/index.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::schedule {

using segment::Value;
using segment::ValueId;

namespace {

const StencilRates& rates_of(const Target& target) { return device_model(target).stencil; }

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

/// Cache lines that a subgroup touches where its threads load what lies so many elements apart, for the blocks from a
/// number on. Neighbours share a line, or each has another.
std::size_t lines_from(const StencilBlocks& blocks, const std::vector<std::int64_t>& strides,
                       std::int64_t line_elements, std::pair<std::int64_t, std::int64_t> range) {
  const std::vector<int> axes = blocks.axes_in_memory();
  std::set<std::int64_t> lines;
  for (std::int64_t block = range.first; block < range.second; ++block) {
    std::int64_t rest = block, at = 0;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const BlockAxis& axis = blocks.axis(axes[i]);
      at += strides[i] * std::min(rest % axis.blocks * axis.block_steps, axis.starts - 1);
      rest /= axis.blocks;
    }
    lines.insert(at / line_elements);
  }
  return lines.size();
}

/// Cache lines that a subgroup touches by one load.
double lines_of_load(const Problem& problem, const StencilBlocks& blocks, ValueId id) {
  const Value& load = blocks.loops().values[id];
  std::vector<std::int64_t> strides;
  for (int axis : blocks.axes_in_memory()) strides.push_back(std::abs(index::stride_of(load.offset, axis).value_or(0)));
  const std::int64_t threads = std::max(8u, problem.target.caps.subgroup.size);
  const auto line = static_cast<std::int64_t>(device_model(problem.target).units.cache_line_bytes);
  const std::int64_t elements = std::max<std::int64_t>(1, line / size_of(problem.graph.node(load.node).type.dtype));
  const std::int64_t count = blocks.count(), middle = count / 2 / threads * threads;
  const auto of = [&](std::int64_t first) {
    return static_cast<double>(lines_from(blocks, strides, elements, {first, std::min(count, first + threads)}));
  };
  return (of(0) + of(middle)) / 2;
}

/// Accesses that would take as long as what loads of the windows, of `elements` side by side, take for more lines than
/// one.
double accesses_of_lines(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule,
                         std::int64_t elements) {
  const auto& params = schedule.as<StencilParams>();
  const double of_line = rates_of(problem.target).line;
  double count = 0;
  if (of_line == 0) return count;
  for (ValueId id = 0; id < params.roles.size(); ++id) {
    const Value& value = problem.loops.values[id];
    if (value.kind != Value::Kind::load || params.roles[id] != StencilRole::window) continue;
    const int bytes = size_of(problem.graph.node(value.node).type.dtype);
    count += of_line * (lines_of_load(problem, blocks, id) - 1) *
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

/// What arithmetic and accesses take longer where threads are too few to hide each other's waiting.
double slowness_of_few_threads(const Target& target, const Schedule& schedule) {
  const StencilRates& rates = rates_of(target);
  const ComputeUnits& units = device_model(target).units;
  const double threads = static_cast<double>(schedule.launch.workgroups) * schedule.workgroup;
  return std::max(1.0, units.count * units.threads / rates.few_threads / threads) *
         std::max(1.0, schedule.cost.registers / rates.registers);
}

/// The part of what a block reads that lies inside where a block has all positions along an axis: it is known, and what
/// is padding is not read.
double share_inside(const Target& target, const StencilBlocks& blocks, const StencilParams& params) {
  double share = 1;
  for (std::size_t w = 0; w < params.windows.size(); ++w) {
    const WindowAxis& window = params.windows[w];
    const auto positions = static_cast<double>(window.step * blocks.extent(window.position));
    if (blocks.axis(window.position).blocks == 1 && blocks.extent(window.position) > 1)
      share *= std::min(1.0, positions / static_cast<double>(blocks.window_extent(w)));
  }
  return std::lerp(1.0, share, rates_of(target).skipped_padding.value);
}

/// What launches take to fetch the instructions of unrolled loops.
double fetching_us(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule) {
  constexpr double kOfRow = 5, kOfChunk = 1.5, kOfWeight = 4;  // instructions for each of their elements
  const StencilRates& rates = rates_of(problem.target);
  const auto& params = schedule.as<StencilParams>();
  const StencilCounts counts = counts_of(blocks, params);
  double elements = static_cast<double>(params.along_window ? counts.row : counts.row * schedule.chunk_size);
  for (std::size_t w = 0; w + (params.has_row ? 1 : 0) < params.windows.size(); ++w) {
    if (blocks.extent(params.windows[w].position) > 1) elements *= static_cast<double>(blocks.window_extent(w));
  }
  const double instructions = static_cast<double>(counts.unrolled) +
                              elements * (params.along_window ? kOfRow : kOfChunk) +
                              (params.keeps_weights ? kOfWeight * static_cast<double>(counts.weights) : 0);
  return rates.instruction_fetch_us * std::max(0.0, instructions - rates.cached_instructions);
}

/// What reading an element of the windows takes beside its load. Where a block has all positions along an axis, its
/// ends are known.
double cost_of_element(const Target& target, const StencilBlocks& blocks, const StencilParams& params) {
  const StencilRates& rates = rates_of(target);
  double cost = rates.element;
  for (const WindowAxis& window : params.windows) {
    if (blocks.axis(window.position).blocks > 1) cost += params.along_window ? rates.row_element : rates.chunk_element;
  }
  return cost;
}

/// In multiply-adds, of which so many elements of the windows are read.
double arithmetic_of_block(const Problem& problem, const StencilBlocks& blocks, const Schedule& schedule,
                           double elements) {
  const auto& params = schedule.as<StencilParams>();
  const StencilCounts counts = counts_of(blocks, params);
  const auto volume = static_cast<double>(counts.volume);
  const auto weights = static_cast<double>(counts.weights * (params.along_window ? 1 : schedule.chunk_size));
  const StencilRates& rates = rates_of(problem.target);
  const double of_weight = params.keeps_weights ? rates.kept_weight : rates.loaded_weight;
  return volume * static_cast<double>(counts.taps) * cost_of_tap(problem, params) +
         elements *
             (cost_of_element(problem.target, blocks, params) + cost_of_role(problem, params, StencilRole::window)) +
         weights * (of_weight + cost_of_role(problem, params, StencilRole::weight)) +
         volume * (rates.result + cost_of_role(problem, params, StencilRole::result));
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
  const std::int64_t run = params.along_window ? counts.row : chunk;
  // A row of the window is loaded in so many runs.
  const double runs = static_cast<double>(counts.rows * (params.along_window ? 1 : counts.row)) *
                      share_inside(problem.target, blocks, params);
  const std::int64_t chunks = counts.volume / chunk;
  const std::int64_t loads =
      static_cast<std::int64_t>(runs) * instructions_of_role(problem, schedule, StencilRole::window, run) +
      counts.weights * instructions_of_role(problem, schedule, StencilRole::weight, chunk) +
      instructions_of_role(problem, schedule, StencilRole::fixed, chunk) +
      chunks * instructions_of_role(problem, schedule, StencilRole::result, chunk);
  const std::int64_t stores = chunks * instructions_of_stores(problem, schedule);

  const std::int64_t count = blocks.count();
  count_bytes(problem.graph, problem.loops, schedule);
  schedule.cost.loads_executed = count * loads;
  schedule.cost.stores_executed = count * stores;
  const std::int64_t subgroup = std::max(8u, problem.target.caps.subgroup.size);
  schedule.cost.transactions = ceil_div(count, subgroup) * (loads + stores);
  const auto moved = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written);
  const double compute = arithmetic_of_block(problem, blocks, schedule, runs * static_cast<double>(run));
  const double accesses =
      static_cast<double>(loads + stores) + runs * accesses_of_lines(problem, blocks, schedule, run);
  const double slowed = static_cast<double>(count) * cost_of_spilling(problem.target, schedule.cost.registers) *
                        slowness_of_few_threads(problem.target, schedule);
  schedule.cost.modelled_us =
      modelled_us(costs_of(problem.target), 1, moved, compute * slowed, static_cast<std::int64_t>(accesses * slowed)) +
      fetching_us(problem, blocks, schedule);
}

}  // namespace vkfuse::schedule

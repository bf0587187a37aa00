// The tiled template: where loads run along other axes than the stores, a workgroup reads a box of positions as
// vectors along the loads' axes and computes it as vectors along the stores'. The elements change threads in
// shared memory.
#include <algorithm>
#include <bit>

#include "device_model/device_model.hpp"
#include "schedule/access.hpp"
#include "schedule/limits.hpp"
#include "schedule/traffic.hpp"
#include "templates/transpose/candidates.hpp"
#include "templates/transpose/geometry.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Value;

namespace {

/// Every device has as much, and one that has more runs several workgroups beside each other.
constexpr std::int64_t kSharedBytes = 16 << 10;
constexpr int kMostInvocations = 256;
constexpr std::size_t kMostAxes = 8;  // as many as the number of a block along an axis has names

/// Loads and stores that an element's way through shared memory takes as long as: it is written and read. A CPU
/// also puts every invocation of a workgroup aside at the barrier, with all that it holds.
std::int64_t accesses_of_staged_load(DeviceType type) { return type == DeviceType::cpu ? 8 : 2; }

/// A load whose memory runs along other axes than that of the stores.
struct StagedLoad {
  segment::ValueId value = 0;
  std::vector<int> order;  ///< memory_order
  int bytes = 0;           ///< of an element
  std::int64_t moved = 0;
};

struct StagingProblem {
  const ir::Graph& graph;
  const Loops& loops;
  const Tuning& tuning;
  segment::AxisSet varying = 0;
  std::vector<int> store_order;
  int store_bytes = 0;            ///< of an element of the narrowest store
  int widest = 1;                 ///< elements of a chunk
  std::vector<StagedLoad> loads;  ///< the one that moves most first
};

bool depends_on_any(const Value& load, std::span<const int> axes) {
  return std::any_of(axes.begin(), axes.end(), [&](int axis) {
    return std::any_of(load.predicates.begin(), load.predicates.end(), [&](const segment::Predicate& predicate) {
      return std::any_of(predicate.ranges.begin(), predicate.ranges.end(),
                         [&](const segment::Predicate::Range& range) { return index::depends_on(range.value, axis); });
    });
  });
}

/// Whether the tile can help a load at all: its memory and the stores' begin with the same axes, if any, and
/// these are less than a vector.
bool is_staged(const StagingProblem& problem, const Value& load, const StagedLoad& staged_load) {
  if (!load.data.empty() || staged_load.order.empty()) return false;
  std::size_t common = 0;
  std::int64_t run_bytes = staged_load.bytes;
  while (common < staged_load.order.size() && common < problem.store_order.size() &&
         staged_load.order[common] == problem.store_order[common]) {
    run_bytes *= size_of_axis(problem.loops, staged_load.order[common++]);
  }
  if (common == staged_load.order.size() || common == problem.store_order.size()) return false;
  if (run_bytes % 16 == 0 || run_bytes >= 64) return false;
  // A condition that differs inside the tile would be tested for every element.
  return !depends_on_any(load, std::span(staged_load.order).first(common + 1)) &&
         !depends_on_any(load, std::span(problem.store_order).first(common + 1));
}

std::optional<StagingProblem> match(const Problem& given) {
  const auto& [graph, loops, target, tuning, varying] = given;
  StagingProblem problem{graph, loops, tuning, varying, {}, 8, 1, {}};
  const int last = static_cast<int>(loops.axes.size()) - 1;
  std::int64_t most = 0;
  for (const segment::Store& store : loops.stores) {
    problem.store_bytes = std::min(problem.store_bytes, size_of(graph.node(store.node).type.dtype));
    std::vector<int> order = memory_order(loops, store.offset);
    if (order.empty() || order.front() != last || store.buffer_elements < most) continue;
    most = store.buffer_elements;
    problem.store_order = std::move(order);
  }
  if (problem.store_order.empty()) return std::nullopt;
  problem.widest = widest_chunk(moved_widths(graph, loops, ~segment::AxisSet{0}), tuning);
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const Value& load = loops.values[i];
    if (load.kind != Value::Kind::load) continue;
    StagedLoad staged_load{static_cast<segment::ValueId>(i), memory_order(loops, load.offset),
                           size_of(graph.node(load.node).type.dtype), 0};
    staged_load.moved = segment::elements_touched(loops, load) * staged_load.bytes;
    if (is_staged(problem, load, staged_load)) problem.loads.push_back(std::move(staged_load));
  }
  if (problem.loads.empty()) return std::nullopt;
  std::stable_sort(problem.loads.begin(), problem.loads.end(),
                   [](const StagedLoad& a, const StagedLoad& b) { return a.moved > b.moved; });
  return problem;
}

/// Extends a box along consecutive memory until about `requested` elements lie in a run, or memory ends. What
/// cuts an axis is a multiple of `step`; axes that vary are always cut, into powers of two.
void grow(const StagingProblem& problem, std::span<const int> order, std::int64_t requested, std::int64_t step,
          Sizes& extents) {
  std::int64_t length = 1;
  for (int axis : order) {
    if (length >= requested) return;
    const std::int64_t size = size_of_axis(problem.loops, axis);
    if ((problem.varying >> axis & 1) != 0) {
      std::int64_t& extent = extents[static_cast<std::size_t>(axis)];
      while (extent * length < requested && 2 * extent < size) extent *= 2;
      return;
    }
    // Cut into equal parts, so that the last tile is as full as the others.
    const std::int64_t parts = ceil_div(size, std::max(step, ceil_div(requested, length)));
    std::int64_t& extent = extents[static_cast<std::size_t>(axis)];
    extent = std::max(extent, std::min(size, ceil_div(ceil_div(size, parts), step) * step));
    if (extent < size) return;
    length *= size;
  }
}

/// The loop axes that chunks run across: while rows of the tile are short, or no multiple of a chunk.
int merged_axes(const StagingProblem& problem, const Sizes& extents) {
  const std::size_t count = extents.size();
  const auto along = [&](std::size_t axis) { return extents[axis] == problem.loops.axes[axis].size; };
  std::size_t merged = 1;
  std::int64_t columns = extents[count - 1];
  while (merged < problem.store_order.size() && problem.store_order[merged] == static_cast<int>(count - 1 - merged)) {
    const bool long_enough = columns * problem.store_bytes >= 64 && columns % problem.widest == 0;
    if (long_enough || !along(count - merged) || extents[count - 1 - merged] == 1) break;
    columns *= extents[count - 1 - merged];
    ++merged;
  }
  return static_cast<int>(merged);
}

/// The axes of consecutive memory that lie in the tile, up to the first that it cuts.
std::vector<int> run_in(const Loops& loops, const Sizes& extents, std::span<const int> order) {
  std::vector<int> run;
  for (int axis : order) {
    const std::int64_t extent = extents[static_cast<std::size_t>(axis)];
    if (extent == 1) break;
    run.push_back(axis);
    if (extent < size_of_axis(loops, axis)) break;
  }
  return run;
}

std::int64_t length_of(const Sizes& extents, std::span<const int> run) {
  std::int64_t length = 1;
  for (int axis : run) length *= extents[static_cast<std::size_t>(axis)];
  return length;
}

int chunk_elements(const StagingProblem& problem, const Box& box) {
  int count = problem.widest;
  while (count > 1 && (box.sizes.back() % count != 0 || box.columns % count != 0)) count /= 2;
  return count;
}

/// The widest load along a run: memory must be aligned wherever the run begins, and no tile may end inside.
int load_elements(const StagingProblem& problem, const TransposeParams& tile, const StagedLoad& staged_load,
                  std::span<const int> run) {
  constexpr index::AxisId kRun = 1 << 25;
  std::map<index::AxisId, Expr> map;
  std::int64_t size = 1;
  for (int axis : run) {
    map.emplace(axis, Expr(0));
    size *= size_of_axis(problem.loops, axis);
  }
  const Expr along = index::substitute(problem.loops.values[staged_load.value].offset, map) + Expr::axis(kRun, size);
  const std::int64_t length = length_of(tile.extents, run);
  for (int bytes = problem.tuning.vector_bytes.value_or(16); bytes >= std::max(4, staged_load.bytes); bytes /= 2) {
    const int count = bytes / staged_load.bytes;
    if (size % count != 0 || length % count != 0) continue;
    const auto found = index::run_along(along, kRun, size, count, count);
    if (found && found->stride == 1 && found->alignment == count) return count;
  }
  return 1;
}

TransposedLoad transposed(const StagingProblem& problem, const TransposeParams& tile, const StagedLoad& staged_load,
                          int chunks_of) {
  TransposedLoad load;
  load.value = staged_load.value;
  load.run = run_in(problem.loops, tile.extents, staged_load.order);
  load.elements = load_elements(problem, tile, staged_load, load.run);
  const int last = static_cast<int>(tile.extents.size()) - 1;
  const int per_word = std::max(1, 4 / staged_load.bytes);
  const bool apart = tile.merged == 1 && std::find(load.run.begin(), load.run.end(), last) == load.run.end();
  if (apart && tile.extents.back() % per_word == 0 && chunks_of % per_word == 0) load.packed = per_word;
  return load;
}

std::int64_t shared_bytes(const StagingProblem& problem, const TransposeParams& tile) {
  const Box box = box_of(problem.loops, tile);
  std::int64_t bytes = 0;
  for (const TransposedLoad& load : tile.loads) {
    const ir::NodeId node = problem.loops.values[load.value].node;
    bytes += array_of(box, load).entries * std::max(4, size_of(problem.graph.node(node).type.dtype));
  }
  return bytes;
}

/// Positions that the tiles of a launch have, for each that there is.
double waste_of(const Loops& loops, const Box& box) {
  return static_cast<double>(box.tiles()) * static_cast<double>(box.volume()) / static_cast<double>(loops.count());
}

/// How much longer than without tiles the memory is thought to take.
double slowness(const StagingProblem& problem, const Transposition& model, const TransposeParams& tile,
                double bytes_per_position) {
  const Box box = box_of(problem.loops, tile);
  const StagedLoad& most = problem.loads.front();
  const auto run_cost = [&](std::span<const int> order, int bytes) {
    return model.run_bytes /
           static_cast<double>(length_of(tile.extents, run_in(problem.loops, tile.extents, order)) * bytes);
  };
  const double runs = 1 + run_cost(most.order, most.bytes) + run_cost(problem.store_order, problem.store_bytes);
  return waste_of(problem.loops, box) * runs *
         (1 + model.workgroup_bytes / (static_cast<double>(box.volume()) * bytes_per_position));
}

/// The tile of the loads that cross, whose chunks have `chunks_of` elements.
TransposeParams tile_of(const StagingProblem& problem, Sizes extents, int& chunks_of) {
  TransposeParams tile{std::move(extents), 1, {}};
  tile.merged = merged_axes(problem, tile.extents);
  chunks_of = chunk_elements(problem, box_of(problem.loops, tile));
  for (const StagedLoad& staged_load : problem.loads) {
    TransposedLoad load = transposed(problem, tile, staged_load, chunks_of);
    if (length_of(tile.extents, load.run) > 1) tile.loads.push_back(std::move(load));
  }
  return tile;
}

std::int64_t volume_of(const Sizes& extents) {
  std::int64_t volume = 1;
  for (std::int64_t extent : extents) volume *= extent;
  return volume;
}

std::optional<TransposeParams> best_tile(const StagingProblem& problem, const Target& target, double bytes_per_position,
                                         int& chunks_of) {
  const std::int64_t most_shared = std::min<std::int64_t>(target.caps.workgroup.shared_memory_bytes, kSharedBytes);
  std::optional<TransposeParams> best;
  double best_cost = 0;
  std::vector<Sizes> seen;
  const std::int64_t step = std::max(8, 16 / std::min(problem.loads.front().bytes, problem.store_bytes));
  for (std::int64_t load_run = 8; load_run <= 1024; load_run *= 2) {
    for (std::int64_t store_run = 1024; store_run >= 8; store_run /= 2) {
      Sizes extents(problem.loops.axes.size(), 1);
      grow(problem, problem.loads.front().order, load_run, step, extents);
      grow(problem, problem.store_order, store_run, step, extents);
      if (std::find(seen.begin(), seen.end(), extents) != seen.end()) continue;
      seen.push_back(extents);
      if (volume_of(extents) * problem.loads.front().bytes > most_shared) continue;
      int elements = 1;
      TransposeParams tile = tile_of(problem, std::move(extents), elements);
      if (tile.loads.empty() || shared_bytes(problem, tile) > most_shared) continue;
      const double cost = slowness(problem, device_model(target).transposition, tile, bytes_per_position);
      if (best && cost >= best_cost) continue;
      best = std::move(tile);
      best_cost = cost;
      chunks_of = elements;
    }
  }
  return best;
}

/// Loads that chunks could not have as vectors go through shared memory; the others stay as they are.
void plan_transposed(const StagingProblem& problem, Schedule& schedule) {
  TransposeParams& params = schedule.as<TransposeParams>();
  std::erase_if(params.loads, [&](const TransposedLoad& load) {
    return schedule.chunk_size > 1 && schedule.loads[load.value].kind != AccessKind::element;
  });
  const auto bytes = [&](const TransposedLoad& load) {
    return size_of(problem.graph.node(problem.loops.values[load.value].node).type.dtype);
  };
  for (const TransposedLoad& load : params.loads) {
    schedule.loads[load.value] = {AccessKind::transposed, std::max(4, load.elements * bytes(load))};
    schedule.loads[load.value].run = run_length(params, load);
  }
  // Where such an element decides what is loaded, it is known for one element after the other, and not before whole
  // chunks are.
  const std::vector<Value>& values = problem.loops.values;
  std::vector<bool> staged(values.size(), false);
  const auto any_staged = [&](const std::vector<segment::ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](segment::ValueId id) { return staged[id]; });
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    staged[i] = schedule.loads[i].kind == AccessKind::transposed || any_staged(values[i].operands) ||
                any_staged(values[i].data);
    if (values[i].kind == Value::Kind::load && schedule.loads[i].kind == AccessKind::vector &&
        any_staged(values[i].data)) {
      schedule.loads[i] = {AccessKind::element, std::max(4, size_of(problem.graph.node(values[i].node).type.dtype))};
    }
  }
  share_word_types(problem.graph, problem.loops, schedule);
  for (TransposedLoad& load : params.loads) {
    load.elements = std::min(load.elements, std::max(1, schedule.loads[load.value].vector_bytes / bytes(load)));
  }
}

/// A workgroup for each tile.
void place_tiles(const Target& target, const Box& box, Schedule& schedule) {
  schedule.launch.workgroups = box.tiles();
  schedule.launch.workgroups_x =
      std::min<std::int64_t>(schedule.launch.workgroups, target.caps.workgroup.max_groups_per_axis);
}

void choose_launch(const Target& target, const Tuning& tuning, const Box& box, Schedule& schedule) {
  const int limit = static_cast<int>(usable_invocations(target.caps));
  const std::int64_t chunks = box.volume() / schedule.chunk_size;
  std::int64_t units = chunks / 4;
  for (const TransposedLoad& load : schedule.as<TransposeParams>().loads)
    units = std::max(units, unit_count(box, load));
  // As few threads as idle least in the last trip.
  const std::int64_t iterations = ceil_div(units, std::min(limit, kMostInvocations));
  const int requested = static_cast<int>(ceil_div(ceil_div(units, iterations), 32) * 32);
  schedule.workgroup = std::min(tuning.workgroup.value_or(requested), limit);
  schedule.unroll_factor = static_cast<int>(ceil_div(chunks, schedule.workgroup));
  place_tiles(target, box, schedule);
}

void count_accesses(const StagingProblem& problem, const Loops& merged, const Target& target, Schedule& schedule) {
  TransposeParams& params = schedule.as<TransposeParams>();
  const int subgroup = static_cast<int>(std::max(8u, target.caps.subgroup.size));
  const std::int64_t groups = ceil_div(schedule.launch.chunks, subgroup);
  const auto bytes = [&](ir::NodeId node) { return size_of(problem.graph.node(node).type.dtype); };
  for (std::size_t i = 0; i < merged.values.size(); ++i) {
    const Value& value = merged.values[i];
    if (value.kind != Value::Kind::load || schedule.loads[i].kind == AccessKind::transposed) continue;
    schedule.cost.loads_executed +=
        schedule.launch.chunks * instructions(schedule.loads[i], bytes(value.node), schedule.chunk_size);
    schedule.cost.transactions += groups * lines(schedule.loads[i], bytes(value.node), schedule.chunk_size, subgroup);
  }
  for (const TransposedLoad& load : params.loads) {
    const int own = bytes(merged.values[load.value].node);
    schedule.cost.loads_executed += ceil_div(schedule.launch.elements, load.elements);
    const std::int64_t run = run_length(params, load);
    schedule.cost.transactions += ceil_div(schedule.launch.elements, run) * ceil_div(run * own, 128);
  }
  for (std::size_t i = 0; i < merged.stores.size(); ++i) {
    const int own = bytes(merged.stores[i].node);
    schedule.cost.stores_executed +=
        schedule.launch.chunks * instructions(schedule.stores[i], own, schedule.chunk_size);
    schedule.cost.transactions += groups * lines(schedule.stores[i], own, schedule.chunk_size, subgroup);
  }
}

int estimate_registers(const StagingProblem& problem, const Box& box, const Schedule& schedule) {
  int words = 24;
  for (std::size_t i = 0; i < problem.loops.values.size(); ++i) {
    const Value& value = problem.loops.values[i];
    if (value.kind != Value::Kind::load || schedule.loads[i].kind != AccessKind::vector) continue;
    words += schedule.unroll_factor * schedule.chunk_size * size_of(problem.graph.node(value.node).type.dtype) / 4;
  }
  for (const TransposedLoad& load : schedule.as<TransposeParams>().loads) {
    const auto iterations = static_cast<int>(ceil_div(unit_count(box, load), schedule.workgroup));
    words += std::min(iterations, 4) * load.packed * schedule.loads[load.value].vector_bytes / 4;
  }
  return words;
}

/// What follows from the loops, before a tile is known.
Schedule begin_schedule(const Problem& problem) {
  Schedule schedule;
  schedule.params.emplace<TransposeParams>();
  schedule.launch.elements = problem.loops.count();
  schedule.wide = schedule.launch.elements >= (std::int64_t{1} << 31);
  schedule.full_chunks = true;
  count_bytes(problem.graph, problem.loops, schedule);
  return schedule;
}

/// Counts what the launch does, and models its time.
void model(const StagingProblem& problem, const Loops& merged, const Target& target, Schedule& schedule) {
  const auto& params = schedule.as<TransposeParams>();
  const Box box = box_of(problem.loops, params);
  count_accesses(problem, merged, target, schedule);
  schedule.cost.registers = estimate_registers(problem, box, schedule);
  // Threads whose position does not exist keep no memory busy.
  const std::int64_t staged =
      schedule.launch.elements * static_cast<std::int64_t>(params.loads.size()) * accesses_of_staged_load(target.type);
  schedule.cost.modelled_us =
      modelled_us(costs_of(target), 1, traffic(problem.graph, merged, target, schedule) * waste_of(problem.loops, box),
                  compute_cost(problem.graph, problem.loops),
                  schedule.cost.loads_executed + schedule.cost.stores_executed + staged);
}

/// Whether the tile and its loads are possible at the sizes of these loops.
bool fits(const StagingProblem& problem, const Schedule& requested) {
  const auto& tile = requested.as<TransposeParams>();
  const std::vector<segment::Axis>& axes = problem.loops.axes;
  const auto is_whole = [&](std::size_t axis) { return axes[axis].size == tile.extents[axis]; };
  for (std::size_t axis = axes.size() - static_cast<std::size_t>(tile.merged) + 1; axis < axes.size(); ++axis) {
    if (!is_whole(axis)) return false;
  }
  if (box_of(problem.loops, tile).sizes.back() % requested.chunk_size != 0) return false;
  return std::all_of(tile.loads.begin(), tile.loads.end(), [&](const TransposedLoad& load) {
    const Value& value = problem.loops.values[load.value];
    const StagedLoad staged_load{load.value, memory_order(problem.loops, value.offset),
                                 size_of(problem.graph.node(value.node).type.dtype), 0};
    for (std::size_t i = 0; i < load.run.size(); ++i) {
      if (i >= staged_load.order.size() || staged_load.order[i] != load.run[i]) return false;
      if (i + 1 < load.run.size() && !is_whole(static_cast<std::size_t>(load.run[i]))) return false;
    }
    return load_elements(problem, tile, staged_load, load.run) >= load.elements;
  });
}

}  // namespace

std::optional<Schedule> best_transpose(const Problem& problem) {
  if (problem.loops.empty || problem.loops.axes.size() < 2 || problem.loops.axes.size() > kMostAxes)
    return std::nullopt;
  const auto staging = match(problem);
  if (!staging) return std::nullopt;
  Schedule schedule = begin_schedule(problem);
  auto& params = schedule.as<TransposeParams>();
  const double bytes_per_position = static_cast<double>(schedule.cost.bytes_read + schedule.cost.bytes_written) /
                                    static_cast<double>(schedule.launch.elements);
  auto tile = best_tile(*staging, problem.target, bytes_per_position, schedule.chunk_size);
  if (!tile) return std::nullopt;
  params = *std::move(tile);
  const Loops merged = merge_inner(problem.loops, params.merged);
  schedule.vector_axis = static_cast<int>(merged.axes.size()) - 1;
  schedule.launch.chunks = schedule.launch.elements / schedule.chunk_size;
  plan_accesses(problem.graph, merged, problem.tuning, schedule);
  plan_transposed(*staging, schedule);
  if (params.loads.empty()) return std::nullopt;
  schedule.shared_bytes = shared_bytes(*staging, params);
  choose_launch(problem.target, problem.tuning, box_of(problem.loops, params), schedule);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule).ok()) return std::nullopt;
  model(*staging, merged, problem.target, schedule);
  return schedule;
}

std::optional<Schedule> transpose_at_other_sizes(const Problem& problem, const Schedule& requested) {
  const auto& tile = requested.as<TransposeParams>();
  if (problem.loops.axes.size() != tile.extents.size()) return std::nullopt;
  const StagingProblem staging{problem.graph, problem.loops, problem.tuning, problem.varying, {}, 8, 1, {}};
  if (!fits(staging, requested)) return std::nullopt;
  Schedule schedule = begin_schedule(problem);
  if (schedule.wide != requested.wide) return std::nullopt;
  schedule.params = tile;
  const Loops merged = merge_inner(problem.loops, tile.merged);
  schedule.vector_axis = requested.vector_axis;
  schedule.chunk_size = requested.chunk_size;
  schedule.launch.chunks = schedule.launch.elements / schedule.chunk_size;
  plan_accesses(problem.graph, merged, problem.tuning, schedule);
  for (const TransposedLoad& load : tile.loads) schedule.loads[load.value] = requested.loads[load.value];
  if (!serve(schedule, requested)) return std::nullopt;
  schedule.loads = requested.loads;
  schedule.stores = requested.stores;
  schedule.shared_bytes = requested.shared_bytes;
  schedule.workgroup = requested.workgroup;
  schedule.unroll_factor = requested.unroll_factor;
  place_tiles(problem.target, box_of(problem.loops, tile), schedule);
  if (!check_limits(problem.graph, problem.loops, problem.target, schedule).ok()) return std::nullopt;
  model(staging, merged, problem.target, schedule);
  return schedule;
}

void describe_transpose(const Schedule& schedule, Description& description) {
  const auto& params = schedule.as<TransposeParams>();
  description.choices["tile"] = params.extents;
  description.more_launch.push_back(
      fmt::format("tiles of [{}], {} bytes of shared memory", fmt::join(params.extents, ", "), schedule.shared_bytes));
}

}  // namespace vkfuse::schedule
